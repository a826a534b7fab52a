import { readFile } from 'node:fs/promises';
import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  JetStreamApiError,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type ConsumerInfo,
  type JetStreamClient,
  type JetStreamManager,
  type JsMsg,
  type StreamInfo,
} from '@nats-io/jetstream';
import {
  connect,
  credsAuthenticator,
  headers,
  nanos,
  usernamePasswordAuthenticator,
  type Msg,
  type NatsConnection,
  type NodeConnectionOptions,
  type Subscription,
} from '@nats-io/transport-node';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import type {
  ConsumeOptions,
  Nats,
  NatsConfig,
  NoticeHandler,
  WakeDelivery,
  WakeKind,
} from './nats-types.ts';
import type { Logger } from '../telemetry/logger.ts';
import { within } from '../process/deadline.ts';
import { pause, backoffMs } from '../process/pause.ts';
import { renewedFile } from '../process/renewed-file.ts';

export type NatsOptions = {
  readonly config: NatsConfig;
  readonly log: Logger;
  /** Shown in the server's connection list. */
  readonly name: string;
  /** How long the start waits for the first connection. Default 5 s. */
  readonly connectWaitMs?: number;
  /** How often the log says why a lost connection cannot be made again. Default one minute. */
  readonly reasonEveryMs?: number;
};

const PUBLISH_TIMEOUT_MS = 2_000;
const API_TIMEOUT_MS = 5_000;
const DRAIN_TIMEOUT_MS = 3_000;
/** Short enough for the log of a quarter of an hour to contain it several times. */
const REASON_EVERY_MS = 60_000;

/**
 * Opens a connection that is established in the background and retried forever, because the service works without NATS, only
 * slower. Resolves when connected, or after `connectWaitMs` without a connection.
 * @throws if a certificate or credentials file cannot be read.
 */
