/** One request to a third party. Header names in lower case. */
export type HttpRequest = {
  readonly method: 'GET' | 'POST';
  /** Absolute http or https URL. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** A tenant has chosen the host: the connection has to pass the egress guard. */
  readonly isTenantHost?: true;
  /**
   * Goes by HTTP/2, on connections that stay and that only requests with the same text here share: some vendors take one
   * customer's requests on a connection and no other's.
   */
  readonly http2?: string;
  /** Shown to a host of a tenant, on connections that only requests with the same `group` share. */
  readonly clientCertificate?: {
    readonly group: string;
    /** Both PEM. */
    readonly certificate: string;
    readonly key: string;
  };
};

/** How one exchange ended, split by what the other side may have seen. */
export type HttpResult =
  | {
      readonly kind: 'response';
      readonly status: number;
      /** Lower-case names. */
      readonly headers: Readonly<Record<string, string>>;
      /** Body as text, cut at the client's cap or where the connection broke: the status stands either way. */
      readonly text: string;
    }
  /** DNS, connect or TLS failed, or time ran out, before anything was written: certainly not processed. */
  | { readonly kind: 'not_sent'; readonly code: string }
  /** Reset or timeout after bytes may have left: the provider may have acted. */
  | { readonly kind: 'ambiguous'; readonly code: string };

/**
 * When a call is over: an instant on the clock of `performance.now`, or a signal where something else may end it sooner. A
 * signal and its timer take a kilobyte, and thousands of calls are under way at once.
 */
export type CallEnd = number | AbortSignal;
