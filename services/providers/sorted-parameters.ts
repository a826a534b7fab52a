/**
 * Names in the order of their UTF-16 units, each once, with its values in theirs. In one pass: to ask a form for each of
 * its names takes a time that grows with the square of their number, which whoever calls may choose.
 */
export function sortedParameters(
  parameters: URLSearchParams,
): (readonly [name: string, values: readonly string[]])[] {
  const valuesOf = new Map<string, string[]>();
  for (const [name, value] of parameters) {
    const values = valuesOf.get(name);
    if (values === undefined) valuesOf.set(name, [value]);
    else values.push(value);
  }
  return [...valuesOf.keys()].toSorted().map((name) => [name, valuesOf.get(name)?.toSorted() ?? []]);
}
