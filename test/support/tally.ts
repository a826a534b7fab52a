export type Tally = { readonly passed: number; readonly failed: number };

export function sum(tallies: readonly Tally[]): Tally {
  return {
    passed: tallies.reduce((total, { passed }) => total + passed, 0),
    failed: tallies.reduce((total, { failed }) => total + failed, 0),
  };
}

/** Prints the closing line and sets the exit code: 0 only if something ran and nothing failed. */
export function conclude(tallies: readonly Tally[]): void {
  const { passed, failed } = sum(tallies);
  process.stdout.write(`\n${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
}
