export function iso(time: Date | null): string | null {
  return time === null ? null : time.toISOString();
}
