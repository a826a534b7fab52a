import type { FastifyReply, FastifyRequest, FastifySchema, FastifySchemaCompiler } from 'fastify';
import { Readable } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { unknownField, type Warnings } from '#core/domain/fault/warning.ts';
import type { CallerOf, RouteAuth } from '../../auth/auth.ts';
import { fieldNamesOf, NO_NAMES, type FieldNames } from '../input/case-aliases.ts';
import { inputCompilerFor } from '../input/read-input.ts';
import { goneSignal } from './gone-signal.ts';
import { requestClaim, withoutKey } from './request-claim.ts';
import { warningsOf, withWarnings } from './request-warnings.ts';
import type { Answer, RequestFacts, Route, RouteDocs, RouteModule } from './route.ts';
import { takeUpload, type Upload } from '../input/upload.ts';

/** What a route declares besides its handler. */
type Declared = Omit<Route<RouteAuth, z.ZodObject, z.ZodObject, z.ZodType, z.ZodType>, 'handler'>;

/** Declares one route: authentication, input, output and documentation in one place, beside the handler. */
export function defineRoute<
  const A extends RouteAuth,
  P extends z.ZodObject,
  Q extends z.ZodObject,
  B extends z.ZodType,
  R extends z.ZodType,
>(route: Route<A, P, Q, B, R>): RouteModule {
  return (app) => {
    const docs = docsOf(route);
    const { large, upload, fingerprinted = (sent: unknown) => sent } = route;
    const uploads = new WeakMap<FastifyRequest, Upload>();
    assertWarns(route, docs);
    app.route({
      method: route.method,
      url: route.path,
      config: { auth: route.auth, docs, ...(large === undefined ? {} : { exemptBytes: large.exempt }) },
      ...(large === undefined ? {} : { bodyLimit: large.bytesMax }),
      schema: schemaOf(route, docs.status),
      validatorCompiler: inputCompilerFor(fixedFields(route)) as FastifySchemaCompiler<unknown>,
      ...(upload === undefined
        ? {}
        : {
            preParsing: (request, _reply, payload, done) => {
              takeUpload(app, request, upload).then((file) => {
                uploads.set(request, file);
                done(null, payload);
              }, done);
            },
          }),
      handler: async (request, reply) => {
        const warnings = inputWarnings(route, request);
        const answer = await route.handler({
          caller: request.caller as CallerOf<A>,
          params: request.params as z.output<P>,
          query: request.query as z.output<Q>,
          body: (docs.idempotent ? withoutKey(request.body) : request.body) as z.output<B>,
          upload: uploads.get(request) ?? null,
          idempotency: docs.idempotent
            ? requestClaim(app.fingerprintKey, request, { path: route.path, fingerprinted, warnings })
            : null,
          warnings,
          request: factsOf(request),
          gone: () => goneSignal(request.response),
        });
        return send(reply, docs.status, answer, warnings, route.response);
      },
    });
  };
}

function docsOf(route: Declared): RouteDocs {
  const hasAnswer = route.response !== undefined || route.download !== undefined;
  return {
    operation: route.operation,
    status: route.status ?? (hasAnswer ? 200 : 204),
    idempotent: route.idempotent ?? false,
    hasInput: route.body !== undefined || route.query !== undefined,
    errors: route.errors ?? [],
    ...(route.versioned === undefined ? {} : { versioned: route.versioned }),
    ...(route.csv === undefined ? {} : { csv: route.csv }),
    ...(route.upload === undefined ? {} : { upload: route.upload }),
    ...(route.download === undefined ? {} : { download: route.download }),
    ...(route.examples === undefined ? {} : { examples: route.examples }),
  };
}

function schemaOf(route: Declared, status: number): FastifySchema {
  const { params, query, body, response } = route;
  return {
    summary: route.summary,
    description: route.description,
    tags: [route.tag],
    operationId: route.operation,
    ...(params === undefined ? {} : { params }),
    ...(query === undefined ? {} : { querystring: query }),
    ...(body === undefined ? {} : { body }),
    ...(response === undefined ? {} : { response: { [status]: response } }),
  };
}

