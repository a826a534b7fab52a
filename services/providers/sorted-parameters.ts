/**
 * Returns names sorted by UTF-16 code units, each once, with its values sorted the same way. Works in one pass: looking up
 * each name in the form takes time quadratic in the number of names, which the caller controls.
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
