import { expect, test } from 'vitest';
import { functionFiles, migrationFiles, migrationSql } from './migration-files.ts';

test.each(functionFiles())(
  'functions/$name.sql makes the function it is named after, again and again, and grants nothing else',
  ({ name, sql }) => {
    const made = [...sql.matchAll(/^create (?:or replace )?function \w+/gim)].map(([text]) => text);
    expect(made).toEqual([`create or replace function ${name}`]);
    const granted = [...sql.matchAll(/^grant ([\s\S]*?)\bto\b/gim)].map(([, what = '']) => what);
    for (const what of granted) expect(what).toMatch(new RegExp(`^execute on function ${name}\\s*\\(`, 'u'));
    expect(sql).not.toMatch(/^\s*(?:drop|alter|revoke)\s/im);
  },
);

test('migrations are numbered without a gap', () => {
  expect(migrationFiles().map(({ version }) => version)).toEqual(migrationFiles().map((_, i) => i + 1));
  expect(migrationFiles().filter(({ name }) => migrationSql(name).trim() === '')).toEqual([]);
});