/** Returns the warnings that reading the input gave, and those about input that the route does not take. */
function inputWarnings(
  { method, body, query, idempotent }: Pick<Declared, 'method' | 'body' | 'query' | 'idempotent'>,
  request: FastifyRequest,
): Warnings {
  const warnings = warningsOf(request.body, request.query);
  if (body === undefined && isGiven(request.body)) {
    warnings.add({ field: 'body', message: 'Ignored: this request takes no body' });
  }
  // The other methods may be repeated without one.
  if (method === 'POST' && idempotent !== true && request.headers['idempotency-key'] !== undefined) {
    const message = 'Ignored: this request takes no idempotency key';
    warnings.add({ field: 'Idempotency-Key', message });
  }
  if (query === undefined) {
    for (const name of Object.keys(request.query ?? {})) {
      warnings.add(unknownField('', name, [], 'query parameter').warning);
    }
  }
  return warnings;
}

/** Returns the fields of a changed resource that a change does not take; other requests name none. */
function fixedFields({ method, body, response, made }: Declared): FieldNames {
  if ((method !== 'PATCH' && method !== 'PUT') || body === undefined || response === undefined)
    return NO_NAMES;
  const names = new Map(
    [response, ...(made === undefined ? [] : [made])].flatMap((one) => [...fieldNamesOf(one)]),
  );
  // Parts of requests and answers, not of resources.
  for (const name of ['warnings', 'idempotencyKey', 'idempotency_key']) names.delete(name);
  return names;
}

function factsOf(request: FastifyRequest): RequestFacts {
  const { id, ip, appName, bodyBytes, span } = request;
  const { auth } = request.routeOptions.config;
  return {
    id,
    ip,
    appName,
    role: auth !== undefined && 'role' in auth ? auth.role : null,
    bodyBytes,
    traceparent: span?.traceparent ?? null,
    ifMatch: request.headers['if-match'] ?? null,
    ifNoneMatch: request.headers['if-none-match'] ?? null,
    accept: request.headers.accept ?? '',
  };
}

/**
 * Asserts that a route that may ignore unknown input has `warnings` in its answer, so that it can name that input. A route that
 * takes none may be sent some all the same; it cannot name that in an answer that is a list, nor in a document for the public.
 */
function assertWarns({ path, auth, response }: Declared, { hasInput }: RouteDocs): void {
  if (response === undefined) return;
  const isObject = response instanceof z.ZodObject;
  const canWarn = isObject && Object.hasOwn(response.shape, 'warnings');
  if (!canWarn && (hasInput || (isObject && auth.kind !== 'none')))
    throw new Error(`the response of ${path} lacks warningsField`);
}

function isGiven(body: unknown): boolean {
  return body !== undefined && body !== null && (typeof body !== 'object' || Object.keys(body).length > 0);
}

function send(
  reply: FastifyReply,
  status: number,
  answer: Answer<unknown>,
  warnings: Warnings,
  response: z.ZodType | undefined,
): FastifyReply | Promise<FastifyReply> {
  reply.code(answer.status ?? status);
  if (answer.messageId !== undefined) reply.request.messageId = answer.messageId;
  if (answer.replayed === true) reply.header('idempotent-replayed', 'true');
  for (const [name, value] of Object.entries(answer.headers ?? {})) reply.header(name, value);
  if (answer.download !== undefined) return sendFile(reply, answer.download);
  if (answer.csv !== undefined) return reply.type('text/csv; charset=utf-8').send(answer.csv);
  if (answer.replayed === true || answer.hasStored === true) {
    reply.serializer((body) => storedJson(response, body)).type('application/json; charset=utf-8');
  }
  // A replay has the stored warnings of the first answer.
  return reply.send(answer.replayed === true ? answer.body : withWarnings(answer.body, warnings));
}

async function sendFile(
  reply: FastifyReply,
  { type, name, open }: NonNullable<Answer<unknown>['download']>,
): Promise<FastifyReply> {
  // A HEAD request has no file; its answer leaves the length open, as that to a GET does.
  const file = reply.request.method === 'HEAD' ? undefined : await open();
  reply.header('content-disposition', `attachment; filename="${name}"`);
  return reply
    .type(type)
    .send(file === undefined ? Readable.from([]) : Readable.from(file.parts, { signal: file.signal }));
}

/**
 * Serializes an answer that was stored: exactly as it was first sent, also if that was by another release, whose schema had fewer
 * fields or more. The schema only restores the order of the fields.
 */
function storedJson(response: z.ZodType | undefined, body: unknown): string {
  const encoded = response?.safeEncode(body);
  return JSON.stringify(encoded?.success && isDeepStrictEqual(encoded.data, body) ? encoded.data : body);
}
