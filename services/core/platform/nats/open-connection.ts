import { jetstream, jetstreamManager, type JetStreamClient, type JetStreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node';
import { within } from '../process/deadline.ts';
import { backoffMs, pause } from '../process/pause.ts';
import type { Logger } from '../telemetry/logger.ts';

export type ConnectionOptions = {
  readonly options: NodeConnectionOptions;
  readonly log: Logger;
  /** How long the start waits for the first connection. */
  readonly connectWaitMs: number;
  /** How often the log says why a lost connection cannot be made again. */
  readonly reasonEveryMs: number;
  /** Called with each new connection, before it counts as connected. */
  readonly onOpened: (nc: NatsConnection) => void;
};

/** The clients of one connection. */
export type Clients = {
  readonly nc: NatsConnection;
  readonly js: JetStreamClient;
  readonly jsm: JetStreamManager;
};

export type Connection = AsyncDisposable & {
  readonly isConnected: () => boolean;
  /** The clients of the newest connection, which may be interrupted; undefined before the first one. */
  readonly clients: () => Clients | undefined;
  /** Calls the listener at each change. Returns a function that removes it. */
  readonly onChange: (listener: (isConnected: boolean) => void) => () => void;
  /** Aborted when the connection is being closed. */
  readonly closing: AbortSignal;
};

const API_TIMEOUT_MS = 5_000;
const DRAIN_TIMEOUT_MS = 3_000;

/**
 * Opens a connection that is established in the background and retried forever. Resolves when connected, or after `connectWaitMs`
 * without a connection.
 */
export async function openConnection({
  options,
  log,
  connectWaitMs,
  reasonEveryMs,
  onOpened,
}: ConnectionOptions): Promise<Connection> {
  const closing = new AbortController();
  const listeners: ((isConnected: boolean) => void)[] = [];
  let clients: Clients | undefined;
  let isConnected = false;

  const setConnected = (value: boolean): void => {
    if (isConnected === value) return;
    isConnected = value;
    // Iterates over a copy, because a listener may remove itself.
    for (const listener of listeners.slice()) listener(value);
  };

  let isLogging = false;
  /** The client tries to connect again without saying why it fails: a trial connection finds the reason for the log. */
  const logReasons = async (): Promise<void> => {
    if (isLogging) return;
    isLogging = true;
    for (;;) {
      await pause(reasonEveryMs, closing.signal);
      if (isConnected || closing.signal.aborted) break;
      await connect({ ...options, reconnect: false }).then(
        (trial) => trial.close(),
        (error: unknown) => log.warn({ err: error }, 'NATS could not be reached'),
      );
    }
    isLogging = false;
  };

  const watch = async (connection: NatsConnection): Promise<void> => {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect' || status.type === 'close') setConnected(false);
      else if (status.type === 'reconnect') setConnected(true);
      else if (status.type === 'error') log.warn({ err: status.error }, 'NATS reported an error');
      if (status.type === 'disconnect') {
        log.warn('Lost the connection to NATS');
        void logReasons();
      }
      if (status.type === 'reconnect') log.info('Connected to NATS again');
    }
  };

  const dial = async (): Promise<void> => {
    for (let attempt = 0; !closing.signal.aborted; attempt += 1) {
      try {
        const nc = await connect(options);
        if (closing.signal.aborted) {
          await nc.close();
          return;
        }
        const js = jetstream(nc, { timeout: API_TIMEOUT_MS });
        const jsm = await jetstreamManager(nc, { timeout: API_TIMEOUT_MS, checkAPI: false });
        clients = { nc, js, jsm };
        void watch(nc);
        void nc.closed().then(redial);
        onOpened(nc);
        setConnected(true);
        log.info({ server: nc.getServer() }, 'Connected to NATS');
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

  dialing = dial();
  await within(dialing, connectWaitMs, () => undefined);

  return {
    isConnected: () => isConnected,
    clients: () => clients,
    onChange(listener) {
      listeners.push(listener);
      return () => {
        const position = listeners.indexOf(listener);
        if (position !== -1) listeners.splice(position, 1);
      };
    },
    closing: closing.signal,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await dialing;
      const nc = clients?.nc;
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

/** Resolves when connected, or when the signal is aborted. */
export function untilConnected({ isConnected, onChange }: Connection, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      if (!isConnected() && !signal.aborted) return;
      remove();
      signal.removeEventListener('abort', settle);
      resolve();
    };
    const remove = onChange(settle);
    signal.addEventListener('abort', settle);
    settle();
  });
}
