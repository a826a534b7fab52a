/** Returns the values in an order that depends on the seed alone. */
export function shuffled<T>(values: readonly T[], seed: number): T[] {
  let state = seed >>> 0;
  // A linear congruential generator: enough to mix a list.
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  for (let i = 0; i < 8; i++) random();
  return values
    .map((value) => ({ value, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
