/** The driver's result of a query with `values()`: rows as arrays, and their columns. */
type Values = readonly (readonly unknown[])[] & { readonly columns: readonly { readonly name: string }[] };

/** A query that has not been sent yet. */
export type ValuesQuery = { values(): Promise<Values> };

/**
 * Converts rows to objects with camel-case names, so that the shape of a row is declared once, as `Row`.
 * @param added fields that every row gets besides its columns.
 */
export function camelRows<Row>(rows: Values, added: Readonly<Record<string, unknown>> = {}): Row[] {
  const names = rows.columns.map(({ name }) => camelCase(name));
  // V8 turns an object that is filled name by name into a hash table, six times as large as a copy of an object that has all
  // names.
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

/** Cache of converted names; it is bounded because the columns of our queries are fixed. */
const known = new Map<string, string>();

function camelCase(name: string): string {
  const before = known.get(name);
  if (before !== undefined) return before;
  const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  known.set(name, camel);
  return camel;
}
