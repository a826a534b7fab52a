import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openDataFolder } from './data-folder.ts';
import { writeState } from './state.ts';

const tenant = { id: '1', slug: 'acme', serviceKey: 'k', testKey: 't' };

async function setup() {
  const root = await mkdtemp(join(tmpdir(), 'despatch-data-'));
  const folder = join(root, 'local');
  const notes: string[] = [];
  return {
    folder,
    notes,
    open: (fresh = false) =>
      openDataFolder({ folder, fresh, issuer: 'http://issuer', note: (line) => void notes.push(line) }),
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  };
}

test('a folder with foreign files is refused, also with --fresh, and stays unchanged', async () => {
  await using data = await setup();
  await mkdir(join(data.folder, 'share'), { recursive: true });
  await writeFile(join(data.folder, 'state.json'), '{"theirs": true}');
  for (const fresh of [false, true]) {
    await expect(data.open(fresh)).rejects.toThrow('has files that are not of the quick start');
  }
  expect((await readdir(data.folder)).toSorted()).toEqual(['share', 'state.json']);
});

test('an empty folder is used, and an interrupted first start begins again', async () => {
  await using data = await setup();
  await mkdir(data.folder);
  await data.open();
  await mkdir(join(data.folder, 'postgres', 'data'), { recursive: true });
  await data.open();
  expect(await readdir(data.folder)).toEqual(['despatch-quickstart']);
});

test('data of an earlier start is kept, and deleted with --fresh', async () => {
  await using data = await setup();
  const state = { ...(await data.open()), tenants: { first: tenant, other: tenant } };
  await writeState(data.folder, state);
  expect(await data.open()).toEqual(state);
  expect(data.notes).toEqual([]);
  expect(await data.open(true)).not.toHaveProperty('tenants');
  expect(data.notes).toEqual(['Starting afresh: --fresh']);
  expect(await readdir(data.folder)).toEqual(['despatch-quickstart']);
});
