import type { GrowthPoint } from '../measure/growth.ts';
import { median, spreadOf, type Spread } from '../measure/percentile.ts';

/** Returns the ratio of the largest database to the smallest within the same visit. */
export function growthRatio(points: readonly GrowthPoint[], figure: string): Spread {
  const [smallest, largest] = [points[0]?.visits ?? [], points.at(-1)?.visits ?? []];
  return spreadOf(
    unlessMostAreUnknown(
      largest.map((visit, i) => (visit[figure] ?? Number.NaN) / (smallest[i]?.[figure] ?? Number.NaN)),
    ),
  );
}

export function growthMedian({ visits }: GrowthPoint, figure: string): number {
  return median(unlessMostAreUnknown(visits.map((visit) => visit[figure] ?? Number.NaN)));
}

/** Returns nothing where at least half of the visits lack the figure. */
function unlessMostAreUnknown(values: readonly number[]): number[] {
  const known = values.filter((value) => !Number.isNaN(value));
  return 2 * known.length > values.length ? known : [];
}
