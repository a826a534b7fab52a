import type { LoadResult, Sample } from '../processes/load-process.ts';
import type { Arrival } from '../processes/provider-process.ts';
import { percentile } from './percentile.ts';

export type Latencies = { readonly p50Ms: number; readonly p99Ms: number; readonly p999Ms: number };

/** Returns the delays from a given moment of each measured message to its arrival at the provider, in milliseconds. */
export function delaysFrom(
  moment: (sample: Sample) => number,
  samples: readonly Sample[],
  arrivals: readonly Arrival[],
): number[] {
  const arrivedAt = new Map(arrivals);
  return samples
    .map((sample) => (arrivedAt.get(sample.n) ?? Number.NaN) - moment(sample))
    .filter((ms) => !Number.isNaN(ms));
}

/** @param delays in any order. */
export function latenciesOf(delays: readonly number[]): Latencies {
  const sorted = delays.toSorted((a, b) => a - b);
  const [p50Ms, p99Ms, p999Ms] = [0.5, 0.99, 0.999].map((at) => percentile(sorted, at)) as [
    number,
    number,
    number,
  ];
  return { p50Ms, p99Ms, p999Ms };
}

/**
 * Returns percentiles: `accept` to the 202 and `request` to the provider, both from the scheduled time of the request; `deliver`
 * from the acceptance to the provider.
 */
export function openLoopFigures(
  { samples, p50Ms, p99Ms, p999Ms }: LoadResult,
  arrivals: readonly Arrival[],
): Record<string, number> {
  const deliver = latenciesOf(delaysFrom(({ enqueuedAt }) => enqueuedAt, samples, arrivals));
  const request = latenciesOf(delaysFrom(({ meantAt }) => meantAt, samples, arrivals));
  return {
    ...named('accept', { p50Ms, p99Ms, p999Ms }),
    ...named('deliver', deliver),
    ...named('request', request),
  };
}

function named(prefix: string, { p50Ms, p99Ms, p999Ms }: Latencies): Record<string, number> {
  return { [`${prefix}P50Ms`]: p50Ms, [`${prefix}P99Ms`]: p99Ms, [`${prefix}P999Ms`]: p999Ms };
}
