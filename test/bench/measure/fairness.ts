import { jainIndex } from '../load/shares.ts';
import type { LoadResult, Sample } from '../processes/load-process.ts';
import type { Arrival } from '../processes/provider-process.ts';
import { fillBacklog } from '../stack/backlog.ts';
import { startService, type Bench, type Measured } from './bench.ts';
import { delaysFrom, latenciesOf, type Latencies } from './latency.ts';
import { ledgerOf, sumLedgers, type Ledger } from './ledger.ts';
import { offerUnmetered } from './offer.ts';
import { untilArrived } from './until.ts';

const QUIET_TENANTS = 9;
const QUIET_PER_SECOND = 10;
const NOISY_TIMES = 100;
/** In a shorter time the 99th percentile of the quiet tenants would be the worst of a few messages. */
const MEASURE_MS_MIN = 10_000;
/** First message number of the backlog, apart from the numbers of the load. */
const BACKLOG_FROM = 500_000_000;

/**
 * Nine quiet tenants send ten messages a second each: alone, beside a tenant that offers a hundred times as much, and while that
 * tenant's backlog is drained. As a control, the ten send the same total in equal shares, before and after the noisy one does: the
 * additional delay of the quiet tenants there comes from the load of the machine, not from another tenant.
 */
export async function fairness(bench: Bench): Promise<Measured> {
  const { stack, helpers, options } = bench;
  const [noisy, ...others] = stack.tenants.slice(0, QUIET_TENANTS + 1);
  if (noisy === undefined || others.length < QUIET_TENANTS) throw new Error('fairness needs ten tenants');
  const keys = [noisy, ...others].map(({ key }) => key);
  await using world = await stack.world();
  await using api = await startService(bench, world, 'api');

  const phase = async (noise: number, waiting = 0, isEven = false): Promise<Phase> => {
    if (waiting === 0) await helpers.provider.run('reset');
    const result = await offerUnmetered(bench, api, {
      keys,
      weights: isEven ? keys.map(() => 1) : [noise, ...others.map(() => 1)],
      rate: QUIET_PER_SECOND * (QUIET_TENANTS + noise),
      measureMs: Math.max(options.measureMs, MEASURE_MS_MIN),
      // A backlog is drained during the warm-up too, so the phase has almost none.
      ...(waiting === 0 ? {} : { warmMs: 1 }),
    });
    await untilArrived(bench, result.accepted + waiting);
    const { arrivals } = await helpers.provider.run('take');
    return { result, arrivals, ledger: ledgerOf(result.accepted + waiting, arrivals) };
  };

  const withWorker = async <T>(work: () => Promise<T>): Promise<T> => {
    await using services = new AsyncDisposableStack();
    services.use(await startService(bench, world, 'worker'));
    return await work();
  };

  const [warm, alone, evenBefore, beside, evenAfter] = await withWorker(async () => {
    // Processes without earlier load fall behind at first under any distribution, so the first phase is not counted.
    const first = await phase(NOISY_TIMES, 0, true);
    const quiet = await phase(0);
    // The control is measured before and after, because a phase that follows a low load would be the slower one.
    const before = await phase(NOISY_TIMES, 0, true);
    return [first, quiet, before, await phase(NOISY_TIMES), await phase(NOISY_TIMES, 0, true)] as const;
  });
  await helpers.provider.run('reset');
  await fillBacklog(world, [noisy], options.backlog, BACKLOG_FROM);
  const behind = await withWorker(() => phase(0, options.backlog));
  const drainedAt = behind.arrivals.findLast(([n]) => n >= BACKLOG_FROM)?.[1] ?? Number.NaN;

  return {
    figures: {
      ...prefixed('alone', quietLatencies([alone])),
      ...prefixed('beside', quietLatencies([beside])),
      ...prefixed('even', quietLatencies([evenBefore, evenAfter])),
      ...prefixed(
        'behind',
        quietLatencies([behind], ({ meantAt }) => meantAt < drainedAt),
      ),
      besideJain: servedEvenly(beside, keys.length),
    },
    ledger: sumLedgers([warm, alone, evenBefore, beside, evenAfter, behind].map(({ ledger }) => ledger)),
  };
}

type Phase = { readonly result: LoadResult; readonly arrivals: readonly Arrival[]; readonly ledger: Ledger };

/** Returns delays from acceptance to the provider, of all tenants but the first, over all these phases. */
function quietLatencies(
  phases: readonly Phase[],
  counts: (sample: Sample) => boolean = () => true,
): Latencies {
  return latenciesOf(
    phases.flatMap(({ result, arrivals }) => {
      const quiet = result.samples.filter((sample) => sample.key > 0 && counts(sample));
      return delaysFrom(({ enqueuedAt }) => enqueuedAt, quiet, arrivals);
    }),
  );
}

/** Returns the Jain index of the shares of each tenant's offered messages that had reached the provider when the load ended. */
function servedEvenly({ result: { samples }, arrivals }: Phase, tenants: number): number {
  const endedAt = Math.max(...samples.map(({ meantAt }) => meantAt));
  const left = new Set(arrivals.filter(([, at]) => at <= endedAt).map(([n]) => n));
  const shares = Array.from({ length: tenants }, (_, key) => {
    const offered = samples.filter((sample) => sample.key === key);
    return offered.filter(({ n }) => left.has(n)).length / offered.length;
  });
  return jainIndex(shares);
}

function prefixed(prefix: string, { p50Ms, p99Ms }: Latencies): Record<string, number> {
  return { [`${prefix}P50Ms`]: p50Ms, [`${prefix}P99Ms`]: p99Ms };
}
