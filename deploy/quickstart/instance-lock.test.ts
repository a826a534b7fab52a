import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { lockFolder } from './instance-lock.ts';

test('a folder is locked by one quick start until that ends', async () => {
  const folder = `/nowhere/${randomUUID()}`;
  const first = await lockFolder(folder);
  await expect(lockFolder(folder)).rejects.toThrow(`another quick start runs on ${folder}`);
  await first[Symbol.asyncDispose]();
  await using second = await lockFolder(folder);
  expect(second).toBeDefined();
});
