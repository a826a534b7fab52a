import { statfs } from 'node:fs/promises';
import { secret } from '#core/domain/secret.ts';
import { deriveSubkeys } from '#core/domain/subkeys.ts';
import { createCursors } from '../../../services/api/http/cursor.ts';
import { cumulativeShares, zipfWeights } from '../load/shares.ts';
import { preloadMessages, sampleMessages, settleTables, type StoredMessage } from '../stack/layout.ts';
import type { BenchTenant } from '../stack/seed.ts';
import type { World } from '../stack/stack.ts';
import { startService, type Bench } from './bench.ts';
import type { Contestant } from './contestant.ts';
import { openLoopFigures } from './latency.ts';
import { ledgerOf, sumLedgers, type Ledger } from './ledger.ts';
import { offerUnmetered } from './offer.ts';
import { shuffled } from './shuffle.ts';
import { untilArrived } from './until.ts';

export type Size = { readonly messages: number; readonly tenants: number };

export type GrowthPoint = Size & {
  /** One record a visit. */
  readonly visits: readonly Readonly<Record<string, number>>[];
};

export type Growth = {
  readonly offeredPerSecond: number;
  /** Same tenants, more messages. */
  readonly byMessages: readonly GrowthPoint[];
  /** Same messages, more tenants. */
  readonly byTenants: readonly GrowthPoint[];
  readonly ledger: Ledger;
};

const VISITS = 3;
const TENANTS_BY_MESSAGES = 1_000;
const MESSAGES_BY_TENANTS = 100_000;
const READS_PER_SECOND = 100;
const READ_MS = 4_000;
const SAMPLES = 500;

/** Sizes below the largest, each ten times or a hundred times the one before. */
function growthSizes(growTo: number): { byMessages: Size[]; byTenants: Size[] } {
  const steps = [1_000, 100_000, 1_000_000, 10_000_000, 100_000_000].filter((messages) => messages < growTo);
  return {
    byMessages: [...steps, growTo].map((messages) => ({ messages, tenants: TENANTS_BY_MESSAGES })),
    byTenants: [10, 100, 1_000, 10_000].map((tenants) => ({ messages: MESSAGES_BY_TENANTS, tenants })),
  };
}

/** Databases of all sizes side by side, visited in turn and in another order each time. */
export async function measureGrowth(
  bench: Bench,
  ratePerSecond: number,
  log: (line: string) => void,
): Promise<Growth> {
  await using databases = new AsyncDisposableStack();
  const { byMessages, byTenants } = growthSizes(bench.options.growTo);
  const visitable: Visitable[] = [];
  for (const size of [...byMessages, ...byTenants]) {
    log(`growth: filling a database with ${size.messages} messages of ${size.tenants} tenants`);
    visitable.push(await fill(bench, databases, size));
  }
  const ledgers: Ledger[] = [];
  for (let visit = 1; visit <= VISITS; visit++) {
    for (const one of shuffled(visitable, bench.options.seed + visit)) {
      log(`growth, visit ${visit} of ${VISITS}: ${one.size.messages} messages, ${one.size.tenants} tenants`);
      const { figures, ledger } = await visitDatabase(bench, one, ratePerSecond);
      one.visits.push(figures);
      ledgers.push(ledger);
    }
  }
  const points = visitable.map(({ size, visits }) => ({ ...size, visits }));
  return {
    offeredPerSecond: ratePerSecond,
    byMessages: points.slice(0, byMessages.length),
    byTenants: points.slice(byMessages.length),
    ledger: sumLedgers(ledgers),
  };
}

/** With its indexes and the log of its writing. */
const BYTES_PER_MESSAGE = 3_000;

/** @throws TypeError where the largest database would not fit. */
export async function requireSpace({ stack, options }: Bench): Promise<void> {
  const { bavail, bsize } = await statfs(stack.folder);
  const [free, wanted] = [bavail * bsize, options.growTo * BYTES_PER_MESSAGE].map((bytes) =>
    Math.ceil(bytes / 1e9),
  );
  if (free === undefined || wanted === undefined || free >= wanted) return;
  throw new TypeError(
    `--full needs ${wanted} GB in ${stack.folder}, where ${free} GB are free; see --grow-to`,
  );
}

