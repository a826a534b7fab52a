import type { KeyObject } from 'node:crypto';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { validationFailed, type ErrorCode } from '#core/domain/app-error.ts';
import type { Role } from '#core/domain/role.ts';
import { unknownField, type Warnings } from '#core/domain/warning.ts';
import type { Span } from '#core/platform/telemetry/telemetry.ts';
import type { CallerOf, Caller, RouteAuth } from '../auth/auth.ts';
import {
  IDEMPOTENCY_KEY,
  IDEMPOTENCY_KEY_RULE,
  idempotencyClaim,
  idempotencyKeyOf,
  type IdempotencyClaim,
} from './idempotency.ts';
import { isGivenTwice } from './given-twice.ts';
import type { RawBounds } from './read-body.ts';
import { goneSignal } from './gone-signal.ts';
import { inputOf } from './parsed-input.ts';
import { takeUpload, type Upload, type UploadRules } from './upload.ts';
import type { Tag } from './tags.ts';
import { warningsOf, withWarnings } from './request-warnings.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated caller; null on open routes and before authentication. */
    caller: Caller | null;
    /** When the caller was admitted, on the monotonic clock; 0 before. */
    admittedAt: number;
    /** For how long the api has waited for the client to send its body, in milliseconds. */
    uploadMs: number;
    /** The client's own name: at most 64 characters of a safe alphabet. */
    appName: string | null;
    span: Span | null;
    response: ServerResponse | null;
    /** Size of the request's body; 0 until the body has been read. */
    bodyBytes: number;
    /** Code of the error that answered the request. */
    errorCode: ErrorCode | null;
    /** The message that the request is about. */
    messageId: string | null;
    /** The account to which a vendor reports; null for other requests and where the URL names no account. */
    reportedTo: { readonly tenantId: string; readonly providerId?: string } | null;
  }
  interface FastifyContextConfig {
    auth?: RouteAuth;
    docs?: RouteDocs;
    /** Returns how many bytes of a long body do not count towards the size limit. */
    exemptBytes?: (body: unknown) => number;
    /** Passes query and body as bytes. */
    isRaw?: true;
  }
  interface FastifyInstance {
    /** Reads a body of any type unchanged. */
    readRaw: (request: FastifyRequest, bounds: RawBounds) => Promise<Buffer>;
    /** Key of idempotency fingerprints. */
    fingerprintKey: KeyObject;
  }
}

/** What the OpenAPI document says of a route besides its schemas. */
export type RouteDocs = {
  /** The operation's unique name, such as `sendMessage`; generated clients name their functions after it. */
  readonly operation: string;
  readonly status: number;
  readonly idempotent: boolean;
  readonly hasInput: boolean;
  /** Takes bytes of any type, and may answer 200 with the body that its caller expects: possible types, each with an example. */
  readonly rawAnswers?: Readonly<Record<string, string>>;
  /** Can also answer with `text/csv`. */
  readonly csv?: true;
  /** Takes a file, with rules by type. */
  readonly upload?: UploadRules;
  /** Answers with a file: its possible types, each with an example. */
  readonly download?: Readonly<Record<string, string>>;
  readonly errors: readonly ErrorCode[];
  /** Answers with `ETag`; a change takes `If-Match`. */
  readonly versioned?: true;
  readonly examples?: Examples;
};

/** Example bodies by name, in OpenAPI's form. */
export type Examples = Readonly<Record<string, { readonly summary: string; readonly value: unknown }>>;

/** Adds routes to the app. A factory function creates it from the handlers' dependencies. */
export type RouteModule = (app: FastifyInstance) => void;

export type RouteContext<A extends RouteAuth, P, Q, B> = {
  readonly caller: CallerOf<A>;
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  /** The file; null on routes that take none. */
  readonly upload: Upload | null;
  /** Null where the request has no idempotency key. */
  readonly idempotency: IdempotencyClaim | null;
  /** The warnings of the answer. A handler may add warnings until it answers or stores its answer. */
  readonly warnings: Warnings;
  readonly request: RequestFacts;
  /** Aborts when the client disconnects before the answer is complete. Created only for handlers that read it. */
  readonly gone: AbortSignal;
};

/** Facts about a request for the audit log. */
export type RequestFacts = {
  readonly id: string;
  readonly ip: string;
  readonly appName: string | null;
  /** The least role of a member that may call the route; null where no role is needed. */
  readonly role: Role | null;
  /** Size of the body. */
  readonly bodyBytes: number;
  /** Trace context of the request's span; null while tracing is off. */
  readonly traceparent: string | null;
  /** The header `If-Match`; null without one. */
  readonly ifMatch: string | null;
  /** The header `Accept`; empty without one. */
  readonly accept: string;
};

export type Answer<Body> = {
  readonly body: Body;
  /** Default: the route's `status`. */
  readonly status?: number;
  /** Whether the body is the answer to an earlier request with the same idempotency key. */
  readonly replayed?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent instead of the body, as `text/csv`. */
  readonly csv?: string;
  /**
   * Streamed instead of the body. If it throws or the signal aborts, the connection breaks off, so that the client sees that
   * the file is incomplete.
   */
  readonly download?: {
    readonly type: string;
    readonly name: string;
    readonly parts: AsyncIterable<string>;
    readonly signal: AbortSignal;
  };
  /** The message that the answer is about, for the request's log line. */
  readonly messageId?: string;
};

