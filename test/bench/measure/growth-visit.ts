import type { BenchTenant } from '../stack/seed.ts';
import type { World } from '../stack/stack.ts';
import { meterOf, startService, type Bench } from './bench.ts';
import { readFigures } from './growth-reads.ts';
import { openLoopFigures } from './latency.ts';
import { ledgerOf, type Ledger } from './ledger.ts';
import { ownUsOf } from './meter.ts';
import { offer, offerUnmetered } from './offer.ts';
import { untilArrived, untilQuiet } from './until.ts';

export type Visit = {
  readonly world: World;
  readonly tenants: readonly BenchTenant[];
  readonly weights: readonly number[];
  readonly rate: number;
  /** An interrupted earlier visit may have left unsent messages. */
  readonly isLeft: boolean;
};

/** Measures messages at a constant rate, and reads, in milliseconds, and the processor time of a message in microseconds. */
export async function visitDatabase(
  bench: Bench,
  { world, tenants, weights, rate, isLeft }: Visit,
): Promise<{ figures: Record<string, number>; ledger: Ledger }> {
  const { helpers } = bench;
  await helpers.provider.run('reset');
  await using services = new AsyncDisposableStack();
  const worker = services.use(await startService(bench, world, 'worker'));
  if (isLeft) await untilQuiet(bench);
  const api = services.use(await startService(bench, world, 'api'));
  const keys = tenants.map(({ key }) => key);
  // A new process decrypts each tenant's credentials once, and the busiest tenants would bear most of that cost in the
  // measurement.
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
  const meter = meterOf({ bench, world, services: { api, worker } });
  const { result, cost } = await offer(bench, api, meter, { keys, weights, rate });
  await untilArrived(bench, result.accepted);
  const { arrivals } = await helpers.provider.run('take');
  const reads = await readFigures(bench, world, api, tenants);
  return {
    figures: { ...openLoopFigures(result, arrivals), messageUs: ownUsOf(cost), ...reads },
    ledger: ledgerOf(result.accepted, arrivals),
  };
}
