import type { Priority } from '#core/domain/message-options.ts';
import type { RECEIPT_WAKE } from '#core/domain/wake.ts';
import type { Secret } from '#core/domain/secret.ts';

export type NatsConfig = {
  /** Servers of one cluster; one `tls://` among them demands TLS of all. */
  readonly servers: readonly string[];
  readonly user?: string | undefined;
  readonly password?: Secret | undefined;
  readonly credsFile?: string | undefined;
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** First token of all subjects. */
  readonly prefix: string;
  /** Copies of the stream in a cluster, 1 to 5. */
  readonly replicas: number;
};

/** The last token of a wake-up's subject. */
export type WakeKind = Priority | typeof RECEIPT_WAKE;

export type WakePublication = {
  readonly kind: WakeKind;
  /** Names this wake-up for two minutes: a second one of the same id in that time is swallowed, even after the first was consumed. */
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
  /** Wake-ups that may wait in this process, 1 to 10,000. Pulls overlap: a new one leaves when a quarter has arrived. */
  readonly maxMessages: number;
  /** Each wake-up is handed over once, to one worker; one that is lost with its worker is found in Postgres. */
  readonly onWake: (wake: WakeDelivery) => void;
  /** The stream was lost and made anew: what it held must be found in Postgres. */
  readonly onRecreated: () => void;
  readonly signal: AbortSignal;
};

export type WakeConsumer = {
  /** Resolves when the signal was aborted and the last wake-up was handed over. */
  readonly closed: Promise<void>;
};

export type ConsumerLag = {
  /** Wake-ups that no worker has taken. */
  readonly pending: number;
};

export type NoticeHandler = (kind: string, payload: string) => void;

export type Nats = AsyncDisposable & {
  readonly isConnected: () => boolean;
  /** Called at once and at each change. */
  readonly onConnection: (listener: (isConnected: boolean) => void) => void;
  /** Creates the stream and its consumer, or brings them to the wanted configuration. */
  readonly ensureStream: () => Promise<void>;
  /** Publishes all at once. Never throws; `failed` holds the ids without an acknowledgement within 2 s. */
  readonly publishWakes: (
    wakes: readonly WakePublication[],
  ) => Promise<{ readonly failed: readonly string[] }>;
  readonly consumeWakes: (options: ConsumeOptions) => WakeConsumer;
  /** Best effort to all who listen now; dropped while disconnected. The receiver only looks at Postgres. */
  readonly publishNotice: (kind: string, payload: string) => void;
  /** `*` listens to every kind. Survives reconnects. Returns the way to end it. */
  readonly onNotice: (kind: string, handler: NoticeHandler) => () => void;
  /** What waits in the stream; null while it cannot be known. */
  readonly consumerLag: () => Promise<ConsumerLag | null>;
};
