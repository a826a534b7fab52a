import type { ContestantName } from '../contestants.ts';
import { boss, graphile, graphileBare } from '../stack/peers.ts';
import { acceptFloor, acceptInsert, acceptPeer, acceptService, acceptTransaction } from './accept.ts';
import type { Bench, Measured } from './bench.ts';
import { ceilingPublish, ceilingRows } from './ceilings.ts';
import { drainLoop, drainPeer, drainUnderSnapshot, drainWorker } from './drain.ts';
import { fairness } from './fairness.ts';
import { memory } from './memory.ts';
import { running } from './running.ts';
import { shuffled } from './shuffle.ts';

/** What was measured of each contestant; those that were not chosen are absent. */
export type Round = { readonly [Name in ContestantName]?: Measured };

/** A batching server gathers as many requests as there are connections; some measure with fewer. */
const FEW_CONNECTIONS = 64;

const MEASUREMENTS: { readonly [Name in ContestantName]: (bench: Bench) => Promise<Measured> } = {
  floor: (bench) => acceptFloor(bench),
  floor64: (bench) => acceptFloor(bench, FEW_CONNECTIONS),
  insertBatch: (bench) => acceptInsert(bench, 'batch'),
  insertEach: (bench) => acceptInsert(bench, 'each'),
  rows: ceilingRows,
  publish: ceilingPublish,
  accept: (bench) => acceptService(bench),
  accept64: (bench) => acceptService(bench, FEW_CONNECTIONS),
  transaction: acceptTransaction,
  acceptGraphile: (bench) => acceptPeer(bench, graphile),
  acceptBoss: (bench) => acceptPeer(bench, boss),
  running,
  drain: drainWorker,
  drainSnapshot: drainUnderSnapshot,
  drainLoop,
  drainGraphile: (bench) => drainPeer(bench, graphile),
  drainGraphileBare: (bench) => drainPeer(bench, graphileBare),
  drainBoss: (bench) => drainPeer(bench, boss),
  fairness,
  memory,
};

/** Every chosen contestant once, in an order that no other round has, so that none always follows the same other. */
export async function measureRound(
  bench: Bench,
  number: number,
  note: (name: ContestantName) => void,
): Promise<Round> {
  const { only, seed } = bench.options;
  const round: { [Name in ContestantName]?: Measured } = {};
  for (const name of shuffled(only, seed + number)) {
    note(name);
    round[name] = await MEASUREMENTS[name](bench);
  }
  return round;
}
