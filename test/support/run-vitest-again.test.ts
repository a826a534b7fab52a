import { expect, test } from 'vitest';
import type { VitestRun } from './run-vitest.ts';
import { combine } from './run-vitest-again.ts';

const FAILURE = 'test/a.test.ts: waits: timed out';

const first: VitestRun = {
  tally: { passed: 9, failed: 1, failures: [FAILURE] },
  output: '',
  failed: ['waits'],
  failedFiles: [{ path: 'test/a.test.ts', passed: 2, failures: [FAILURE] }],
  files: [],
};

function secondRun(passed: number, failures: readonly string[]): VitestRun {
  return { ...first, tally: { passed, failed: failures.length, failures }, failed: [], failedFiles: [] };
}

test('a file that passes in the second run counts as passed, with its failures as unsteady', () => {
  expect(combine(first, secondRun(3, [])).tally).toMatchObject({
    passed: 10,
    failed: 0,
    failures: [],
    unsteady: [FAILURE],
  });
});

test('a file that fails again counts as failed', () => {
  expect(combine(first, secondRun(2, [FAILURE])).tally).toMatchObject({
    passed: 9,
    failed: 1,
    failures: [FAILURE],
    unsteady: [],
  });
});

test('a second run that ends without a report counts as failed', () => {
  const failures = ['integration tests ended with 1 and without a report'];
  expect(combine(first, secondRun(0, failures)).tally).toMatchObject({ passed: 7, failed: 1, failures });
});

test('a second run that finds no test counts as failed', () => {
  expect(combine(first, secondRun(0, [])).tally.failed).toBeGreaterThan(0);
});
