/** What the driver gives for a query: rows as objects, and the columns that they have. */
type Rows = readonly object[] & { readonly columns: readonly { readonly name: string }[] };

/** The same rows under the names that the code uses, so that the shape of a row is spelled once, as `Row`. */
export function camelRows<Row>(rows: Rows): Row[] {
  const names = rows.columns.map(({ name }) => [name, camelCase(name)] as const);
  return rows.map((row) => {
    const renamed: Record<string, unknown> = {};
    for (const [from, to] of names) renamed[to] = (row as Record<string, unknown>)[from];
    return renamed as Row;
  });
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
