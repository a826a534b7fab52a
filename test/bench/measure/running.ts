import { meterOf, startService, type Bench, type Measured } from './bench.ts';
import { wallMs } from './clock.ts';
import { openLoopFigures } from './latency.ts';
import { ledgerOf, sumLedgers } from './ledger.ts';
import { offer } from './offer.ts';
import { untilArrived } from './until.ts';

/** In percent of what the whole service keeps up with. */
export const LOADS = [25, 50, 80] as const;

/** The whole service: as much as it takes while it delivers, then parts of what it keeps up with at constant rates. */
export async function running(bench: Bench): Promise<Measured> {
  const { options, helpers, stack } = bench;
  await using world = await stack.world();
  await helpers.provider.run('reset');
  await using worker = await startService(bench, world, 'worker');
  await using api = await startService(bench, world, 'api');
  const meter = meterOf({ bench, world, services: { api, worker }, asksVault: true });
  const counts: number[] = [];
  const noteCount = (): void => void helpers.provider.run('count').then(({ count }) => counts.push(count));
  const begin = wallMs();
  const full = await offer(bench, api, meter, { onMeasuring: noteCount, onMeasured: noteCount });
  const { accepted, ratePerSecond, refused } = full.result;
  await untilArrived(bench, accepted);
  const taken = await helpers.provider.run('take');
  const lastAt = taken.arrivals.at(-1)?.[1] ?? Number.NaN;
  const sustainedPerSecond = (accepted * 1_000) / (lastAt - begin);
  const ledgers = [ledgerOf(accepted, taken.arrivals)];
  const figures: Record<string, number> = {
    ratePerSecond,
    deliveredPerSecond: (((counts[1] ?? 0) - (counts[0] ?? 0)) * 1_000) / options.measureMs,
    sustainedPerSecond,
  };
  for (const load of LOADS) {
    await helpers.provider.run('reset');
    const rate = (sustainedPerSecond * load) / 100;
    const { result, cost } = await offer(bench, api, meter, { rate });
    await untilArrived(bench, result.accepted);
    const { arrivals } = await helpers.provider.run('take');
    ledgers.push(ledgerOf(result.accepted, arrivals));
    const latencies = openLoopFigures(result, arrivals);
    figures[`at${load}.offeredPerSecond`] = rate;
    figures[`at${load}.coresBusy`] = (sum(cost.cpuUs) * rate) / 1_000_000;
    for (const [name, ms] of Object.entries(latencies)) figures[`at${load}.${name}`] = ms;
  }
  return { figures, cost: full.cost, refused, ledger: sumLedgers(ledgers) };
}

/** Not a number where there is nothing to add up. */
function sum(cpuUs: Readonly<Record<string, number>> | null): number {
  return cpuUs === null ? Number.NaN : Object.values(cpuUs).reduce((total, us) => total + us, 0);
}
