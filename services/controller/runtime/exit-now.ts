/**
 * Ends the process here and now. For a leader that lost its lease: another one may be writing already, and every step of
 * an orderly end would be one more that this process has no right to.
 */
export function exitNow(code: number): never {
  process.exit(code);
}
