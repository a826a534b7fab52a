import { createSecretKey } from 'node:crypto';
import { assert, integer, oneof, property, record, string } from 'fast-check';
import { expect, test } from 'vitest';
import { createCursors, pageFrom } from './cursor.ts';

const cursors = createCursors(createSecretKey(Buffer.alloc(32, 1)));

test('a cursor opens to its position for the same list, regardless of the key order of the filter', () => {
  const text = string().map((given) => given.toWellFormed());
  assert(
    property(oneof(integer(), record({ at: text, seq: integer() })), (position) => {
      const cursor = cursors.next(['messages', { a: 1, b: 2 }], position) ?? '';
      expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(cursors.position(['messages', { b: 2, a: 1 }], cursor)).toEqual(position);
    }),
  );
});

test('a list without a cursor begins at its start, and its last page has none', () => {
  expect(cursors.position(['messages'], undefined)).toBeUndefined();
  expect(cursors.next(['messages'], undefined)).toBeNull();
});

test('cursors that clients hold stay valid', () => {
  // A position in the form in which every release has written it.
  expect(cursors.position<number>(['messages', 't1'], '89GP7SW7gwdzWjocZrYyz9AQZgkZ')).toBe(12_345);
});

test('a cursor of another list, another key or with any character changed is refused', () => {
  const cursor = cursors.next(['messages', 't1'], 12_345) ?? '';
  expect(() => cursors.position(['messages', 't2'], cursor)).toThrow('Cursor');
  expect(() =>
    createCursors(createSecretKey(Buffer.alloc(32, 2))).position(['messages', 't1'], cursor),
  ).toThrow('Cursor');
  for (let i = 0; i < cursor.length; i++) {
    const changed = cursor.slice(0, i) + (cursor[i] === 'A' ? 'B' : 'A') + cursor.slice(i + 1);
    expect(() => cursors.position(['messages', 't1'], changed)).toThrow('Cursor');
  }
  for (const junk of ['', 'x', `${cursor}=`, `${cursor} `])
    expect(() => cursors.position(['messages', 't1'], junk)).toThrow('Cursor');
});

test('a cursor hides its position, since row numbers count the rows of all tenants', () => {
  const bytesOf = (position: number | object) =>
    Buffer.from(cursors.next(['messages', 't1'], position) ?? '', 'base64url');
  const read = bytesOf({ enqueuedAt: '2026-01-15T09:30:00.000Z', seq: 123_456_789 }).toString('latin1');
  for (const part of ['enqueuedAt', '2026', '123456789']) expect(read).not.toContain(part);
  // Nor does one tell of another how their positions differ.
  const [one, two] = [1000, 1001].map(bytesOf);
  expect(one?.subarray(16, 19)).not.toEqual(two?.subarray(16, 19));
  expect(one?.length).toBe(two?.length);
});

test('a page has a next cursor only if more rows follow', () => {
  const page = (rows: number[]) => pageFrom(rows, 2, (row) => row * 10, String);
  expect(page([3, 2, 1])).toEqual({ items: [30, 20], nextCursor: '2' });
  expect(page([2, 1])).toEqual({ items: [20, 10], nextCursor: null });
  expect(page([])).toEqual({ items: [], nextCursor: null });
});
