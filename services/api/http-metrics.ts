/** What the api counts of its requests. Routes are patterns, never paths. */
export type HttpMetrics = {
  /** A route that there is, with the codes that somebody may wait for. */
  readonly routeKnown: (known: {
    readonly method: string;
    readonly route: string;
    readonly codes: readonly number[];
  }) => void;
  readonly requestStarted: () => void;
  readonly requestFinished: (request: {
    readonly method: string;
    readonly route: string;
    readonly statusCode: number;
    readonly seconds: number;
    /** Who asked, where that is known. */
    readonly tenantId: string | null;
  }) => void;
};
