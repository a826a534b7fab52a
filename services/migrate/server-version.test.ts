import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from '#test/support/command.ts';
import { POSTGRES_MIN, versionFault } from './server-version.ts';

test.each([
  [160_010, '16.10'],
  [170_005, '17.5 (Debian 17.5-1)'],
  [179_999, '17.99'],
])('a server of version %i is refused with its version text', (number, text) => {
  expect(versionFault(number, text)).toBe(
    `Despatch needs Postgres 18 or newer, and the server is ${text}. Nothing was changed.`,
  );
});

test.each([180_000, 180_004, 190_000])('a server of version %i is accepted', (number) => {
  expect(versionFault(number, 'x')).toBeUndefined();
});

test.each([
  ['README.md', /Postgres (\d+) or newer/g],
  ['deploy/docs/install.md', /Postgres (\d+) or newer/g],
  ['deploy/postgres/bootstrap.sql', /Postgres (\d+) or newer/g],
  ['deploy/examples/cloudnative-pg/cluster.yaml', /postgresql:(\d+)/g],
  ['deploy/local/backends.yaml', /library\/postgres:(\d+)/g],
])('%s names a supported Postgres version', (path, pattern) => {
  const named = [...readFileSync(join(projectRoot, path), 'utf8').matchAll(pattern)].map(([, version]) =>
    Number(version),
  );
  expect(named.length).toBeGreaterThan(0);
  expect(named.filter((version) => version < POSTGRES_MIN)).toEqual([]);
});
