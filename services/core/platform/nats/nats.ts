import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import { connectionOptions } from './connection-options.ts';
import { createConsumeWakes } from './consume-wakes.ts';
import type { Nats, NatsConfig } from './nats-types.ts';
import { createNotices } from './notices.ts';
import { openConnection } from './open-connection.ts';
import { createPublishWakes } from './publish-wakes.ts';
import { createWakeStream } from './wake-stream.ts';

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
  const stream = createWakeStream(config);
  const notices = createNotices(config.prefix, log);
  const connection = await openConnection({
    options,
    log,
    connectWaitMs,
    reasonEveryMs,
    onOpened: notices.subscribeAll,
  });
  return {
    isConnected: connection.isConnected,
    onConnection(listener) {
      connection.onChange(listener);
      listener(connection.isConnected());
    },
    async ensureStream() {
      const clients = connection.clients();
      if (clients === undefined) throw new DependencyError('nats', 'unavailable', 'not connected to NATS');
      await stream.ensure(clients.jsm);
    },
    publishWakes: createPublishWakes(connection, config.prefix),
    consumeWakes: createConsumeWakes(connection, stream, log),
    publishNotice: notices.publishOn(connection),
    onNotice: notices.subscribeOn(connection),
    async consumerLag() {
      const jsm = connection.clients()?.jsm;
      if (jsm === undefined || !connection.isConnected()) return null;
      try {
        const info = await jsm.consumers.info(stream.name, stream.durable);
        return { pending: info.num_pending };
      } catch {
        return null;
      }
    },
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  };
}
