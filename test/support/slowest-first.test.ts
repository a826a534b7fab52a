import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from './command.ts';
import { slowestFirst, SLOWEST } from './slowest-first.ts';

test.each(SLOWEST)('%s is a file', async (path) => {
  await expect(access(join(projectRoot, path))).resolves.toBeUndefined();
});

test('the slowest files come first, and the others in their order', () => {
  const others = ['test/b.test.ts', 'test/a.test.ts'];
  const paths = [...others, ...SLOWEST.toReversed()].map((path) => join(projectRoot, path));
  const sorted = slowestFirst(paths, (path) => path);
  expect(sorted).toEqual([...SLOWEST, ...others].map((path) => join(projectRoot, path)));
});
