import { expect, test } from 'vitest';
import { runPart, timesOf } from './parts.ts';

const tally = { passed: 1, failed: 0 };

test('lists the time of each part, the total, and the ten slowest files', () => {
  const files = Array.from({ length: 12 }, (_, i) => ({ path: `file-${i}`, seconds: i }));
  const lines = timesOf([{ name: 'integration tests', tally, seconds: 61.25 }], files, 75).split('\n');
  expect(lines.slice(0, 5)).toEqual([
    'time of each part',
    '   61.3 s  integration tests',
    '   75.0 s  in all; parts run side by side',
    'slowest test files',
    '   11.0 s  file-11',
  ]);
  expect(lines).toHaveLength(14);
});

test('a part returns its name and the tally of its work', async () => {
  expect(await runPart('one', async () => tally)).toMatchObject({ name: 'one', tally });
});
