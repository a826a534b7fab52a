import { connect, type NatsConnection } from '@nats-io/transport-node';
import type { CanarySearch } from '../support/canaries.ts';
import type { Rig } from './rig.ts';

export type OutputWatch = AsyncDisposable & {
  /** What has been searched so far. */
  readonly seen: { messages: number; expositions: number };
};

const LOOK_MS = 2_000;

/** Searches outputs that do not persist after the run: all NATS traffic, and the metrics as they are served. */
export async function watchOutputs(rig: Rig, search: CanarySearch): Promise<OutputWatch> {
  const seen = { messages: 0, expositions: 0 };
  const { user, password: pass } = rig.natsAdmin;
  const nats: NatsConnection = await connect({
    servers: rig.nats.url,
    user,
    pass,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 100,
  });
  nats.subscribe('>', {
    callback(_error, message) {
      seen.messages++;
      search.inText(
        'NATS',
        `${message.subject} ${JSON.stringify([...(message.headers ?? [])])} ${message.string()}`,
      );
    },
  });
  const look = async (): Promise<void> => {
    for (const { service } of [...rig.apis, ...rig.workers]) {
      const text = await service.metrics().catch(() => undefined);
      if (text === undefined) continue;
      seen.expositions++;
      search.inText(`metrics of ${service.name}`, text);
    }
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return {
    seen,
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await nats.close();
    },
  };
}
