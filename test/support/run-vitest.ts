import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCommand, tool } from './command.ts';
import type { Tally } from './tally.ts';

export type VitestReport = {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
};

export type VitestOptions = {
  /** Only the test files whose path contains one of these. */
  readonly filters?: readonly string[];
  /** Shows the progress as it comes; else the output is gathered. Default true. */
  readonly show?: boolean;
};

/** Runs one project of the tests and counts its tests. */
export async function runVitest(
  project: 'unit' | 'integration',
  { filters = [], show = true }: VitestOptions = {},
): Promise<{ tally: Tally; output: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'despatch-vitest-'));
  const report = join(folder, 'report.json');
  const args = [
    'run',
    '--config=test/vitest.config.ts',
    `--project=${project}`,
    `--reporter=${show ? 'default' : 'dot'}`,
    '--reporter=json',
    `--outputFile.json=${report}`,
  ];
  try {
    const { code, output } = await runCommand(
      [tool('vitest'), ...args, ...filters],
      show ? 'show' : 'gather',
    );
    const text = await readFile(report, 'utf8').catch(() => undefined);
    if (text === undefined) return { tally: { passed: 0, failed: code === 0 ? 0 : 1 }, output };
    return { tally: countTests(JSON.parse(text) as VitestReport, code), output };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Counts what a report's totals leave out: files that never ran a test, and faults outside of any test. */
export function countTests(report: VitestReport, exitCode: number): Tally {
  const brokenFiles = report.testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((assertion) => assertion.status === 'failed'),
  ).length;
  const failed = report.numFailedTests + brokenFiles;
  return { passed: report.numPassedTests, failed: failed === 0 && exitCode !== 0 ? 1 : failed };
}
