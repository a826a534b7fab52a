export type Tally = {
  readonly passed: number;
  readonly failed: number;
  /** What could not be run here. Default 0. */
  readonly skipped?: number;
};

export function sum(tallies: readonly Tally[]): Required<Tally> {
  return {
    passed: tallies.reduce((total, { passed }) => total + passed, 0),
    failed: tallies.reduce((total, { failed }) => total + failed, 0),
    skipped: tallies.reduce((total, { skipped = 0 }) => total + skipped, 0),
  };
}

/** Prints the closing line and sets the exit code: 0 only if something ran and nothing failed. */
export function conclude(tallies: readonly Tally[]): void {
  const { passed, failed, skipped } = sum(tallies);
  if (skipped > 0) process.stdout.write(`\n${skipped} skipped\n`);
  process.stdout.write(`\n${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
}
