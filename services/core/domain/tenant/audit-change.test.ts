import { expect, test } from 'vitest';
import { auditChanges } from './audit-change.ts';

test('lists each changed field with its old and new value', () => {
  const before = { name: 'A', limit: null, scopes: ['a'], same: { a: 1 }, gone: 1 };
  const after = { name: 'B', limit: 5, scopes: ['a', 'b'], same: { a: 1 }, come: true };
  expect(auditChanges(before, after)).toEqual([
    { field: 'name', from: 'A', to: 'B' },
    { field: 'limit', from: null, to: 5 },
    { field: 'scopes', from: ['a'], to: ['a', 'b'] },
    { field: 'gone', from: 1, to: null },
    { field: 'come', from: null, to: true },
  ]);
});

test('lists a changed secret without its values', () => {
  const changes = auditChanges({ key: 'old', same: 's' }, { key: 'new', same: 's' }, () => true);
  expect(changes).toEqual([{ field: 'key' }]);
});

test('a value is cut where its text is longer than 200 characters', () => {
  const to = (value: string) => auditChanges({}, { a: value })[0];
  expect(to('x'.repeat(198))).toEqual({ field: 'a', from: null, to: 'x'.repeat(198) });
  expect(to('x'.repeat(199))).toEqual({ field: 'a', from: null, to: `"${'x'.repeat(199)}…` });
});

test('bounds the size of changes, and finds a difference after a long common prefix', () => {
  const long = 'x'.repeat(10_000);
  const [change] = auditChanges({ a: `${long}1` }, { a: `${long}2` });
  expect(JSON.stringify(change).length).toBeLessThan(500);
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`${long}${i}`, i]));
  expect(JSON.stringify(auditChanges({}, many)).length).toBeLessThan(20_000);
});
