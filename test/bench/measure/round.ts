import { isPaced, type ContestantName } from '../contestants.ts';
import { boss, bossNotified, graphile, graphileBare } from '../stack/peers.ts';
import {
  acceptBatches,
  acceptFloor,
  acceptInsert,
  acceptPeer,
  acceptService,
  acceptTransaction,
} from './accept.ts';
import type { Bench, Measured } from './bench.ts';
import { ceilingPublish, ceilingRows } from './ceilings.ts';
import { drainLoop, drainPeer, drainUnderSnapshot, drainWorker } from './drain.ts';
import { eventDead } from './event-dead.ts';
import { eventReceipts } from './event-receipts.ts';
import { eventSends } from './event-sends.ts';
import { eventFloor, eventTell } from './events.ts';
import { fairness } from './fairness.ts';
import { memory } from './memory.ts';
import { receiptApply, receiptFloor, receiptIntake } from './receipts.ts';
import { receiptStorm } from './receipt-storm.ts';
import { runningBare, runningPeer, runningService } from './running.ts';
import { shuffled } from './shuffle.ts';

/** The results of a round by contestant; those that were not chosen are absent. */
export type Round = { readonly [Name in ContestantName]?: Measured };

/** A batching server gathers as many requests as there are connections, so some contestants are also measured with few. */
const FEW_CONNECTIONS = 64;

/** `maximum` is 100 % of the load in messages per second, where it is known. */
type Measurement = (bench: Bench, maximum?: number) => Promise<Measured>;

const MEASUREMENTS: { readonly [Name in ContestantName]: Measurement } = {
  floor: (bench) => acceptFloor(bench),
  floor64: (bench) => acceptFloor(bench, FEW_CONNECTIONS),
  insertBatch: (bench) => acceptInsert(bench, 'batch'),
  insertEach: (bench) => acceptInsert(bench, 'each'),
  rows: ceilingRows,
  publish: ceilingPublish,
  accept: (bench) => acceptService(bench),
  accept64: (bench) => acceptService(bench, FEW_CONNECTIONS),
  acceptBatch: acceptBatches,
  transaction: acceptTransaction,
  acceptGraphile: (bench) => acceptPeer(bench, graphile),
  acceptBoss: (bench) => acceptPeer(bench, boss),
  running: (bench) => runningService(bench, bench.options.maximum),
  bare: runningBare,
  runningGraphile: (bench, maximum) => runningPeer(bench, graphile, maximum),
  runningBoss: (bench, maximum) => runningPeer(bench, bossNotified, maximum),
  drain: drainWorker,
  drainSnapshot: drainUnderSnapshot,
  drainLoop,
  drainGraphile: (bench) => drainPeer(bench, graphile),
  drainGraphileBare: (bench) => drainPeer(bench, graphileBare),
  drainBoss: (bench) => drainPeer(bench, boss),
  receiptFloor,
  receiptIntake,
  receiptApply,
  receiptStorm,
  eventFloor,
  eventTell,
  eventSends,
  eventReceipts,
  eventDead,
  fairness,
  memory,
};

/**
 * Returns an order that differs between rounds, so that no contestant always follows the same one. Those that run at parts of the
 * service's maximum come after the service.
 */
export function roundOrder(only: readonly ContestantName[], seed: number): ContestantName[] {
  const order = shuffled(only, seed);
  const [service, paced] = [order.indexOf('running'), order.findIndex(isPaced)];
  if (service === -1 || paced === -1 || service < paced) return order;
  return order.toSpliced(service, 1).toSpliced(paced, 0, 'running');
}

/**
 * Measures every chosen contestant once. `earlier` holds the results that the round already has.
 * @throws TypeError where a contestant needs a maximum that is unknown.
 */
export async function measureRound(
  bench: Bench,
  number: number,
  earlier: Round,
  note: (name: ContestantName) => void,
): Promise<Round> {
  const { only, seed, maximum } = bench.options;
  const round: { [Name in ContestantName]?: Measured } = { ...earlier };
  for (const name of roundOrder(only, seed + number)) {
    note(name);
    const known = maximum ?? round.running?.figures['sustainedPerSecond'];
    if (isPaced(name) && known === undefined) throw new TypeError(`${name} needs running, or --maximum`);
    round[name] = await MEASUREMENTS[name](bench, known);
  }
  return round;
}