export async function openNats({
  config,
  log,
  name,
  connectWaitMs = 5_000,
  reasonEveryMs = REASON_EVERY_MS,
}: NatsOptions): Promise<Nats> {
  const options = await connectionOptions(config, name);
  const closing = new AbortController();
  const listeners: ((isConnected: boolean) => void)[] = [];
  const notices = new Set<Notice>();
  let nc: NatsConnection | undefined;
  let js: JetStreamClient | undefined;
  let jsm: JetStreamManager | undefined;
  let isConnected = false;
  let streamCreated: string | undefined;

  const setConnected = (value: boolean): void => {
    if (isConnected === value) return;
    isConnected = value;
    // Iterates over a copy, because a listener may remove itself.
    for (const listener of listeners.slice()) listener(value);
  };

  const listen = (connection: NatsConnection, notice: Notice): void => {
    notice.subscription = connection.subscribe(`${config.prefix}.notice.${notice.kind}`, {
      callback: (error, message) => {
        if (error !== null) log.warn({ err: error, kind: notice.kind }, 'Lost a subscription to notices');
        else deliverNotice(notice.handler, message, log);
      },
    });
  };

  let isTelling = false;
  /** The client tries to connect again without saying why it fails: a trial connection finds the reason for the log. */
  const tellReasons = async (): Promise<void> => {
    if (isTelling) return;
    isTelling = true;
    for (;;) {
      await pause(reasonEveryMs, closing.signal);
      if (isConnected || closing.signal.aborted) break;
      await connect({ ...options, reconnect: false }).then(
        (trial) => trial.close(),
        (error: unknown) => log.warn({ err: error }, 'NATS could not be reached'),
      );
    }
    isTelling = false;
  };

  const watch = async (connection: NatsConnection): Promise<void> => {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect' || status.type === 'close') setConnected(false);
      else if (status.type === 'reconnect') setConnected(true);
      else if (status.type === 'error') log.warn({ err: status.error }, 'NATS reported an error');
      if (status.type === 'disconnect') {
        log.warn('Lost the connection to NATS');
        void tellReasons();
      }
      if (status.type === 'reconnect') log.info('Connected to NATS again');
    }
  };

  const dial = async (): Promise<void> => {
    for (let attempt = 0; !closing.signal.aborted; attempt += 1) {
      try {
        const connection = await connect(options);
        if (closing.signal.aborted) {
          await connection.close();
          return;
        }
        nc = connection;
        js = jetstream(connection, { timeout: API_TIMEOUT_MS });
        jsm = await jetstreamManager(connection, { timeout: API_TIMEOUT_MS, checkAPI: false });
        void watch(connection);
        void connection.closed().then(redial);
        for (const notice of notices) listen(connection, notice);
        setConnected(true);
        log.info({ server: connection.getServer() }, 'Connected to NATS');
        return;
      } catch (error) {
        log.warn({ err: error, attempt }, 'NATS could not be reached');
        await pause(backoffMs(attempt), closing.signal);
      }
    }
  };

  let dialing: Promise<void> | undefined;
  /** The client closes a connection for good only for few reasons, such as credentials that the server revoked. */
  const redial = (): void => {
    setConnected(false);
    if (!closing.signal.aborted) dialing = dial();
  };

  const stream = streamNames(config.prefix);

  /** Ensures the stream and the consumer. `isRecreated`: the stream is another one than at the last check. */
  const ensure = async (
    manager: JetStreamManager,
  ): Promise<{ consumer: ConsumerInfo; isRecreated: boolean }> => {
    const info = await ensureStreamConfig(manager, config);
    const consumer = await ensureConsumerConfig(manager, stream);
    const isRecreated = streamCreated !== undefined && streamCreated !== info.created;
    streamCreated = info.created;
    return { consumer, isRecreated };
  };

  const publishWakes: Nats['publishWakes'] = async (wakes) => {
    const client = js;
    if (client === undefined || !isConnected) return { failed: wakes.map((wake) => wake.id) };
    const failed: string[] = [];
    await Promise.all(
      wakes.map(async (wake) => {
        try {
          await client.publish(`${config.prefix}.wake.${wake.kind}`, wake.payload, {
            msgID: wake.id,
            timeout: PUBLISH_TIMEOUT_MS,
            ...(wake.traceparent === undefined ? {} : { headers: traceHeaders(wake.traceparent) }),
          });
        } catch {
          // The caller keeps the failed ids; thousands of log lines in an outage would add nothing to the gauge.
          failed.push(wake.id);
        }
      }),
    );
    return { failed };
  };

  const consumeWakes: Nats['consumeWakes'] = (consume) => {
    const ending = AbortSignal.any([consume.signal, closing.signal]);
    const run = async (): Promise<void> => {
      for (let attempt = 0; !ending.aborted; attempt += 1) {
        if (!isConnected || js === undefined || jsm === undefined) {
          attempt = 0;
          await untilConnected(listeners, () => isConnected, ending);
          continue;
        }
        try {
          const { consumer, isRecreated } = await ensure(jsm);
          if (isRecreated) {
            log.warn({ stream: stream.name }, 'The wake-up stream was lost and made anew');
            consume.onRecreated();
          }
          const pulled = await pullWakes(js, consumer, consume, ending);
          if (pulled > 0) attempt = 0;
          if (!ending.aborted) log.info({ stream: stream.name }, 'The consumer ended; starting it again');
        } catch (error) {
          if (!ending.aborted) log.warn({ err: error, attempt }, 'Wake-ups cannot be consumed now');
        }
        await pause(backoffMs(attempt), ending);
      }
    };
    return { closed: run() };
  };

  dialing = dial();
  await within(dialing, connectWaitMs, () => undefined);

  return {
    isConnected: () => isConnected,
    onConnection(listener) {
      listeners.push(listener);
      listener(isConnected);
    },
    async ensureStream() {
      if (jsm === undefined) throw new DependencyError('nats', 'unavailable', 'not connected to NATS');
      await ensure(jsm);
    },
    publishWakes,
    consumeWakes,
    publishNotice(kind, payload) {
      // The client would buffer a notice until the next connection, when it is stale.
      if (isConnected) nc?.publish(`${config.prefix}.notice.${kind}`, payload);
    },
    onNotice(kind, handler) {
      const notice: Notice = { kind, handler, subscription: undefined };
      notices.add(notice);
      if (nc !== undefined && !nc.isClosed()) listen(nc, notice);
      return () => {
        notices.delete(notice);
        notice.subscription?.unsubscribe();
      };
    },
    async consumerLag() {
      if (jsm === undefined || !isConnected) return null;
      try {
        const info = await jsm.consumers.info(stream.name, stream.durable);
        return { pending: info.num_pending };
      } catch {
        return null;
      }
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      await dialing;
      // A drain flushes wake-ups and notices; without a connection it would wait for one.
      if (nc !== undefined && isConnected) {
        await within(
          nc.drain().catch(() => undefined),
          DRAIN_TIMEOUT_MS,
          () => undefined,
        );
      }
      await nc?.close();
      setConnected(false);
    },
  };
}

