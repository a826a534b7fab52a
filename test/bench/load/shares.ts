/** Rising to 1: an index's share is what it adds to the one before. */
export type CumulativeShares = readonly number[];

export function cumulativeShares(weights: readonly number[]): CumulativeShares {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let sum = 0;
  return weights.map((weight) => (sum += weight) / total);
}

/** The first index whose share reaches beyond `at`, which is from 0 to below 1. */
export function indexAt(shares: CumulativeShares, at: number): number {
  let [low, high] = [0, shares.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((shares[middle] as number) > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Few are busy and many are not: the weight of the n-th is 1 / n^1.1. */
export function zipfWeights(count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i + 1) ** -1.1);
}

/** How evenly two or more were served: 1 is all the same, 1/n is one alone. */
export function jainIndex(values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0);
  const squares = values.reduce((total, value) => total + value * value, 0);
  return (sum * sum) / (values.length * squares);
}
