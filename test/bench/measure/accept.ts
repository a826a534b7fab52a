import { countMessages, countPlain } from '../stack/layout.ts';
import type { Peer } from '../stack/peers.ts';
import type { World } from '../stack/stack.ts';
import { meterOf, startProgram, startService, type Bench, type Measured } from './bench.ts';
import type { Contestant } from './contestant.ts';
import { storedLedger } from './ledger.ts';
import { offer } from './offer.ts';

type Terms = {
  readonly start: (bench: Bench, world: World) => Promise<Contestant>;
  readonly prepare?: (world: World) => Promise<void>;
  /** Counts the rows afterwards; absent where nothing is stored. */
  readonly stored?: (world: World) => Promise<number>;
  /** Default: the number of the run. */
  readonly connections?: number;
  /** Messages per request. Default 1. */
  readonly messagesEach?: number;
  readonly isOurs?: boolean;
};

/** Offers as many requests as the api accepts, each connection sending when it has its answer, while no worker runs. */
async function acceptAlone(
  bench: Bench,
  { start, prepare, stored, connections, messagesEach = 1, isOurs = false }: Terms,
): Promise<Measured> {
  await using world = await bench.stack.world();
  await prepare?.(world);
  await using api = await start(bench, world);
  const meter = meterOf({ bench, world, services: { api }, asksVault: isOurs });
  const { result, cost } = await offer(bench, api, meter, {
    messagesEach,
    ...(connections === undefined ? {} : { connections }),
  });
  const { p50Ms, p99Ms, p999Ms, refused } = result;
  if (result.accepted === 0) throw new Error(`nothing was accepted: ${JSON.stringify(refused)}`);
  const accepted = result.accepted * messagesEach;
  const figures = { ratePerSecond: result.ratePerSecond * messagesEach, p50Ms, p99Ms, p999Ms };
  if (stored === undefined) return { figures, cost, refused };
  return {
    figures,
    cost,
    refused,
    ledger: storedLedger(accepted, await stored(world), (refused['0'] ?? 0) * messagesEach),
  };
}

const plainRows = async ({ admin }: World): Promise<number> => (await countPlain(admin)).stored;
const messageRows = ({ admin }: World): Promise<number> => countMessages(admin);

export function acceptFloor(bench: Bench, connections?: number): Promise<Measured> {
  return acceptAlone(bench, {
    start: (bench, world) => startProgram(bench, world, 'floor-process.ts'),
    ...(connections === undefined ? {} : { connections }),
  });
}

export function acceptInsert(bench: Bench, insert: 'batch' | 'each'): Promise<Measured> {
  return acceptAlone(bench, {
    start: (bench, world) => startProgram(bench, world, 'insert-process.ts', { INSERT: insert }),
    stored: plainRows,
  });
}

export function acceptService(bench: Bench, connections?: number): Promise<Measured> {
  return acceptAlone(bench, {
    start: (bench, world) => startService(bench, world, 'api'),
    stored: messageRows,
    isOurs: true,
    ...(connections === undefined ? {} : { connections }),
  });
}

/** Few batches at a time: the api lets no more than 64 wait, and settles two at once. */
const BATCH_CONNECTIONS = 16;
const BATCH_MESSAGES = 500;

export function acceptBatches(bench: Bench): Promise<Measured> {
  return acceptAlone(bench, {
    start: (bench, world) => startService(bench, world, 'api'),
    stored: messageRows,
    isOurs: true,
    connections: BATCH_CONNECTIONS,
    messagesEach: BATCH_MESSAGES,
  });
}

export function acceptTransaction(bench: Bench): Promise<Measured> {
  return acceptAlone(bench, {
    start: (bench, world) => startProgram(bench, world, 'transaction-process.ts'),
    stored: messageRows,
  });
}

export function acceptPeer(bench: Bench, peer: Peer): Promise<Measured> {
  return acceptAlone(bench, {
    prepare: (world) => peer.prepare(world),
    start: (bench, world) =>
      startProgram(bench, world, peer.api, {
        API_KEYS: bench.stack.tenants.map(({ key }) => key).join(','),
      }),
    stored: async (world) => (await peer.count(world)).stored,
  });
}
