import { expect, test } from 'vitest';
import { functionFiles, migrationFiles, migrationSql } from './migration-files.ts';

test('each function file makes the function it is named after, again and again, and grants nothing else', () => {
  for (const { name, sql } of functionFiles()) {
    const made = [...sql.matchAll(/^create (?:or replace )?function (\w+)/gim)];
    expect(made.length, name).toBeGreaterThan(0);
    for (const [text, of] of made)
      expect(text, name).toBe(`create or replace function ${of === name ? of : name}`);
    const granted = [...sql.matchAll(/^grant ([\s\S]*?)\bto\b/gim)].map(([, what = '']) => what);
    for (const what of granted)
      expect(what, name).toMatch(new RegExp(`^execute on function ${name}\\s*\\(`, 'u'));
    expect(sql, name).not.toMatch(/^\s*(?:drop|alter|revoke)\s/im);
  }
});

test('migrations are numbered without a gap', () => {
  expect(migrationFiles().map(({ version }) => version)).toEqual(migrationFiles().map((_, i) => i + 1));
  for (const { name } of migrationFiles()) expect(migrationSql(name).trim(), name).not.toBe('');
});
