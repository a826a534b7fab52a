import type { Priority } from '#core/domain/message/message-options.ts';
import type { RECEIPT_WAKE } from '#core/domain/queue/wake.ts';
import type { Secret } from '#core/domain/storage/secret.ts';

export type NatsConfig = {
  /** Servers of one cluster; a single `tls://` among them requires TLS for all. */
  readonly servers: readonly string[];
  readonly user?: string | undefined;
  readonly password?: Secret | undefined;
  readonly credsFile?: string | undefined;
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** First token of all subjects. */
  readonly prefix: string;
  /** Replicas of the stream in a cluster, 1 to 5. */
  readonly replicas: number;
};

/** The last token of a wake-up's subject. */
export type WakeKind = Priority | typeof RECEIPT_WAKE;

export type WakePublication = {
  readonly kind: WakeKind;
  /** Deduplication id for two minutes: the server drops a second wake-up with the same id, even after the first was consumed. */
  readonly id: string;
  /** Ids only, never content. */
  readonly payload: Uint8Array | string;
  readonly traceparent?: string | undefined;
};

export type WakeDelivery = {
  readonly kind: WakeKind;
  readonly payload: Uint8Array;
  readonly traceparent: string | undefined;
};

export type ConsumeOptions = {
  /** Wake-ups that may wait in this process, 1 to 10,000. Pulls overlap: a new one is sent when a quarter has arrived. */
  readonly maxMessages: number;
  /** Called once for each wake-up, in one worker; if the worker dies with it, the sweep finds the message in Postgres. */
  readonly onWake: (wake: WakeDelivery) => void;
  /** Called when the stream was lost and created again; the work that it announced must be queried from Postgres. */
  readonly onRecreated: () => void;
  readonly signal: AbortSignal;
};

export type WakeConsumer = {
  /** Resolves when the signal was aborted and the last wake-up was passed to `onWake`. */
  readonly closed: Promise<void>;
};

export type ConsumerLag = {
  /** Wake-ups that no worker has taken. */
  readonly pending: number;
};

export type NoticeHandler = (kind: string, payload: string) => void;

export type Nats = AsyncDisposable & {
  readonly isConnected: () => boolean;
  /** Calls the listener at once and at each change. */
  readonly onConnection: (listener: (isConnected: boolean) => void) => void;
  /** Creates the stream and its consumer, or updates their configuration. */
  readonly ensureStream: () => Promise<void>;
  /** Publishes all wake-ups concurrently. Never throws; `failed` contains the ids without an acknowledgement within 2 s. */
  readonly publishWakes: (
    wakes: readonly WakePublication[],
  ) => Promise<{ readonly failed: readonly string[] }>;
  readonly consumeWakes: (options: ConsumeOptions) => WakeConsumer;
  /** Publishes to all current subscribers, at most once; dropped while disconnected. A receiver only queries Postgres. */
  readonly publishNotice: (kind: string, payload: string) => void;
  /** Subscribes to a kind of notice, or to all with `*`. Survives reconnects. Returns a function that unsubscribes. */
  readonly onNotice: (kind: string, handler: NoticeHandler) => () => void;
  /** Returns the number of waiting wake-ups; null while it is unknown. */
  readonly consumerLag: () => Promise<ConsumerLag | null>;
};
