import type { ErrorCode } from '#core/domain/app-error.ts';

/** What the api counts of its requests. Routes are patterns, never paths. */
export type HttpMetrics = {
  /** A route that there is, with the codes that somebody may wait for. */
  readonly routeKnown: (known: {
    readonly method: string;
    readonly route: string;
    readonly codes: readonly number[];
  }) => void;
  /** Bytes that bodies and answers take now, as `read` tells. */
  readonly requestMemory: { readonly from: (read: () => number) => void };
  /** A body, or an answer, that there was no memory for; or a body that came too slowly. */
  readonly bodyRefused: (reason: 'memory' | 'slow' | 'answer') => void;
  readonly requestStarted: () => void;
  /** An answer is there. Whether anybody still waits for it is another matter. */
  readonly requestAnswered: (request: {
    readonly method: string;
    readonly route: string;
    readonly statusCode: number;
    /** Who asked, where that is known. */
    readonly tenantId: string | null;
    /** With which key; null without one. */
    readonly keyId: string | null;
    readonly errorCode: ErrorCode | null;
    /** Answered with what was stored for an earlier request. */
    readonly isReplay: boolean;
  }) => void;
  /** Once for each request: the last byte of its answer has been handed over, or its client has gone (499). */
  readonly requestFinished: (request: {
    readonly method: string;
    readonly route: string;
    readonly statusCode: number;
    /** Null where the client itself was what it waited for. */
    readonly seconds: number | null;
  }) => void;
};
