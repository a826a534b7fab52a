import { secret } from '#core/domain/secret.ts';
import { deriveSubkeys } from '#core/domain/subkeys.ts';
import { createCursors } from '../../../services/api/http/cursor.ts';
import { sampleMessages, type StoredMessage } from '../stack/layout.ts';
import type { BenchTenant } from '../stack/seed.ts';
import type { World } from '../stack/stack.ts';
import { startService, type Bench } from './bench.ts';
import type { Contestant } from './contestant.ts';
import { openLoopFigures } from './latency.ts';
import { ledgerOf, type Ledger } from './ledger.ts';
import { offerUnmetered } from './offer.ts';
import { untilArrived, untilQuiet } from './until.ts';

const READS_PER_SECOND = 100;
const READ_MS = 4_000;
const SAMPLES = 500;
/** One tenant's reads wait for each other and are answered with 503 where too many do; beyond this there is no 99th percentile. */
const SHED_SHARE_MAX = 0.01;

export type Visit = {
  readonly world: World;
  readonly tenants: readonly BenchTenant[];
  readonly weights: readonly number[];
  readonly rate: number;
  /** A visit that was not ended may have left messages behind. */
  readonly isLeft: boolean;
};

/** Time of messages at a constant rate and of reads, in milliseconds. */
export async function visitDatabase(
  bench: Bench,
  { world, tenants, weights, rate, isLeft }: Visit,
): Promise<{ figures: Record<string, number>; ledger: Ledger }> {
  const { helpers } = bench;
  await helpers.provider.run('reset');
  await using services = new AsyncDisposableStack();
  services.use(await startService(bench, world, 'worker'));
  if (isLeft) await untilQuiet(bench);
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
  // What a key of the mode `live` sees, which is all that there is.
  const scopeOf = (tenantId: string): unknown => ['messages', tenantId, { test: false }];
  const pageBefore = ({ tenantId, enqueuedAt, seq }: StoredMessage): string =>
    `/v1/messages?cursor=${cursors.seal(scopeOf(tenantId), JSON.stringify({ enqueuedAt, seq }))}`;
  const paths = {
    get: any.map((message) => [`/v1/messages/${message.id}`, message] as const),
    list: any.map((message) => ['/v1/messages', message] as const),
    deep: oldest.map((message) => [pageBefore(message), message] as const),
  };
  const figures: Record<string, number> = {};
  let shed = 0;
  for (const [name, wanted] of Object.entries(paths)) {
    const reads = wanted.map(([path, { tenantId }]) => [path, keyOf.get(tenantId) ?? 0] as const);
    const { answered, p50Ms, p99Ms, refused } = await bench.helpers.load.run({
      port: api.port,
      keys: tenants.map(({ key }) => key),
      reads,
      isIdempotent: false,
      connections: 64,
      warmMs: 1_000,
      measureMs: READ_MS,
      rate: READS_PER_SECOND,
    });
    const { 503: shedNow = 0, ...others } = refused;
    if (Object.keys(others).length > 0) {
      throw new Error(`reads (${name}) were refused: ${JSON.stringify(refused)}`);
    }
    shed += shedNow;
    figures[`${name}P50Ms`] = p50Ms;
    figures[`${name}P99Ms`] = shedNow > answered * SHED_SHARE_MAX ? Number.NaN : p99Ms;
  }
  return { ...figures, readsShed: shed };
}
