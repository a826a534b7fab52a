import { expect, test } from 'vitest';
import { functionFiles, migrationFiles, migrationSql } from './migration-files.ts';

test('each function file only creates or replaces its function and grants execute on it', () => {
  const wrong = functionFiles().filter(({ name, sql }) => {
    const made = [...sql.matchAll(/^create\s.*?function\s+\w+/gim)].map(([text]) => text);
    const granted = [...sql.matchAll(/^grant\s[^(]*/gim)].map(([text]) => text);
    return (
      made.length === 0 ||
      made.some((text) => text !== `create or replace function ${name}`) ||
      granted.some((text) => text !== `grant execute on function ${name}`) ||
      /^\s*(?:drop|alter|revoke)\s/im.test(sql)
    );
  });
  expect(wrong.map(({ name }) => name)).toEqual([]);
});

test('migrations are numbered without a gap', () => {
  expect(migrationFiles().map(({ version }) => version)).toEqual(migrationFiles().map((_, i) => i + 1));
  expect(migrationFiles().filter(({ name }) => migrationSql(name).trim() === '')).toEqual([]);
});
