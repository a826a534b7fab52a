import { expect, test } from 'vitest';
import { auditChanges } from './audit-change.ts';

test('tells what differs, from what to what', () => {
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

test('of what is secret tells only that it changed', () => {
  const changes = auditChanges({ key: 'old', same: 's' }, { key: 'new', same: 's' }, () => true);
  expect(changes).toEqual([{ field: 'key' }]);
});

test('stays small, and sees a difference behind a long beginning', () => {
  const long = 'x'.repeat(10_000);
  const [change] = auditChanges({ a: `${long}1` }, { a: `${long}2` });
  expect(JSON.stringify(change).length).toBeLessThan(500);
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`${long}${i}`, i]));
  expect(JSON.stringify(auditChanges({}, many)).length).toBeLessThan(20_000);
});
