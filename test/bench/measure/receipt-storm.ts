import type { LoadResult } from '../processes/load-process.ts';
import type { Arrival } from '../processes/provider-process.ts';
import { countCalls, countApplied, deliveryReports, writeReceiptTexts } from '../stack/receipts.ts';
import { storeSentMessages } from '../stack/sent-messages.ts';
import { startService, type Bench, type Measured } from './bench.ts';
import type { Contestant } from './contestant.ts';
import { delaysFrom, latenciesOf } from './latency.ts';
import { ledgerOf, sumLedgers } from './ledger.ts';
import { offerUnmetered } from './offer.ts';
import { appliedLedger, TAKES_RECEIPTS } from './receipts.ts';
import { untilArrived, untilCounted } from './until.ts';

const OTHER_TENANTS = 9;
const SENDS_PER_SECOND = 180;
const STORM_CALLS = 100_000;
const STORM_PER_SECOND = 2_500;
/** The storm comes in two halves between phases without one, so that drift affects both. */
const HALVES = 2;
const CALM_MS = 10_000;
const STORM_HALF_MS = (STORM_CALLS * 1_000) / STORM_PER_SECOND / HALVES;

type Phase = { readonly result: LoadResult; readonly arrivals: readonly Arrival[] };

/** Measures nine tenants at a constant rate, with and without a storm of receipts to a tenth tenant's account. */
export async function receiptStorm(bench: Bench): Promise<Measured> {
  const { stack, helpers } = bench;
  const [stormy, ...others] = stack.tenants.slice(0, OTHER_TENANTS + 1);
  if (stormy === undefined || others.length < OTHER_TENANTS) throw new Error('the storm needs ten tenants');
  const keys = others.map(({ key }) => key);
  await using world = await stack.world();
  const messages = await storeSentMessages(world.admin, [stormy], STORM_CALLS);
  const reports = deliveryReports(messages, stack.pepper);
  const halves: string[] = [];
  for (let half = 0; half < HALVES; half++) {
    const [from, until] = [half, half + 1].map((at) => (at * STORM_CALLS) / HALVES);
    halves.push(await writeReceiptTexts(stack.folder, `storm-${half}`, reports.slice(from, until)));
  }
  await using services = new AsyncDisposableStack();
  services.use(await startService(bench, world, 'worker', TAKES_RECEIPTS));
  const api = services.use(await startService(bench, world, 'api'));

  const send = async (measureMs: number): Promise<Phase> => {
    await helpers.provider.run('reset');
    const result = await offerUnmetered(bench, api, { keys, rate: SENDS_PER_SECOND, measureMs });
    await untilArrived(bench, result.accepted);
    return { result, arrivals: (await helpers.provider.run('take')).arrivals };
  };
  const storms: LoadResult[] = [];
  const sendInStorm = async (textsFile: string): Promise<Phase> => {
    const [phase, storm] = await Promise.all([
      send(STORM_HALF_MS - bench.options.warmMs),
      bringStorm(bench, api, textsFile),
    ]);
    storms.push(storm);
    await untilCounted(0, async () => -(await countCalls(world.admin)));
    return phase;
  };

  const [calmBefore, stormFirst] = [await send(CALM_MS), await sendInStorm(halves[0] as string)];
  const [stormLast, calmAfter] = [await sendInStorm(halves[1] as string), await send(CALM_MS)];
  const taken = storms.reduce((sum, { accepted }) => sum + accepted, 0);
  await untilCounted(taken, async () => (await countApplied(world.admin)).messages);
  const refused = sumByStatus(storms);
  const phases = [calmBefore, stormFirst, stormLast, calmAfter];
  return {
    figures: {
      ...latencyFigures('calm', [calmBefore, calmAfter]),
      ...latencyFigures('storm', [stormFirst, stormLast]),
      receiptsTaken: taken,
      receiptsPerSecond: (taken * 1_000) / (STORM_HALF_MS * HALVES),
    },
    refused,
    ledger: sumLedgers([
      ...phases.map(({ result, arrivals }) => ledgerOf(result.accepted, arrivals)),
      await appliedLedger(world, taken, refused['0'] ?? 0),
    ]),
  };
}

/** Sends each prepared call once. */
function bringStorm(
  { options, helpers }: Bench,
  { port }: Contestant,
  textsFile: string,
): Promise<LoadResult> {
  return helpers.storm.run({
    port,
    keys: [],
    isIdempotent: false,
    textsFile,
    connections: options.connections,
    rate: STORM_PER_SECOND,
    warmMs: 0,
    // Half an interval shorter, so that the first call is not sent a second time.
    measureMs: STORM_HALF_MS - 500 / STORM_PER_SECOND,
  });
}

/**
 * Returns the mean of the phases' percentiles of accepting, and the percentiles of all their messages from there to the provider.
 */
function latencyFigures(prefix: string, phases: readonly Phase[]): Record<string, number> {
  const mean = (pick: (result: LoadResult) => number): number =>
    phases.reduce((sum, { result }) => sum + pick(result), 0) / phases.length;
  const delays = phases.flatMap(({ result, arrivals }) =>
    delaysFrom(({ enqueuedAt }) => enqueuedAt, result.samples, arrivals),
  );
  const dispatch = latenciesOf(delays);
  return {
    [`${prefix}AcceptP50Ms`]: mean(({ p50Ms }) => p50Ms),
    [`${prefix}AcceptP99Ms`]: mean(({ p99Ms }) => p99Ms),
    [`${prefix}DispatchP50Ms`]: dispatch.p50Ms,
    [`${prefix}DispatchP99Ms`]: dispatch.p99Ms,
  };
}

function sumByStatus(results: readonly LoadResult[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const { refused } of results)
    for (const [status, count] of Object.entries(refused)) sum[status] = (sum[status] ?? 0) + count;
  return sum;
}
