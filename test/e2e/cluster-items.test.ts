import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runClusterItems, tallyOf } from './cluster-items.ts';

test('without a cluster the items are counted as skipped', async () => {
  const CLUSTER_TOOL = join(tmpdir(), 'no-such-cluster');
  expect(await runClusterItems({ CLUSTER_TOOL })).toEqual({ passed: 0, failed: 0, skipped: 3 });
});

test('a cluster that would have to be built first is not', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'despatch-cluster-'));
  await using tool = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
  expect(tool).toBeDefined();
  await writeFile(join(folder, 'env'), '');
  const env = { CLUSTER_TOOL: folder, CLUSTER_BIN: join(folder, 'bin') };
  expect(await runClusterItems(env)).toEqual({ passed: 0, failed: 0, skipped: 3 });
});

test.each([
  ['passed  one\n\n7 passed, 0 failed\n', { passed: 7, failed: 0 }],
  ['7 passed, 0 failed\nand then it broke', { passed: 0, failed: 1 }],
  ['', { passed: 0, failed: 1 }],
])('the closing line decides: %j', (output, tally) => {
  expect(tallyOf(output)).toEqual(tally);
});