export type Route<
  A extends RouteAuth,
  P extends z.ZodObject,
  Q extends z.ZodObject,
  B extends z.ZodType,
  R extends z.ZodType,
> = {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: `/v1/${string}`;
  readonly operation: RouteDocs['operation'];
  readonly summary: string;
  readonly description: string;
  readonly tag: Tag;
  readonly auth: A;
  /** Path parameters; invalid values are answered with 404. */
  readonly params?: P;
  /** Query parameters, in camelCase. Both spellings are read; unknown parameters are named in `warnings`. */
  readonly query?: Q;
  /**
   * Body, in camelCase. Both spellings are read; unknown fields are dropped and named in `warnings`. Its meta has an `id` and an
   * example.
   */
  readonly body?: B;
  /** The bound of a body beyond the usual megabyte, and the bytes in it that do not count towards the usual limit. */
  readonly large?: { readonly bytesMax: number; readonly exempt: (body: unknown) => number };
  /** Takes a file instead of a JSON body. The handler must yield to the event loop while it reads the file. */
  readonly upload?: UploadRules;
  /** Answers with a file: its possible types, each with an example. */
  readonly download?: Readonly<Record<string, string>>;
  /** Reads an idempotency key from the header, or from `idempotencyKey` in the body, which the handler does not see. */
  readonly idempotent?: boolean;
  /**
   * Returns what is compared between two bodies under one idempotency key. Default: `sent` itself.
   * @param sent the body as the client sent it, in one spelling and without the key.
   */
  readonly fingerprinted?: (sent: unknown) => unknown;
  /** Answers with `ETag`; a change takes `If-Match`. */
  readonly versioned?: true;
  /** Status of success. Default 200; 204 without `response`. */
  readonly status?: number;
  /** Schema of the body; its meta has an `id` and an example. */
  readonly response?: R;
  /** The answer can be `text/csv` instead. */
  readonly csv?: true;
  /** Error codes that are specific to this route, for the document. */
  readonly errors?: readonly ErrorCode[];
  readonly examples?: Examples;
  readonly handler: (
    context: RouteContext<A, z.output<P>, z.output<Q>, z.output<B>>,
  ) => Promise<Answer<z.output<R>>>;
};

/** Path parameter `id`: a UUID in any case. */
export const IdParams = z.object({
  id: z
    .uuid()
    .transform((id) => id.toLowerCase())
    .describe('Id of the resource in the path.'),
});

export const idempotencyKeyField = z
  .string()
  .regex(IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_RULE)
  .optional()
  .describe(
    'Makes the call repeatable; used instead of the header `Idempotency-Key`. 1 to 255 printable ASCII characters, bare or in double quotes.',
  );

/** Declares one route: authentication, input, output and documentation in one place, beside the handler. */
export function defineRoute<
  const A extends RouteAuth,
  P extends z.ZodObject,
  Q extends z.ZodObject,
  B extends z.ZodType,
  R extends z.ZodType,
>(route: Route<A, P, Q, B, R>): RouteModule {
  return (app) => {
    const hasAnswer = route.response !== undefined || route.download !== undefined;
    const status = route.status ?? (hasAnswer ? 200 : 204);
    const idempotent = route.idempotent ?? false;
    const { params, query, body, response, large, upload } = route;
    const { fingerprinted = (sent: unknown) => sent } = route;
    const uploads = new WeakMap<FastifyRequest, Upload>();
    const docs: RouteDocs = {
      operation: route.operation,
      status,
      idempotent,
      hasInput: body !== undefined || query !== undefined,
      errors: route.errors ?? [],
      ...(route.versioned === undefined ? {} : { versioned: route.versioned }),
      ...(route.csv === undefined ? {} : { csv: route.csv }),
      ...(upload === undefined ? {} : { upload }),
      ...(route.download === undefined ? {} : { download: route.download }),
      ...(route.examples === undefined ? {} : { examples: route.examples }),
    };
    assertWarns(route.path, docs, response);
    app.route({
      method: route.method,
      url: route.path,
      config: { auth: route.auth, docs, ...(large === undefined ? {} : { exemptBytes: large.exempt }) },
      ...(large === undefined ? {} : { bodyLimit: large.bytesMax }),
      // A HEAD request would read the whole file and discard it.
      ...(route.download === undefined ? {} : { exposeHeadRoute: false }),
      schema: {
        summary: route.summary,
        description: route.description,
        tags: [route.tag],
        operationId: route.operation,
        ...(params === undefined ? {} : { params }),
        ...(query === undefined ? {} : { querystring: query }),
        ...(body === undefined ? {} : { body }),
        ...(response === undefined ? {} : { response: { [status]: response } }),
      },
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
        const warnings = warningsOf(request.body, request.query);
        if (body === undefined && isGiven(request.body)) {
          warnings.add({ field: 'body', message: 'Ignored: this request takes no body' });
        }
        if (query === undefined) {
          for (const name of Object.keys(request.query ?? {})) {
            warnings.add(unknownField('', name, [], 'query parameter').warning);
          }
        }
        const claim = idempotent
          ? claimOf(app, request, { path: route.path, fingerprinted, warnings })
          : null;
        const answer = await route.handler(
          new Context(request.response, {
            caller: request.caller as CallerOf<A>,
            params: request.params as z.output<P>,
            query: request.query as z.output<Q>,
            body: (idempotent ? withoutKey(request.body) : request.body) as z.output<B>,
            upload: uploads.get(request) ?? null,
            idempotency: claim,
            warnings,
            request: factsOf(request),
          }),
        );
        return send(reply, status, answer, warnings);
      },
    });
  };
}

