/** What the driver gives for a query with `values()`: rows as arrays, and the columns that they have. */
type Values = readonly (readonly unknown[])[] & { readonly columns: readonly { readonly name: string }[] };

/** A query that is not asked yet. */
export type ValuesQuery = { values(): Promise<Values> };

/**
 * The rows as objects with the names that the code uses, so that the shape of a row is spelled once, as `Row`.
 * @param added what each of them has besides its columns.
 */
export function camelRows<Row>(rows: Values, added: Readonly<Record<string, unknown>> = {}): Row[] {
  const names = rows.columns.map(({ name }) => camelCase(name));
  // V8 makes a hash table of an object that is filled name by name, six times as large as a copy of one that has them all.
  const blank: Record<string, unknown> = {
    ...Object.fromEntries(names.map((name) => [name, null])),
    ...added,
  };
  return rows.map((values) => {
    const row = { ...blank };
    for (let i = 0; i < names.length; i += 1) row[names[i] as string] = values[i];
    return row as Row;
  });
}

/** The columns of our own queries: they are always the same. */
const known = new Map<string, string>();

function camelCase(name: string): string {
  const before = known.get(name);
  if (before !== undefined) return before;
  const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  known.set(name, camel);
  return camel;
}
