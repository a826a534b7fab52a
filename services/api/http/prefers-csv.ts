const CSV = 'text/csv';

/** Returns whether the `Accept` header prefers CSV. @param other the media type that is sent otherwise. */
export function prefersCsv(accept: string, other: string): boolean {
  const at = (type: string): number => accept.toLowerCase().indexOf(type);
  return at(CSV) !== -1 && (at(other) === -1 || at(CSV) < at(other));
}