/** A class because of its getters: defining a getter on each request's object takes a call into the runtime. */
class Context<A extends RouteAuth, P, Q, B> implements RouteContext<A, P, Q, B> {
  readonly caller: CallerOf<A>;
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly upload: Upload | null;
  readonly idempotency: IdempotencyClaim | null;
  readonly warnings: Warnings;
  readonly request: RequestFacts;
  readonly #response: ServerResponse | null;

  constructor(response: ServerResponse | null, known: Omit<RouteContext<A, P, Q, B>, 'gone'>) {
    this.caller = known.caller;
    this.params = known.params;
    this.query = known.query;
    this.body = known.body;
    this.upload = known.upload;
    this.idempotency = known.idempotency;
    this.warnings = known.warnings;
    this.request = known.request;
    this.#response = response;
  }

  get gone(): AbortSignal {
    return goneSignal(this.#response);
  }
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
    accept: request.headers.accept ?? '',
  };
}

/** Asserts that a route that may ignore unknown input has `warnings` in its answer, so that it can name that input. */
function assertWarns(path: string, { hasInput }: RouteDocs, response: z.ZodType | undefined): void {
  if (!hasInput || response === undefined) return;
  const canWarn = response instanceof z.ZodObject && Object.hasOwn(response.shape, 'warnings');
  if (!canWarn) throw new Error(`the response of ${path} lacks warningsField`);
}

function isGiven(body: unknown): boolean {
  return body !== undefined && body !== null && (typeof body !== 'object' || Object.keys(body).length > 0);
}

function send(
  reply: FastifyReply,
  status: number,
  answer: Answer<unknown>,
  warnings: Warnings,
): FastifyReply {
  reply.code(answer.status ?? status);
  if (answer.messageId !== undefined) reply.request.messageId = answer.messageId;
  if (answer.replayed === true) reply.header('idempotent-replayed', 'true');
  for (const [name, value] of Object.entries(answer.headers ?? {})) reply.header(name, value);
  if (answer.download !== undefined) {
    const { type, name, parts, signal } = answer.download;
    reply.headers({
      'content-disposition': `attachment; filename="${name}"`,
      'x-content-type-options': 'nosniff',
    });
    return reply.type(type).send(Readable.from(parts, { signal }));
  }
  if (answer.csv !== undefined) return reply.type('text/csv; charset=utf-8').send(answer.csv);
  // A replay has the stored warnings of the first answer.
  return reply.send(answer.replayed === true ? answer.body : withWarnings(answer.body, warnings));
}

function claimOf(
  app: FastifyInstance,
  request: FastifyRequest,
  route: {
    readonly path: string;
    readonly fingerprinted: (sent: unknown) => unknown;
    readonly warnings: Warnings;
  },
): IdempotencyClaim | null {
  const field = (request.body as { idempotencyKey?: unknown } | null | undefined)?.idempotencyKey;
  // Node would join the two headers into one key.
  if (isGivenTwice(request.raw, 'idempotency-key')) {
    const message = 'Must be given once';
    throw validationFailed({ field: 'Idempotency-Key', rule: 'single', message });
  }
  const key = idempotencyKeyOf(request.headers['idempotency-key'], field);
  if (key === null) return null;
  return idempotencyClaim(app.fingerprintKey, {
    owner: keyOwnerOf(request.caller),
    method: request.method,
    route: route.path,
    key,
    params: request.params,
    // Without the defaults and conversions of this release: another one may have answered the original request.
    body: route.fingerprinted(withoutKey(inputOf(request.body).sent)),
    warnings: route.warnings,
  });
}

/**
 * Returns the owner of a caller's idempotency keys. Test keys have an owner of their own: the stored answer of a test call must
 * never replace a live send.
 */
export function keyOwnerOf(caller: Caller | null): string {
  if (caller === null) return '';
  if (caller.kind === 'key' && caller.key.mode === 'test') return `${caller.tenant.id} test`;
  // Tests break this (mutant: idempotency-owner): a stored response is replayed to its own tenant only.
  return caller.kind === 'user' ? caller.user.id : caller.tenant.id;
}

function withoutKey(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'idempotencyKey')) return body;
  const { idempotencyKey: _, ...rest } = body as Record<string, unknown>;
  return rest;
}