type Notice = {
  readonly kind: string;
  readonly handler: NoticeHandler;
  subscription: Subscription | undefined;
};

async function connectionOptions(config: NatsConfig, name: string): Promise<NodeConnectionOptions> {
  const { user, password, credsFile, caFile, certFile, keyFile } = config;
  const files = [credsFile, caFile, certFile, keyFile].filter((file) => file !== undefined);
  // They are read again at each connection, to use renewed ones; reading them here detects a wrong path.
  await Promise.all(files.map((file) => readFile(file)));
  const wantsTls =
    files.length > (credsFile === undefined ? 0 : 1) || config.servers.some((url) => url.startsWith('tls:'));
  const authenticator =
    credsFile !== undefined
      ? credsAuthenticator(renewedFile(credsFile))
      : user !== undefined && password !== undefined
        ? usernamePasswordAuthenticator(user, () => password.reveal())
        : undefined;
  return {
    servers: [...config.servers],
    name,
    reconnect: true,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 500,
    reconnectJitter: 500,
    reconnectJitterTLS: 1_000,
    timeout: 5_000,
    pingInterval: 10_000,
    maxPingOut: 2,
    // A password that is being rotated may be refused twice before it is accepted.
    ignoreAuthErrorAbort: true,
    // A stack trace per request costs more than the request.
    noAsyncTraces: true,
    // Each user may only read replies below its own inbox.
    ...(user === undefined ? {} : { inboxPrefix: `_INBOX_${user}` }),
    ...(authenticator === undefined ? {} : { authenticator }),
    ...(wantsTls
      ? {
          tls: {
            ...(caFile === undefined ? {} : { caFile }),
            ...(certFile === undefined ? {} : { certFile }),
            ...(keyFile === undefined ? {} : { keyFile }),
          },
        }
      : {}),
  };
}

type StreamNames = { readonly name: string; readonly durable: string };

function streamNames(prefix: string): StreamNames {
  const capitals = prefix.toUpperCase();
  return { name: `${capitals}_WAKE`, durable: `${capitals}_DELIVERY` };
}

/** Long enough for a restarting worker; the sweep finds older messages long before. */
const WAKE_AGE_MS = 120_000;

/**
 * Creates or updates the stream. It is disposable: it can be lost at any time, so its limits are small and the oldest wake-ups
 * are discarded. Wake-ups are removed by age and not when consumed, because a stream that is nearly always empty creates and
 * deletes a file for almost every wake-up.
 */
