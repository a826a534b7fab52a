import { expect, test } from 'vitest';
import { countTests } from './run-vitest.ts';

const passedFile = { status: 'passed', assertionResults: [{ status: 'passed' }] };

test('tests are counted as the report counts them', () => {
  const failedFile = { status: 'failed', assertionResults: [{ status: 'failed' }, { status: 'passed' }] };
  const report = { numPassedTests: 2, numFailedTests: 1, testResults: [passedFile, failedFile] };
  expect(countTests(report, 1)).toEqual({ passed: 2, failed: 1 });
});

test('a file that could not be loaded counts as a failure', () => {
  const brokenFile = { status: 'failed', assertionResults: [] };
  const report = { numPassedTests: 1, numFailedTests: 0, testResults: [passedFile, brokenFile] };
  expect(countTests(report, 1)).toEqual({ passed: 1, failed: 1 });
});

test('a fault outside of any test counts as a failure', () => {
  const report = { numPassedTests: 1, numFailedTests: 0, testResults: [passedFile] };
  expect(countTests(report, 1)).toEqual({ passed: 1, failed: 1 });
  expect(countTests(report, 0)).toEqual({ passed: 1, failed: 0 });
});
