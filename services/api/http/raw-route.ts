import type { FastifyRequest } from 'fastify';
import type { IncomingHttpHeaders } from 'node:http';
import type { z } from 'zod';
import type { ErrorCode } from '#core/domain/app-error.ts';
import { readUnparsed } from './read-unparsed.ts';
import type { RouteDocs, RouteModule } from './routes-kit.ts';
import type { Tag } from './tags.ts';

/** A request as it came. */
export type RawRequest = {
  readonly method: 'GET' | 'POST';
  /** What followed the path, with its question mark; empty where nothing did. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Of the request's span; undefined while tracing is off. */
  readonly traceparent: string | undefined;
  /** The request's own id. */
  readonly id: string;
  /** Of whoever calls. */
  readonly ip: string;
};

export type RawAnswer = {
  readonly status: number;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** Who is answerable for a request, and how long it may be. */
export type Admission = {
  /** A tenant. */
  readonly owner: string;
  /** The provider account that is reported to; absent where the call is about something else. */
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
  /** All of them text, for the document: `admit` holds them to more. */
  readonly params: P;
  /** Of most answers. Default 204. */
  readonly status?: 200 | 204;
  readonly errors: readonly ErrorCode[];
  /** Decides by the path alone, before a byte of the body is read. @throws AppError */
  readonly admit: (params: z.input<P>) => A | Promise<A>;
  readonly handler: (admission: A, request: RawRequest) => Promise<RawAnswer>;
};

/**
 * Declares a route that others than our clients call, in formats of their own: query and body are taken byte for byte,
 * whatever type is said of them. It asks for no credentials but what its path holds.
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
      // Where a parsed body would stand.
      request.body = { admission, body } satisfies Taken<A>;
    }

    app.route({
      method: route.method,
      url: route.path,
      exposeHeadRoute: false,
      config: {
        auth: { kind: 'none' },
        docs: {
          operation: route.operation,
          status: route.status ?? 204,
          idempotent: false,
          hasInput: false,
          isRaw: true,
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
      // The parameters were admitted before there is anything to validate.
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
        // What is sent back may repeat what was sent: no browser is to make more of it than its type says.
        reply.code(answer.status).header('x-content-type-options', 'nosniff');
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
