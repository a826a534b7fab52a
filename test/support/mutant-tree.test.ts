import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from './command.ts';
import { plantMutants } from './mutant-tree.ts';

const FILE = 'services/core/domain/tenant/service-key.ts';

test('a mutant changes a temporary copy with the dependencies, and the checkout stays unchanged', async () => {
  const before = await readFile(join(projectRoot, FILE), 'utf8');
  const tree = await plantMutants([{ changes: { 'key-checksum': [/!==/, '==='] } }]);
  const planted = await readFile(join(tree.root, FILE), 'utf8');
  expect(planted).not.toBe(before);
  expect(planted).toHaveLength(before.length);
  await access(join(tree.root, 'node_modules/vitest/package.json'));
  await access(join(tree.root, 'services/api/main.ts'));
  await tree[Symbol.asyncDispose]();
  await expect(access(tree.root)).rejects.toThrow('ENOENT');
  expect(await readFile(join(projectRoot, FILE), 'utf8')).toBe(before);
});