async function ensureStreamConfig(manager: JetStreamManager, config: NatsConfig): Promise<StreamInfo> {
  const { name } = streamNames(config.prefix);
  const mutable = {
    subjects: [`${config.prefix}.wake.*`],
    description: 'Wake-ups of Despatch: ids only; Postgres holds the truth',
    max_age: nanos(WAKE_AGE_MS),
    max_bytes: 256 * 1024 * 1024,
    max_msg_size: 64 * 1024,
    discard: DiscardPolicy.Old,
    duplicate_window: nanos(WAKE_AGE_MS),
    num_replicas: config.replicas,
  };
  const wanted = { name, ...mutable, retention: RetentionPolicy.Limits, storage: StorageType.File };
  const found = await unlessMissing(manager.streams.info(name));
  if (found === null) return manager.streams.add(wanted);
  if (found.config.retention !== wanted.retention || found.config.storage !== wanted.storage) {
    // The server cannot change these in place; deleting the stream loses nothing that Postgres does not know.
    await manager.streams.delete(name);
    return manager.streams.add(wanted);
  }
  return differs(wanted, found.config) ? manager.streams.update(name, mutable) : found;
}

async function ensureConsumerConfig(manager: JetStreamManager, stream: StreamNames): Promise<ConsumerInfo> {
  const mutable = { description: 'Delivery workers' };
  const wanted = {
    durable_name: stream.durable,
    // No acknowledgements: the sweep finds messages of a lost worker sooner than the broker would redeliver them.
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.All,
    ...mutable,
  };
  const found = await unlessMissing(manager.consumers.info(stream.name, stream.durable));
  if (found === null) return manager.consumers.add(stream.name, wanted);
  return differs(mutable, found.config)
    ? manager.consumers.update(stream.name, stream.durable, mutable)
    : found;
}

function differs(wanted: object, found: object): boolean {
  const actual = new Map<string, unknown>(Object.entries(found));
  return Object.entries(wanted).some(
    ([key, value]) => JSON.stringify(value) !== JSON.stringify(actual.get(key)),
  );
}

async function unlessMissing<T>(looked: Promise<T>): Promise<T | null> {
  try {
    return await looked;
  } catch (error) {
    if (error instanceof JetStreamApiError && error.status === 404) return null;
    throw error;
  }
}

/** Passes wake-ups to `onWake` until the stream, the consumer or the connection is gone, or the signal is aborted. */
async function pullWakes(
  client: JetStreamClient,
  consumer: ConsumerInfo,
  { maxMessages, onWake }: ConsumeOptions,
  ending: AbortSignal,
): Promise<number> {
  const messages = await client.consumers.getConsumerFromInfo(consumer).consume({
    max_messages: maxMessages,
    expires: 10_000,
    // After two missed heartbeats the client checks whether the stream still exists.
    idle_heartbeat: 1_000,
    abort_on_missing_resource: true,
  });
  const stop = (): void => void messages.close();
  ending.addEventListener('abort', stop, { once: true });
  let pulled = 0;
  try {
    if (ending.aborted) stop();
    // Pull requests are sent from within this iteration: while it is paused, at most `max_messages` accumulate here.
    for await (const message of messages) {
      if (ending.aborted) break;
      pulled += 1;
      onWake(toWake(message));
    }
  } finally {
    ending.removeEventListener('abort', stop);
    stop();
  }
  return pulled;
}

function toWake(message: JsMsg): WakeDelivery {
  return {
    kind: message.subject.slice(message.subject.lastIndexOf('.') + 1) as WakeKind,
    payload: message.data,
    traceparent: message.headers?.get('traceparent') || undefined,
  };
}

function traceHeaders(traceparent: string) {
  const carrier = headers();
  carrier.set('traceparent', traceparent);
  return carrier;
}

function deliverNotice(handler: NoticeHandler, message: Msg, log: Logger): void {
  const kind = message.subject.slice(message.subject.lastIndexOf('.') + 1);
  try {
    handler(kind, message.string());
  } catch (error) {
    log.error({ err: error, kind }, 'A notice could not be handled');
  }
}

function untilConnected(
  listeners: ((isConnected: boolean) => void)[],
  isConnected: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      if (!isConnected() && !signal.aborted) return;
      const position = listeners.indexOf(settle);
      if (position !== -1) listeners.splice(position, 1);
      signal.removeEventListener('abort', settle);
      resolve();
    };
    listeners.push(settle);
    signal.addEventListener('abort', settle);
    settle();
  });
}
