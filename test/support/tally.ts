export type Tally = {
  readonly passed: number;
  readonly failed: number;
  /** Tests that could not be run here. Default 0. */
  readonly skipped?: number;
  /** The failures, a line each, for the end of a long output. */
  readonly failures?: readonly string[];
  /** Failures of tests that passed in the second run, a line each. */
  readonly unsteady?: readonly string[];
};

export function sum(tallies: readonly Tally[]): Required<Tally> {
  return {
    passed: tallies.reduce((total, { passed }) => total + passed, 0),
    failed: tallies.reduce((total, { failed }) => total + failed, 0),
    skipped: tallies.reduce((total, { skipped = 0 }) => total + skipped, 0),
    failures: tallies.flatMap(({ failures = [] }) => failures),
    unsteady: tallies.flatMap(({ unsteady = [] }) => unsteady),
  };
}

/** Prints the failures and a summary, and sets the exit code: 0 only if something ran and nothing failed. */
export function conclude(tallies: readonly Tally[]): void {
  const { passed, failed, skipped, failures, unsteady } = sum(tallies);
  if (unsteady.length > 0) {
    process.stdout.write(`\nfailed at first and passed when run again:\n${unsteady.map(lineOf).join('')}`);
  }
  if (failures.length > 0) process.stdout.write(`\nfailed:\n${failures.map(lineOf).join('')}`);
  if (skipped > 0) process.stdout.write(`\n${skipped} skipped\n`);
  process.stdout.write(`\n${passed} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
}

const LINE_MAX = 1_000;

function lineOf(failure: string): string {
  return `  ${failure.replaceAll(/\s+/g, ' ').slice(0, LINE_MAX)}\n`;
}
