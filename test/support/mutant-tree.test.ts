import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from './command.ts';
import { plantMutants } from './mutant-tree.ts';

const FILE = 'test/support/mutant-tree.ts';
const mutant = { name: 'planted', file: FILE, find: "'tsconfig.json'", replace: "'$&'" };

test('a mutant is planted in a copy with the dependencies, which goes away again, and the checkout stays as it is', async () => {
  const before = await readFile(join(projectRoot, FILE), 'utf8');
  const tree = await plantMutants([mutant]);
  expect(await readFile(join(tree.root, FILE), 'utf8')).toBe(before.replace("'tsconfig.json'", () => "'$&'"));
  await access(join(tree.root, 'node_modules/vitest/package.json'));
  await access(join(tree.root, 'services/api/main.ts'));
  await tree[Symbol.asyncDispose]();
  await expect(access(tree.root)).rejects.toThrow('ENOENT');
  expect(await readFile(join(projectRoot, FILE), 'utf8')).toBe(before);
});

test.each([
  ['is missing', 'no such text', 0],
  ['occurs more than once', 'import ', 4],
])('a mutant whose text %s is an error', async (_case, find, times) => {
  await expect(plantMutants([{ ...mutant, find }])).rejects.toThrow(`occurs ${times} times in ${FILE}`);
});
