import type { Peer } from '../stack/peers.ts';
import type { World } from '../stack/stack.ts';
import { meterOf, startProgram, startService, type Bench, type Measured } from './bench.ts';
import type { Contestant } from './contestant.ts';
import { openLoopFigures } from './latency.ts';
import { ledgerOf, sumLedgers } from './ledger.ts';
import { measureMaximum } from './maximum.ts';
import { processorUs, type Cost } from './meter.ts';
import { offer } from './offer.ts';
import { untilArrived, untilCounted } from './until.ts';

/** In percent of the rate that the whole service sustains. */
export const LOADS = [25, 50, 80] as const;

/** At rates nearer to its maximum, a contestant's latency depends on the length of the measurement. */
const KEEPS_UP_SHARE = 0.95;

/** So that each measurement has a pass of the counting in it, which the service makes every 15 s. */
const MEASURE_MS_MIN = 15_000;

type Terms = {
  readonly prepare?: (world: World) => Promise<void>;
  readonly start: (bench: Bench, world: World, role: 'api' | 'worker') => Promise<Contestant>;
  readonly isOurs?: boolean;
};

/**
 * Measures acceptance and delivery together: first at the maximum rate, then at constant rates that are parts of the maximum,
 * without the rates that the contestant does not sustain. `maximum` is in messages per second; default: the contestant's own.
 */
async function measureRunning(
  bench: Bench,
  { prepare, start, isOurs = false }: Terms,
  maximum?: number,
): Promise<Measured> {
  const { helpers, stack } = bench;
  await using world = await stack.world();
  await prepare?.(world);
  await using worker = await start(bench, world, 'worker');
  await using api = await start(bench, world, 'api');
  const services = { api, worker };
  const meter = meterOf({ bench, world, services, asksVault: isOurs });
  // Reading the metrics takes each service some ten milliseconds, which would be among the latencies.
  const quietMeter = meterOf({ bench, world, services });
  const full = await measureMaximum(bench, api, meter);
  const { sustainedPerSecond, deliveredPerSecond } = full;
  const figures: Record<string, number> = {
    ratePerSecond: full.result.ratePerSecond,
    deliveredPerSecond,
    sustainedPerSecond,
  };
  const ledgers = [full.ledger];
  const costAt: Record<string, Cost> = {};
  for (const load of LOADS) {
    const rate = ((maximum ?? sustainedPerSecond) * load) / 100;
    figures[`at${load}.offeredPerSecond`] = rate;
    if (rate > sustainedPerSecond * KEEPS_UP_SHARE) continue;
    // What the load before has put off would be among the costs of this one.
    if (isOurs) await untilUsageCounted(world);
    await helpers.provider.run('reset');
    const measureMs = Math.max(bench.options.measureMs, MEASURE_MS_MIN);
    const { result, cost } = await offer(bench, api, quietMeter, { rate, measureMs });
    await untilArrived(bench, result.accepted);
    const { arrivals } = await helpers.provider.run('take');
    ledgers.push(ledgerOf(result.accepted, arrivals));
    costAt[load] = cost;
    figures[`at${load}.coresBusy`] = (processorUs(cost) * rate) / 1_000_000;
    for (const [name, ms] of Object.entries(openLoopFigures(result, arrivals)))
      figures[`at${load}.${name}`] = ms;
  }
  return { figures, cost: full.cost, costAt, refused: full.result.refused, ledger: sumLedgers(ledgers) };
}

async function untilUsageCounted({ admin }: World): Promise<void> {
  await untilCounted(0, async () => {
    const [row] = await admin<{ moves: number }[]>`select count(*)::integer as moves from usage_moves`;
    return -(row?.moves ?? 0);
  });
}

export function runningService(bench: Bench, maximum?: number): Promise<Measured> {
  return measureRunning(bench, { start: startService, isOurs: true }, maximum);
}

/** Measures the least that acceptance and delivery can consist of. */
export function runningBare(bench: Bench, maximum?: number): Promise<Measured> {
  return measureRunning(
    bench,
    { start: (_, world, role) => startProgram(bench, world, `bare-${role}-process.ts`) },
    maximum,
  );
}

/**
 * Measures a queue library whose api adds concurrent messages in one batch, so that the cost of single inserts does not hide its
 * delivery delay.
 */
export function runningPeer(bench: Bench, peer: Peer, maximum?: number): Promise<Measured> {
  const environment = {
    ...peer.environment,
    ADD: 'batch',
    API_KEYS: bench.stack.tenants.map(({ key }) => key).join(','),
  };
  return measureRunning(
    bench,
    {
      prepare: (world) => peer.prepare(world),
      start: (_, world, role) => startProgram(bench, world, peer[role], environment),
    },
    maximum,
  );
}
