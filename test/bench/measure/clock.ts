/** Returns milliseconds since the epoch with fractions; all processes of a machine read the same clock. */
export function wallMs(): number {
  return performance.timeOrigin + performance.now();
}
