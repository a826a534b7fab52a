import type { ErrorCode } from '#core/domain/fault/app-error.ts';

/** Metrics of the api's requests. Routes are patterns, never paths. */
export type HttpMetrics = {
  /** Registers a route and its usual status codes, so that their series start at 0. */
  readonly routeKnown: (known: {
    readonly method: string;
    readonly route: string;
    readonly codes: readonly number[];
  }) => void;
  /** Bytes currently used by bodies and answers, read with `read`. */
  readonly requestMemory: { readonly from: (read: () => number) => void };
  /** A body or an answer was refused for lack of memory, or a body because it came too slowly. */
  readonly bodyRefused: (reason: 'memory' | 'slow' | 'answer') => void;
  readonly requestStarted: () => void;
  /** An answer is ready. The client may have disconnected already. */
  readonly requestAnswered: (request: {
    readonly method: string;
    readonly route: string;
    readonly statusCode: number;
    /** The caller's tenant, if known. */
    readonly tenantId: string | null;
    /** The caller's key; null without one. */
    readonly keyId: string | null;
    readonly errorCode: ErrorCode | null;
    /** The answer was the stored one of an earlier request. */
    readonly isReplay: boolean;
  }) => void;
  /** Called once per request: the last byte of its answer was sent, or its client disconnected (499). */
  readonly requestFinished: (request: {
    readonly method: string;
    readonly route: string;
    readonly statusCode: number;
    /** Null when the request only waited for the client itself. */
    readonly seconds: number | null;
  }) => void;
};
