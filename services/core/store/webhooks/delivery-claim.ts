import type { EndpointStatus } from '#core/domain/webhooks/endpoint-state.ts';
import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import type { EndpointFilters } from '#core/domain/webhooks/webhook-endpoint.ts';

/** An endpoint with everything that a call to it needs. */
export type WebhookEndpoint = EndpointFilters & {
  readonly id: string;
  /** A delivery's id encrypts this number together with the event's number. */
  readonly number: number;
  readonly tenantId: string;
  readonly url: string;
  /** Headers that the tenant set, sent besides Despatch's own. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the events of one message are delivered one after the other. */
  readonly ordered: boolean;
  readonly maskRecipients: boolean;
  readonly signatures: readonly ('v1' | 'v1a')[];
  /** `active` or `failing` for a claimed endpoint; a test call can be made to any endpoint. */
  readonly status: EndpointStatus;
  readonly failures: number;
  readonly failingSince: Date | null;
  /** Incremented by every change of a setting or a secret. */
  readonly version: number;
  /** Ciphertext. */
  readonly secret: string;
  /** Ciphertext; null once its grace period is over. */
  readonly previousSecret: string | null;
  /** The tenant's current signing key for `v1a`; null if the tenant has none. */
  readonly signingKey: { readonly id: string; readonly ciphertext: string } | null;
  /** Ciphertext. */
  readonly clientCertificate: string | null;
};

/** One event to deliver to an endpoint. */
export type ClaimedEvent = {
  /** Number of the event in the endpoint's feed. */
  readonly seq: number;
  readonly event: StoredEvent;
  /** The event's message; null for an event without one. */
  readonly messageSeq: number | null;
};

/** A due row that belongs to this worker until its lease ends. */
export type DeliveryClaim = {
  readonly dueId: number;
  /** Unique number of this claim of the row. */
  readonly claim: number;
  readonly endpoint: WebhookEndpoint;
  readonly purgeOn: string;
  /** Number of calls made before. */
  readonly attempts: number;
  /** Whether a person requested it: one call, without a retry after a failure. */
  readonly manual: boolean;
  /** Whether it is the single call of an endpoint that was failing when it was claimed. */
  readonly isProbe: boolean;
  /** Only of a probe: when its lease ends, by the database's clock. */
  readonly probeUntil: Date | null;
  /** In their order, without events whose message is purged. */
  readonly events: readonly ClaimedEvent[];
  /** Messages with an earlier event that still waits; only for an ordered endpoint. */
  readonly blocked: ReadonlySet<number>;
  /**
   * Since when the events have waited, in milliseconds since the epoch: not while the endpoint could not be called, as when it was
   * paused or failing.
   */
  readonly waitsSince: number;
  /** Whether they may have waited for the endpoint, because it has a rate limit or wants its events in order. */
  readonly isPaced: boolean;
  /** By `performance.now()`. */
  readonly leaseEndsAt: number;
};
