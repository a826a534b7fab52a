import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from './command.ts';
import { countTests } from './run-vitest.ts';

const passedFile = { status: 'passed', assertionResults: [{ status: 'passed' }] };
const name = join(projectRoot, 'test/some.test.ts');

test('passed and failed tests of the report are counted', () => {
  const failed = { status: 'failed', fullName: 'one is two', failureMessages: ['expected 1 to be 2'] };
  const failedFile = { name, status: 'failed', assertionResults: [failed, { status: 'passed' }] };
  const report = { numPassedTests: 2, testResults: [passedFile, failedFile] };
  const failures = ['test/some.test.ts: one is two: expected 1 to be 2'];
  expect(countTests(report, 1)).toEqual({ passed: 2, failed: 1, failures });
});

test('a file that could not be loaded counts as a failure', () => {
  const brokenFile = { name, status: 'failed', message: 'cannot be loaded', assertionResults: [] };
  const report = { numPassedTests: 1, testResults: [passedFile, brokenFile] };
  const failures = ['test/some.test.ts: cannot be loaded'];
  expect(countTests(report, 1)).toEqual({ passed: 1, failed: 1, failures });
});

test('an error outside of any test counts as a failure', () => {
  const report = { numPassedTests: 1, testResults: [passedFile] };
  const failures = ['an error outside of any test'];
  expect(countTests(report, 1)).toEqual({ passed: 1, failed: 1, failures });
  expect(countTests(report, 0)).toEqual({ passed: 1, failed: 0, failures: [] });
});
