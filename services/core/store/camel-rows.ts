/** What the driver gives for a query with `values()`: rows as arrays, and the columns that they have. */
type Values = readonly (readonly unknown[])[] & { readonly columns: readonly { readonly name: string }[] };

/** A query that is not asked yet. */
export type ValuesQuery = { values(): Promise<Values> };

/** The rows as objects with the names that the code uses, so that the shape of a row is spelled once, as `Row`. */
export function camelRows<Row>(rows: Values): Row[] {
  const names = rows.columns.map(({ name }) => camelCase(name));
  // V8 makes a hash table of an object that is filled name by name, six times as large as a copy of one that has them all.
  const blank: Record<string, unknown> = Object.fromEntries(names.map((name) => [name, null]));
  return rows.map((values) => {
    const row = { ...blank };
    for (const [i, name] of names.entries()) row[name] = values[i];
    return row as Row;
  });
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
