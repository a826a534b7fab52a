import {
  AckPolicy,
  DeliverPolicy,
  DiscardPolicy,
  JetStreamApiError,
  RetentionPolicy,
  StorageType,
  type ConsumerInfo,
  type JetStreamManager,
  type StreamInfo,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import type { NatsConfig } from './nats-types.ts';

/** The stream of wake-ups and its consumer. */
export type WakeStream = {
  readonly name: string;
  /** Name of the consumer. */
  readonly durable: string;
  /** Creates or updates both. `isRecreated`: the stream is another one than at the last check. */
  readonly ensure: (jsm: JetStreamManager) => Promise<{ consumer: ConsumerInfo; isRecreated: boolean }>;
};

export function createWakeStream(config: NatsConfig): WakeStream {
  const names = streamNames(config.prefix);
  let created: string | undefined;
  return {
    ...names,
    async ensure(jsm) {
      const info = await ensureStreamConfig(jsm, config);
      const consumer = await ensureConsumerConfig(jsm, names);
      const isRecreated = created !== undefined && created !== info.created;
      created = info.created;
      return { consumer, isRecreated };
    },
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
