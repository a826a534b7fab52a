import { tableStates, type TableState } from '../stack/table-states.ts';
import type { World } from '../stack/stack.ts';
import type { Bench } from './bench.ts';
import { wallMs } from './clock.ts';
import type { Contestant } from './contestant.ts';
import { openLoopFigures } from './latency.ts';
import { ledgerOf, type Ledger } from './ledger.ts';
import type { Cost, Meter } from './meter.ts';
import { offer } from './offer.ts';
import { processMemory } from './process-memory.ts';
import { untilArrived } from './until.ts';

/** One slice of a soak. */
export type SoakSlice = {
  /** Number of the services' start during which it ran, from 1. */
  readonly start: number;
  readonly isBesideSnapshot: boolean;
  /** Messages that were both accepted and sent. */
  readonly deliveredPerSecond: number;
  /** The figures of a measurement at a constant rate. */
  readonly figures: Readonly<Record<string, number>>;
  readonly refused: Readonly<Record<string, number>>;
  readonly cost: Cost;
  /** Memory of each process with its children at the end, in bytes. */
  readonly memory: Readonly<Record<string, number>>;
  readonly tables: readonly TableState[];
};

type Subject = {
  readonly world: World;
  readonly api: Contestant;
  readonly meter: Meter;
  readonly pids: Readonly<Record<string, number>>;
};

type Measured = {
  readonly slice: Omit<SoakSlice, 'start' | 'isBesideSnapshot'>;
  readonly ledger: Ledger;
};

/** Offers a constant rate and waits until every message has reached the provider. */
export async function measureSlice(
  bench: Bench,
  { world, api, meter, pids }: Subject,
  { rate, sliceMs }: { readonly rate: number; readonly sliceMs: number },
): Promise<Measured> {
  const { provider } = bench.helpers;
  await provider.run('reset');
  const begin = wallMs();
  const { result, cost } = await offer(bench, api, meter, { rate, warmMs: 1, measureMs: sliceMs });
  await untilArrived(bench, result.accepted);
  const { arrivals } = await provider.run('take');
  const lastAt = arrivals.at(-1)?.[1] ?? Number.NaN;
  const memory = await Promise.all(
    Object.entries(pids).map(async ([name, pid]) => [name, await processMemory(pid)] as const),
  );
  return {
    slice: {
      deliveredPerSecond: (result.accepted * 1_000) / (lastAt - begin),
      figures: openLoopFigures(result, arrivals),
      refused: result.refused,
      cost,
      memory: Object.fromEntries(memory),
      tables: await tableStates(world.admin),
    },
    ledger: ledgerOf(result.accepted, arrivals),
  };
}
