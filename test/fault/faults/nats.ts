import { rm } from 'node:fs/promises';
import { jetstreamManager, type JetStreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import type { Rig } from '../rig.ts';
import { healsItself, type Fault } from './fault.ts';

const STREAM = 'DESPATCH_WAKE';
const CONSUMER = 'DESPATCH_DELIVERY';

async function manage(
  { nats, natsAdmin }: Rig,
  work: (manager: JetStreamManager) => Promise<unknown>,
): Promise<void> {
  const { user, password: pass } = natsAdmin;
  const connection = await connect({ servers: nats.url, user, pass });
  try {
    // An earlier fault may already have deleted it.
    await work(await jetstreamManager(connection)).catch(() => {});
  } finally {
    await connection.close();
  }
}

export const NATS_FAULTS: readonly Fault[] = [
  {
    name: 'nats-crash',
    async inject({ rig: { nats }, random }) {
      await nats.kill();
      return { target: 'nats', holdMs: random.whole(200, 2_000), heal: () => nats.restart() };
    },
  },
  {
    name: 'nats-store-lost',
    async inject({ rig: { nats }, random }) {
      await nats.kill();
      await rm(nats.storeDir, { recursive: true, force: true });
      // Longer than an api retries to publish a wake-up, so that some wake-ups are always lost.
      return { target: 'nats', holdMs: random.whole(2_500, 3_500), heal: () => nats.restart() };
    },
  },
  {
    name: 'nats-stopped',
    async inject({ rig: { nats }, random }) {
      process.kill(nats.pid, 'SIGSTOP');
      return {
        target: 'nats',
        holdMs: random.whole(500, 3_000),
        heal: () => void process.kill(nats.pid, 'SIGCONT'),
      };
    },
  },
  {
    name: 'nats-stream-deleted',
    async inject({ rig }) {
      await manage(rig, (manager) => manager.streams.delete(STREAM));
      return { target: 'nats', holdMs: 500, heal: healsItself };
    },
  },
  {
    name: 'nats-consumer-deleted',
    async inject({ rig }) {
      await manage(rig, (manager) => manager.consumers.delete(STREAM, CONSUMER));
      return { target: 'nats', holdMs: 500, heal: healsItself };
    },
  },
  {
    name: 'nats-connections-reset',
    async inject({ rig: { apis, workers }, random }) {
      const node = random.pick([...apis, ...workers]);
      node.broker.cut();
      return { target: node.service.name, holdMs: 300, heal: healsItself };
    },
  },
  {
    name: 'nats-silent',
    async inject({ rig: { apis, workers }, random }) {
      const node = random.pick([...apis, ...workers]);
      node.broker.freeze();
      return { target: node.service.name, holdMs: random.whole(500, 4_000), heal: () => node.broker.thaw() };
    },
  },
];
