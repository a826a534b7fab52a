import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { newState, readState, staleness, writePrivateJson, writeState, type State } from './state.ts';

const tenant = { id: '1', slug: 'acme', serviceKey: 'k', testKey: 't' };
const complete: State = {
  ...newState({ '0001_a.sql': 'x' }, 'http://issuer'),
  tenants: { first: tenant, other: tenant },
};

async function folder() {
  const path = await mkdtemp(join(tmpdir(), 'despatch-state-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

test('existing data is reused while migrations are only added', () => {
  expect(staleness(complete, { '0001_a.sql': 'x', '0002_b.sql': 'y' })).toBeUndefined();
});

test.each([
  ['a changed migration', complete, { '0001_a.sql': 'z' }],
  ['a missing migration', complete, {}],
  ['an interrupted first start', newState({}, 'http://issuer'), {}],
  ['no state at all', undefined, {}],
])('%s makes the data unusable', (_name, state, migrations) => {
  expect(staleness(state, migrations)).toEqual(expect.any(String));
});

test('all secrets of a new state differ', () => {
  const { pepper, receiptPepper, databasePasswords, natsPasswords } = newState({}, 'http://issuer');
  const secrets = [
    pepper,
    receiptPepper,
    ...Object.values(databasePasswords),
    ...Object.values(natsPasswords),
  ];
  expect(new Set(secrets).size).toBe(8);
  for (const secret of secrets) expect(secret).toMatch(/^[0-9a-f]{64}$/);
});

test('a written state is read back, and a broken file counts as no state', async () => {
  await using dir = await folder();
  await writeState(dir.path, complete);
  expect(await readState(dir.path)).toEqual(complete);
  await writeFile(join(dir.path, 'state.json'), '{"pep');
  expect(await readState(dir.path)).toBeUndefined();
});

test('a file with secrets has mode 600, even if it existed with another mode', async () => {
  await using dir = await folder();
  const path = join(dir.path, 'quickstart.json');
  await writeFile(path, '{}', { mode: 0o644 });
  await writePrivateJson(path, { a: 1 });
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(JSON.parse(await readFile(path, 'utf8'))).toEqual({ a: 1 });
});
