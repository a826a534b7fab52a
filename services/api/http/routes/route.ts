import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { ErrorCode } from '#core/domain/fault/app-error.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import type { Warnings } from '#core/domain/fault/warning.ts';
import type { CallerOf, RouteAuth } from '../../auth/auth.ts';
import type { IdempotencyClaim } from './idempotency.ts';
import type { Tag } from './tags.ts';
import type { Upload, UploadRules } from '../input/upload.ts';
import { uuidField } from '../input/fields.ts';

/** What the OpenAPI document says of a route besides its schemas. */
export type RouteDocs = {
  /** The operation's unique name, such as `sendMessage`; generated clients name their functions after it. */
  readonly operation: string;
  readonly status: number;
  readonly idempotent: boolean;
  readonly hasInput: boolean;
  /** Takes bytes of any type, and may answer 200 with the body that its caller expects: possible types, each with an example. */
  readonly rawAnswers?: Readonly<Record<string, string>>;
  /** Bodies of its answers with 404 that are no error object: possible types, each with an example. */
  readonly rawNotFound?: Readonly<Record<string, string>>;
  /** Can also answer with `text/csv`. */
  readonly csv?: true;
  /** Takes a file, with rules by type. */
  readonly upload?: UploadRules;
  /** Answers with a file: its possible types, each with an example. */
  readonly download?: Readonly<Record<string, string>>;
  readonly errors: readonly ErrorCode[];
  /** Answers with `ETag`; a change takes `If-Match` and `If-None-Match`. */
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
  /** Returns a signal that aborts when the client disconnects before the answer is complete. */
  readonly gone: () => AbortSignal;
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
  /** The header `If-None-Match`; null without one. */
  readonly ifNoneMatch: string | null;
  /** The header `Accept`; empty without one. */
  readonly accept: string;
};

/** If `parts` throws or the signal aborts, the connection breaks off, so that the client sees that the file is incomplete. */
export type OpenFile = { readonly parts: AsyncIterable<string>; readonly signal: AbortSignal };

export type Answer<Body> = {
  readonly body: Body;
  /** Default: the route's `status`. */
  readonly status?: number;
  /** Whether the body is the answer to an earlier request with the same idempotency key. */
  readonly replayed?: boolean;
  /** Whether parts of the body are answers to earlier requests. */
  readonly hasStored?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent instead of the body, as `text/csv`. */
  readonly csv?: string;
  /** Sent instead of the body. */
  readonly download?: {
    readonly type: string;
    readonly name: string;
    /** Begins the file; a HEAD request does not. @throws AppError, which is answered instead. */
    readonly open: () => Promise<OpenFile>;
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
  /** Of a change: the body that makes the resource, if the answer does not have all of its fields. */
  readonly made?: z.ZodType;
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
  /** Answers with `ETag`; a change takes `If-Match` and `If-None-Match`. */
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
  id: uuidField().describe('Id of the resource in the path.'),
});
