/** Rises to 1; the share of an index is the difference to the one before. */
export type CumulativeShares = readonly number[];

export function cumulativeShares(weights: readonly number[]): CumulativeShares {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let sum = 0;
  return weights.map((weight) => (sum += weight) / total);
}

/** Returns the first index whose cumulative share is above `at`, which lies in [0, 1). */
export function indexAt(shares: CumulativeShares, at: number): number {
  let [low, high] = [0, shares.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((shares[middle] as number) > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Returns weights of 1 / n^1.1 for the n-th: a few are busy and many are not. */
export function zipfWeights(count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i + 1) ** -1.1);
}

/** Returns the Jain fairness index of two or more values: 1 if all are equal, 1/n if one has everything. */
export function jainIndex(values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0);
  const squares = values.reduce((total, value) => total + value * value, 0);
  return (sum * sum) / (values.length * squares);
}
