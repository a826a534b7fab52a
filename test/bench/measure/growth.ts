import { cumulativeShares, zipfWeights } from '../load/shares.ts';
import type { BenchOptions } from '../options.ts';
import { requireSame, type KeptFile } from '../stack/kept-file.ts';
import { preloadMessages, settleTables } from '../stack/layout.ts';
import { plantRoutes, plantScheduled, plantSuppressions } from '../stack/plant.ts';
import type { BenchTenant } from '../stack/seed.ts';
import type { World } from '../stack/stack.ts';
import type { Bench } from './bench.ts';
import { plantedOf, type Planted } from './growth-parts.ts';
import { visitDatabase } from './growth-visit.ts';
import { sumLedgers, type Ledger } from './ledger.ts';
import { shuffled } from './shuffle.ts';
import { requireSpace } from './space.ts';

type Size = { readonly messages: number; readonly tenants: number };

export type GrowthPoint = Size & {
  readonly database: string;
  /** Whether the database is complete. */
  isFilled: boolean;
  /** The figures of each visit. */
  readonly visits: Readonly<Record<string, number>>[];
};

/** A database with other rows beside its messages. */
export type PlantedPoint = GrowthPoint & { readonly planted: Planted };

type GrowthTerms = Pick<
  BenchOptions,
  'growTo' | 'plant' | 'parts' | 'seed' | 'measureMs' | 'warmMs' | 'connections'
>;

/** The results so far, with everything that a later run needs to continue. */
export type Growth = GrowthTerms & {
  readonly takenAt: string;
  readonly offeredPerSecond: number;
  /** Databases with the same tenants and more messages. */
  readonly byMessages: readonly GrowthPoint[];
  /** Databases with the same messages and more tenants. */
  readonly byTenants: readonly GrowthPoint[];
  /** Databases with the same messages and tenants, and other rows beside them. */
  readonly byPlanted: readonly PlantedPoint[];
  /** The database of a visit that was begun and not finished. */
  visiting: string | null;
  readonly ledgers: Ledger[];
};

const VISITS = 3;
const TENANTS_BY_MESSAGES = 1_000;
const MESSAGES_BY_TENANTS = 100_000;

/** Plans databases of rising sizes, each ten or a hundred times as large as the one before, up to the largest. */
export function beginGrowth(options: BenchOptions, offeredPerSecond: number): Growth {
  const { growTo, parts } = options;
  const steps = [1_000, 100_000, 1_000_000, 10_000_000, 100_000_000].filter((messages) => messages < growTo);
  const point = (database: string, messages: number, tenants: number): GrowthPoint => ({
    database,
    messages,
    tenants,
    isFilled: false,
    visits: [],
  });
  return {
    ...termsOf(options),
    takenAt: new Date().toISOString(),
    offeredPerSecond,
    byMessages: (parts.includes('messages') ? [...steps, growTo] : []).map((messages) =>
      point(`bench_messages_${messages}`, messages, TENANTS_BY_MESSAGES),
    ),
    byTenants: (parts.includes('tenants') ? [10, 100, 1_000, 10_000] : []).map((tenants) =>
      point(`bench_tenants_${tenants}`, MESSAGES_BY_TENANTS, tenants),
    ),
    byPlanted: plantedOf(parts).map((planted) => ({
      ...point(`bench_beside_${planted}`, Math.min(growTo, MESSAGES_BY_TENANTS), TENANTS_BY_MESSAGES),
      planted,
    })),
    visiting: null,
    ledgers: [],
  };
}

/** @throws TypeError where the kept databases were begun with other options. */
export function requireSameGrowth(kept: Growth, options: BenchOptions): void {
  // A continued run keeps the order of the run that began, so the seed may differ.
  const { seed: _, ...terms } = termsOf(options);
  requireSame('Growth', kept, terms);
}

export function isGrown(growth: Growth): boolean {
  return pointsOf(growth).every(({ visits }) => visits.length === VISITS);
}

/** Measures databases of all sizes side by side, in another order on each visit, until `step` throws between two visits. */
export async function measureGrowth(
  bench: Bench,
  kept: KeptFile<Growth>,
  step: (line: string) => void,
): Promise<void> {
  const { state } = kept;
  const points = pointsOf(state);
  const wanted = points
    .filter(({ isFilled }) => !isFilled)
    .map((point) => point.messages + (plantedIn(point) === 'nothing' ? 0 : state.plant));
  await requireSpace(
    bench,
    wanted.reduce((sum, messages) => sum + messages, 0),
    'see --grow-to',
  );
  await kept.save();
  for (const point of points.filter(({ isFilled }) => !isFilled)) {
    step(`growth: filling a database with ${point.messages} messages of ${point.tenants} tenants`);
    await fill(bench, point, state.plant);
    point.isFilled = true;
    await kept.save();
  }
  for (let visit = 1; visit <= VISITS; visit++) {
    for (const point of shuffled(points, state.seed + visit)) {
      if (point.visits.length >= visit) continue;
      step(`growth, visit ${visit} of ${VISITS}: ${point.messages} messages, ${point.tenants} tenants`);
      await visitPoint(bench, kept, point);
    }
  }
}

async function visitPoint(bench: Bench, kept: KeptFile<Growth>, point: GrowthPoint): Promise<void> {
  const { state } = kept;
  const isLeft = state.visiting === point.database;
  state.visiting = point.database;
  await kept.save();
  await using world = await bench.stack.world(point.database);
  const { figures, ledger } = await visitDatabase(bench, {
    world,
    tenants: bench.stack.addedTenants(point.tenants),
    weights: zipfWeights(point.tenants),
    rate: state.offeredPerSecond,
    isLeft,
  });
  point.visits.push(figures);
  state.ledgers.push(ledger);
  state.visiting = null;
  await kept.save();
}

async function fill({ stack }: Bench, point: GrowthPoint, count: number): Promise<void> {
  // Drops a database that an interrupted run left half full.
  await stack.dropWorld(point.database);
  await using world: World = await stack.world(point.database);
  const tenants: readonly BenchTenant[] = await stack.addTenants(world, point.tenants);
  await preloadMessages(world.admin, {
    tenantIds: tenants.map(({ tenantId }) => tenantId),
    cumulativeShares: cumulativeShares(zipfWeights(point.tenants)),
    messages: point.messages,
  });
  const planted = plantedIn(point);
  if (planted === 'scheduled') await plantScheduled(world.admin, tenants, count);
  if (planted === 'suppressions') await plantSuppressions(world.admin, tenants, count);
  if (planted === 'routes') await plantRoutes(world.admin, tenants);
  await settleTables(world.admin);
}

function plantedIn(point: GrowthPoint | PlantedPoint): Planted {
  return 'planted' in point ? point.planted : 'nothing';
}

export function growthLedger({ ledgers }: Growth): Ledger {
  return sumLedgers(ledgers);
}

function pointsOf({ byMessages, byTenants, byPlanted }: Growth): (GrowthPoint | PlantedPoint)[] {
  return [...byMessages, ...byTenants, ...byPlanted];
}

function termsOf(options: BenchOptions): GrowthTerms {
  const { growTo, plant, parts, seed, measureMs, warmMs, connections } = options;
  return { growTo, plant, parts, seed, measureMs, warmMs, connections };
}
