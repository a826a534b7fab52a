/**
 * Ends the process immediately. For a leader that lost its lease: another process may already be writing, and each step of
 * an orderly shutdown would be one that this process may no longer take.
 */
export function exitNow(code: number): never {
  process.exit(code);
}
