import type { FastifyRequest } from 'fastify';
import type { IncomingHttpHeaders } from 'node:http';
import type { z } from 'zod';
import type { ErrorCode } from '#core/domain/fault/app-error.ts';
import { readUnparsed } from '../input/read-unparsed.ts';
import type { RouteDocs, RouteModule } from './route.ts';
import type { Tag } from './tags.ts';

/** An unparsed request. */
export type RawRequest = {
  readonly method: 'GET' | 'POST';
  /** The query string with its question mark; empty if there is none. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The traceparent of the request's span; undefined while tracing is off. */
  readonly traceparent: string | undefined;
  /** The request's id. */
  readonly id: string;
  /** The caller's IP address. */
  readonly ip: string;
};

export type RawAnswer = {
  readonly status: number;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** Who a request is charged to, and how long its body may be. */
export type Admission = {
  /** A tenant. */
  readonly owner: string;
  /** The provider account that the call reports to; absent when the call is about something else. */
  readonly providerId?: string;
  readonly bytesMax: number;
};

export type RawRoute<P extends z.ZodObject, A extends Admission> = {
  readonly method: RawRequest['method'];
  readonly path: `/v1/${string}`;
  readonly operation: RouteDocs['operation'];
  readonly summary: string;
  readonly description: string;
  readonly tag: Tag;
  /** Plain strings in the OpenAPI document: `admit` validates them further. */
  readonly params: P;
  /** The status of most answers. Default 204. */
  readonly status?: 200 | 204;
  /** Media types of the bodies of answers with 200, each with an example. */
  readonly answers: Readonly<Record<string, string>>;
  /** Media types of bodies of answers with 404 that `handler` writes itself, each with an example. */
  readonly notFoundAnswers?: Readonly<Record<string, string>>;
  readonly errors: readonly ErrorCode[];
  /** A GET that changes nothing, so that a HEAD may be answered like it. */
  readonly isSafe?: true;
  /** Decides by the path alone, before the body is read. @throws AppError */
  readonly admit: (params: z.input<P>) => A | Promise<A>;
  readonly handler: (admission: A, request: RawRequest) => Promise<RawAnswer>;
};

/**
 * Declares a route that third parties call in their own formats: query and body are passed on as raw bytes, whatever the
 * content type. Its only credentials are in its path.
 */
export function defineRawRoute<P extends z.ZodObject, A extends Admission>(
  route: RawRoute<P, A>,
): RouteModule {
  return (app) => {
    async function take(request: FastifyRequest): Promise<void> {
      const admission = await route.admit(request.params as z.input<P>);
      const { owner, providerId } = admission;
      request.reportedTo = { tenantId: owner, ...(providerId === undefined ? {} : { providerId }) };
      const body = route.method === 'GET' ? NOTHING : await readUnparsed(app, request, admission);
      // In place of a parsed body.
      request.body = { admission, body } satisfies Taken<A>;
    }

    app.route({
      method: route.method,
      url: route.path,
      exposeHeadRoute: route.isSafe === true,
      config: {
        auth: { kind: 'none' },
        docs: {
          operation: route.operation,
          status: route.status ?? 204,
          idempotent: false,
          hasInput: false,
          rawAnswers: route.answers,
          ...(route.notFoundAnswers === undefined ? {} : { rawNotFound: route.notFoundAnswers }),
          errors: route.errors,
        },
        isRaw: true,
      },
      schema: {
        summary: route.summary,
        description: route.description,
        tags: [route.tag],
        operationId: route.operation,
        params: route.params,
      },
      // `admit` has already validated the parameters.
      validatorCompiler: () => () => true,
      preParsing: (request, _reply, payload, done) => {
        take(request).then(() => done(null, payload), done);
      },
      handler: async (request, reply) => {
        const { admission, body } = request.body as Taken<A>;
        const { method } = route;
        const { headers } = request.raw;
        const traceparent = request.span?.traceparent;
        const query = queryOf(request);
        const answer = await route.handler(admission, {
          method,
          query,
          headers,
          body,
          traceparent,
          id: request.id,
          ip: request.ip,
        });
        reply.code(answer.status);
        if (answer.headers !== undefined) reply.headers(answer.headers);
        if (answer.contentType !== undefined) reply.header('content-type', answer.contentType);
        return reply.send(answer.body);
      },
    });
  };
}

type Taken<A> = { readonly admission: A; readonly body: Buffer };

const NOTHING = Buffer.alloc(0);

function queryOf({ raw: { url = '' } }: FastifyRequest): string {
  const start = url.indexOf('?');
  return start === -1 ? '' : url.slice(start);
}
