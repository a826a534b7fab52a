import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readRun, repeatFailedItems, runClusterItems, type ClusterRun } from './cluster-items.ts';

test('without a cluster the items are counted as skipped', async () => {
  const CLUSTER_TOOL = join(tmpdir(), 'no-such-cluster');
  expect(await runClusterItems({ CLUSTER_TOOL })).toMatchObject({
    tally: { passed: 0, failed: 0, skipped: 3 },
  });
});

test('a cluster that is not built yet is not built, and its items are skipped', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'despatch-cluster-'));
  await using tool = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
  expect(tool).toBeDefined();
  await writeFile(join(folder, 'env'), '');
  const env = { CLUSTER_TOOL: folder, CLUSTER_BIN: join(folder, 'bin') };
  expect(await runClusterItems(env)).toMatchObject({
    tally: { passed: 0, failed: 0, skipped: 3 },
  });
});

test.each([
  ['1. a\npassed  one\n\n7 passed, 0 failed\n', { passed: 7, failed: 0, failures: [] }],
  [
    'FAILED  two (3 s)\n        Error: no\n        + 3\n\n7 passed, 1 failed\n',
    { passed: 7, failed: 1, failures: ['end to end: two (3 s)\n        Error: no\n        + 3'] },
  ],
  ['7 passed, 0 failed\nand then it broke', { passed: 0, failed: 1, failures: ['end to end: no result'] }],
  ['', { passed: 0, failed: 1, failures: ['end to end: no result'] }],
])('the last line of the output is the result: %j', (output, tally) => {
  expect(readRun(output).tally).toEqual(tally);
});

const FAILURE = 'end to end: two (3.0 s)\n        503';
const first = readRun(
  '1. One\npassed  one (1.0 s)\n        a note\n\n3. Two\npassed  a (1.0 s)\nFAILED  two (3.0 s)\n        503\n\n2 passed, 1 failed\n',
);

test('the result of each item is read from the output', () => {
  expect([...first.items]).toEqual([
    [1, { passed: 1, failed: 0, failures: [] }],
    [3, { passed: 1, failed: 1, failures: [FAILURE] }],
  ]);
});

test('an item that passes in the second run counts as passed, with its failures as unsteady', async () => {
  const tally = await repeatFailedItems(first, async (items) => {
    expect(items).toEqual([3]);
    return readRun('3. Two\npassed  a (1.0 s)\npassed  two (3.0 s)\n\n2 passed, 0 failed\n');
  });
  expect(tally).toMatchObject({ passed: 3, failed: 0, failures: [], unsteady: [FAILURE] });
});

test.each([
  ['fails again', '3. Two\npassed  a (1.0 s)\nFAILED  two (3.0 s)\n        503\n\n1 passed, 1 failed\n'],
  ['ends without a result', 'killed'],
  ['was not run', '0 passed, 0 failed\n'],
])('an item that %s counts as failed', async (_how, output) => {
  const tally = await repeatFailedItems(first, async () => readRun(output));
  expect(tally.failed).toBeGreaterThan(0);
  expect(tally.unsteady).toEqual([]);
});

test('items that passed, were skipped or failed in many places are not run again', async () => {
  const items = new Map([1, 2, 3].map((number) => [number, { passed: 0, failed: 1 }]));
  const runs: ClusterRun[] = [
    { tally: { passed: 2, failed: 0 }, items: new Map([[1, { passed: 2, failed: 0 }]]) },
    { tally: { passed: 0, failed: 0, skipped: 3 }, items: new Map() },
    { tally: { passed: 0, failed: 3 }, items },
  ];
  for (const run of runs) {
    expect(await repeatFailedItems(run, () => Promise.reject(new Error('run again')))).toEqual(run.tally);
  }
});
