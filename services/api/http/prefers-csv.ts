const CSV = 'text/csv';

/** Whether a client asks for a table, by its header `Accept`. @param other what it is answered with else. */
export function prefersCsv(accept: string, other: string): boolean {
  const at = (type: string): number => accept.toLowerCase().indexOf(type);
  return at(CSV) !== -1 && (at(other) === -1 || at(CSV) < at(other));
}
