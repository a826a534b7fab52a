/** Whole numbers as ascending, disjoint, non-adjacent ranges. */
export type NumberRanges = readonly NumberRange[];
export type NumberRange = readonly [first: number, last: number];

/** Returns the ranges with one number added; it may already be included. */
export function withNumber(ranges: NumberRanges, number: number): NumberRanges {
  const before = ranges.filter(([, last]) => last < number - 1);
  const after = ranges.filter(([first]) => first > number + 1);
  const touched = ranges.slice(before.length, ranges.length - after.length);
  const first = Math.min(number, touched[0]?.[0] ?? number);
  const last = Math.max(number, touched.at(-1)?.[1] ?? number);
  return [...before, [first, last], ...after];
}

/** Returns the missing numbers between the lowest and the highest. */
export function gapsOf(ranges: NumberRanges): NumberRanges {
  return ranges.slice(1).map(([first], index) => [(ranges[index]?.[1] ?? 0) + 1, first - 1]);
}
