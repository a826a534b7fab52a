import { expect, test } from 'vitest';
import { parseStatus, processMemory } from './process-memory.ts';

test('only anonymous memory is counted, without shared memory and files', () => {
  const text =
    'Name:\tnode\nPPid:\t17\nVmRSS:\t  900 kB\nRssAnon:\t  300 kB\nRssFile:\t  500 kB\nRssShmem:\t  100 kB\n';
  expect(parseStatus(text)).toEqual({ parent: 17, bytes: 300 * 1_024 });
});

test('a process that has ended has no memory', () => {
  expect(parseStatus('')).toEqual({});
});

test.runIf(process.platform === 'linux')('the memory of this process is read', async () => {
  const bytes = await processMemory(process.pid);
  expect(bytes).toBeGreaterThan(2 ** 20);
});
