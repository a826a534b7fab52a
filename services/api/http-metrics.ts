/** What the api counts of its requests. Routes are patterns, never paths. */
export type HttpMetrics = {
  readonly requestStarted: () => void;
  readonly requestFinished: (request: {
    readonly method: string;
    readonly route: string;
    readonly statusCode: number;
    readonly seconds: number;
  }) => void;
};
