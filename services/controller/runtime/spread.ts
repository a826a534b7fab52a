/** 80 to 120 % of a time, so that what began together does not come back together. */
export function spread(milliseconds: number, random: () => number = Math.random): number {
  return milliseconds * (0.8 + 0.4 * random());
}
