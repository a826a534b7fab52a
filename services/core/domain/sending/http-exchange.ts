/** One request to a third party. Header names in lower case. */
export type HttpRequest = {
  readonly method: 'GET' | 'POST';
  /** Absolute http or https URL. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Maximum size of the response body; the rest is cut off. Default: that of the client. */
  readonly bodyBytesMax?: number;
  /** The host was chosen by a tenant: the connection must pass the egress guard. */
  readonly isTenantHost?: true;
  /**
   * Uses HTTP/2, on persistent connections that only requests with the same text here share: some vendors accept only one
   * customer's requests per connection.
   */
  readonly http2?: string;
  /** Presented to a tenant's host, on connections that only requests with the same `group` share. */
  readonly clientCertificate?: {
    readonly group: string;
    /** Both PEM. */
    readonly certificate: string;
    readonly key: string;
  };
};

/** The result of one exchange, by what the other side may have received. */
export type HttpResult =
  | {
      readonly kind: 'response';
      readonly status: number;
      /** Names in lower case. */
      readonly headers: Readonly<Record<string, string>>;
      /** Body as text, truncated at the client's cap or where the connection broke; the status is valid in either case. */
      readonly text: string;
    }
  /** DNS, connect or TLS failed, or time ran out, before anything was written: certainly not processed. */
  | { readonly kind: 'not_sent'; readonly code: string }
  /** Reset or timeout after bytes may have been sent: the provider may have acted. */
  | { readonly kind: 'ambiguous'; readonly code: string };

/**
 * When a call ends: an instant on the clock of `performance.now`, or a signal if it may end sooner. A signal and its timer take a
 * kilobyte, and thousands of calls are under way at once.
 */
export type CallDeadline = number | AbortSignal;
