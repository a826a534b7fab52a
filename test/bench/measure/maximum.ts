import type { Bench } from './bench.ts';
import { wallMs } from './clock.ts';
import type { Contestant } from './contestant.ts';
import { ledgerOf, type Ledger } from './ledger.ts';
import type { Meter } from './meter.ts';
import { offer, type Offered } from './offer.ts';
import { untilArrived } from './until.ts';

export type Maximum = Offered & {
  /** Calls per second while the load is offered. */
  readonly deliveredPerSecond: number;
  /** The rate that api and worker sustain: accepted messages divided by the time until the last of them reached the provider. */
  readonly sustainedPerSecond: number;
  readonly ledger: Ledger;
};

/** Offers as much as an api accepts while its worker delivers, and waits until every message has reached the provider. */
export async function measureMaximum(bench: Bench, api: Contestant, meter: Meter): Promise<Maximum> {
  const { helpers, options } = bench;
  await helpers.provider.run('reset');
  const counts: number[] = [];
  const noteCount = (): void => void helpers.provider.run('count').then(({ count }) => counts.push(count));
  const begin = wallMs();
  const offered = await offer(bench, api, meter, { onMeasuring: noteCount, onMeasured: noteCount });
  const { accepted } = offered.result;
  await untilArrived(bench, accepted);
  const { arrivals } = await helpers.provider.run('take');
  const lastAt = arrivals.at(-1)?.[1] ?? Number.NaN;
  return {
    ...offered,
    deliveredPerSecond: (((counts[1] ?? 0) - (counts[0] ?? 0)) * 1_000) / options.measureMs,
    sustainedPerSecond: (accepted * 1_000) / (lastAt - begin),
    ledger: ledgerOf(accepted, arrivals),
  };
}
