import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { projectRoot, runCommand, tool } from './command.ts';
import type { FileTime } from './parts.ts';
import type { Tally } from './tally.ts';

export type VitestReport = {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly name?: string;
    /** Milliseconds since the epoch. */
    readonly startTime?: number;
    readonly endTime?: number;
    readonly status: string;
    /** Why a file could not be run. */
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName?: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
};

export type VitestOptions = {
  /** Runs only the test files whose path contains one of these. */
  readonly filters?: readonly string[];
  /** Shows the progress; false collects the output. Default true. */
  readonly show?: boolean;
  /** Runs only the tests whose name matches this expression. */
  readonly names?: string;
  /** Root of another copy of the project to run in. Default: this one. */
  readonly root?: string;
};

export type VitestProject = 'unit' | 'integration' | 'clients' | 'twins';

export type FailedFile = {
  /** Path from the project's root. */
  readonly path: string;
  /** Number of its tests that passed. */
  readonly passed: number;
  /** Its failures, a line each; at least one. */
  readonly failures: readonly string[];
};

export type VitestRun = {
  readonly tally: Tally;
  readonly output: string;
  /** Full names of the tests that failed themselves, without those that failed with their file. */
  readonly failed: readonly string[];
  readonly failedFiles: readonly FailedFile[];
  readonly files: readonly FileTime[];
};

/** Runs one Vitest project and counts its tests. */
export async function runVitest(
  project: VitestProject,
  { filters = [], show = true, names, root }: VitestOptions = {},
): Promise<VitestRun> {
  const folder = await mkdtemp(join(tmpdir(), 'despatch-vitest-'));
  const report = join(folder, 'report.json');
  const args = [
    'run',
    '--config=test/vitest.config.ts',
    `--project=${project}`,
    `--reporter=${show ? 'default' : 'dot'}`,
    '--reporter=json',
    `--outputFile.json=${report}`,
    ...(names === undefined ? [] : ['--testNamePattern', names]),
  ];
  using ending = endSoonAfter(report);
  try {
    const { code, output } = await runCommand(
      [tool('vitest'), ...args, ...filters],
      show ? 'show' : 'gather',
      root,
      ending.signal,
    );
    const text = await readFile(report, 'utf8').catch(() => undefined);
    if (text === undefined) {
      const failures = code === 0 ? [] : [`${project} tests ended with ${code} and without a report`];
      const tally = { passed: 0, failed: failures.length, failures };
      return { tally, output, failed: [], failedFiles: [], files: [] };
    }
    const parsed = JSON.parse(text) as VitestReport;
    const failed = parsed.testResults
      .flatMap(({ assertionResults }) => assertionResults)
      .filter(({ status }) => status === 'failed')
      .map(({ fullName = '' }) => fullName);
    return {
      tally: countTests(parsed, code),
      output,
      failed,
      failedFiles: failedFilesOf(parsed),
      files: timesOfFiles(parsed),
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Vitest waits for every process that holds its output pipe, which can be one that a failed test left behind. */
const END_MS_MAX = 60_000;

/** Returns a signal that aborts when a run has written its report and does not end. */
function endSoonAfter(report: string): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  let writtenAt: number | undefined;
  const looking = setInterval(() => {
    if (writtenAt === undefined && existsSync(report)) writtenAt = performance.now();
    if (writtenAt === undefined || performance.now() - writtenAt < END_MS_MAX) return;
    process.stdout.write(
      'the tests have ended and their processes have not: see which test leaves one behind\n',
    );
    controller.abort();
  }, 1_000);
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => clearInterval(looking),
  };
}

function timesOfFiles({ testResults }: VitestReport): FileTime[] {
  return testResults.map(({ name = '', startTime = 0, endTime = 0 }) => ({
    path: pathOf(name),
    seconds: Math.max(0, endTime - startTime) / 1_000,
  }));
}

/** Counts the tests, including what the report's totals omit: files that ran no test, and errors outside of any test. */
export function countTests(report: VitestReport, exitCode: number): Tally {
  const failures = failedFilesOf(report).flatMap((file) => file.failures);
  if (failures.length === 0 && exitCode !== 0) failures.push('an error outside of any test');
  return { passed: report.numPassedTests, failed: failures.length, failures };
}

function failedFilesOf({ testResults }: VitestReport): FailedFile[] {
  return testResults
    .filter(({ status }) => status === 'failed')
    .map(({ name = '', message = '', assertionResults }) => {
      const path = pathOf(name);
      const tests = assertionResults
        .filter(({ status }) => status === 'failed')
        .map(({ fullName = '', failureMessages: [first = ''] = [] }) => `${path}: ${fullName}: ${first}`);
      const passed = assertionResults.filter(({ status }) => status === 'passed').length;
      return { path, passed, failures: tests.length > 0 ? tests : [`${path}: ${message}`] };
    });
}

function pathOf(name: string): string {
  return relative(projectRoot, name);
}