type Visitable = {
  readonly size: Size;
  readonly world: World;
  readonly tenants: readonly BenchTenant[];
  readonly weights: readonly number[];
  readonly visits: Record<string, number>[];
};

async function fill({ stack }: Bench, databases: AsyncDisposableStack, size: Size): Promise<Visitable> {
  const world = databases.use(await stack.world());
  const tenants = await stack.addTenants(world, size.tenants);
  const weights = zipfWeights(size.tenants);
  await preloadMessages(world.admin, {
    tenantIds: tenants.map(({ tenantId }) => tenantId),
    cumulativeShares: cumulativeShares(weights),
    messages: size.messages,
  });
  await settleTables(world.admin);
  return { size, world, tenants, weights, visits: [] };
}

async function visitDatabase(
  bench: Bench,
  { world, tenants, weights }: Visitable,
  rate: number,
): Promise<{ figures: Record<string, number>; ledger: Ledger }> {
  const { helpers } = bench;
  await helpers.provider.run('reset');
  await using services = new AsyncDisposableStack();
  services.use(await startService(bench, world, 'worker'));
  const api = services.use(await startService(bench, world, 'api'));
  const keys = tenants.map(({ key }) => key);
  // A process that has just started decrypts each tenant's credentials once, and most of it would fall on whoever has most.
  const firstMs = (keys.length * 1_000) / rate;
  const first = await offerUnmetered(bench, api, {
    keys,
    weights: 'in turn',
    rate,
    warmMs: 1,
    measureMs: firstMs,
  });
  await untilArrived(bench, first.accepted);
  await helpers.provider.run('reset');
  const result = await offerUnmetered(bench, api, { keys, weights, rate });
  await untilArrived(bench, result.accepted);
  const { arrivals } = await helpers.provider.run('take');
  const reads = await readFigures(bench, world, api, tenants);
  return {
    figures: { ...openLoopFigures(result, arrivals), ...reads },
    ledger: ledgerOf(result.accepted, arrivals),
  };
}

/** Time of a message by its id, of the first page of a list, and of a page among the oldest tenth. */
async function readFigures(
  bench: Bench,
  { admin }: World,
  api: Contestant,
  tenants: readonly BenchTenant[],
): Promise<Record<string, number>> {
  const keyOf = new Map(tenants.map(({ tenantId }, i) => [tenantId as string, i]));
  const any = await sampleMessages(admin, SAMPLES, false);
  const oldest = await sampleMessages(admin, SAMPLES, true);
  const cursors = createCursors(deriveSubkeys(secret(bench.stack.pepper)).cursor);
  const pageBefore = ({ tenantId, enqueuedAt, seq }: StoredMessage): string =>
    `/v1/messages?cursor=${cursors.seal(['messages', tenantId, {}], JSON.stringify({ enqueuedAt, seq }))}`;
  const paths = {
    get: any.map((message) => [`/v1/messages/${message.id}`, message] as const),
    list: any.map((message) => ['/v1/messages', message] as const),
    deep: oldest.map((message) => [pageBefore(message), message] as const),
  };
  const figures: Record<string, number> = {};
  for (const [name, wanted] of Object.entries(paths)) {
    const reads = wanted.map(([path, { tenantId }]) => [path, keyOf.get(tenantId) ?? 0] as const);
    const { p50Ms, p99Ms, refused } = await bench.helpers.load.run({
      port: api.port,
      keys: tenants.map(({ key }) => key),
      reads,
      isIdempotent: false,
      connections: 64,
      warmMs: 1_000,
      measureMs: READ_MS,
      rate: READS_PER_SECOND,
    });
    if (Object.keys(refused).length > 0) {
      throw new Error(`reads (${name}) were refused: ${JSON.stringify(refused)}`);
    }
    figures[`${name}P50Ms`] = p50Ms;
    figures[`${name}P99Ms`] = p99Ms;
  }
  return figures;
}
