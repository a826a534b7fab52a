import { createSecretKey } from 'node:crypto';
import { assert, property, string } from 'fast-check';
import { expect, test } from 'vitest';
import { createCursors, pageFrom } from './cursor.ts';

const cursors = createCursors(createSecretKey(Buffer.alloc(32, 1)));

test('a cursor opens to its position for the same list, regardless of the key order of the filter', () => {
  assert(
    property(string({ minLength: 1 }), (position) => {
      const cursor = cursors.seal(['messages', { a: 1, b: 2 }], position);
      expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(cursors.open(['messages', { b: 2, a: 1 }], cursor)).toBe(position.toWellFormed());
    }),
  );
});

test('a cursor of another list, another key or with any character changed is refused', () => {
  const cursor = cursors.seal(['messages', 't1'], '12345');
  expect(() => cursors.open(['messages', 't2'], cursor)).toThrow('Cursor');
  expect(() => createCursors(createSecretKey(Buffer.alloc(32, 2))).open(['messages', 't1'], cursor)).toThrow(
    'Cursor',
  );
  for (let i = 0; i < cursor.length; i++) {
    const changed = cursor.slice(0, i) + (cursor[i] === 'A' ? 'B' : 'A') + cursor.slice(i + 1);
    expect(() => cursors.open(['messages', 't1'], changed)).toThrow('Cursor');
  }
  for (const junk of ['', 'x', `${cursor}=`, `${cursor} `])
    expect(() => cursors.open(['messages', 't1'], junk)).toThrow('Cursor');
});

test('a cursor hides its position, since row numbers count the rows of all tenants', () => {
  const position = JSON.stringify({ enqueuedAt: '2026-01-15T09:30:00.000Z', seq: 123_456_789 });
  const read = Buffer.from(cursors.seal(['messages', 't1'], position), 'base64url').toString('latin1');
  for (const part of ['enqueuedAt', '2026', '123456789']) expect(read).not.toContain(part);
  // Nor does one tell of another how their positions differ.
  const [one, two] = ['1000', '1001'].map((at) =>
    Buffer.from(cursors.seal(['messages', 't1'], at), 'base64url'),
  );
  expect(one?.subarray(16, 19)).not.toEqual(two?.subarray(16, 19));
  expect(one?.length).toBe(two?.length);
});

test('a page has a next cursor only if more rows follow', () => {
  const page = (rows: number[]) => pageFrom(rows, 2, (row) => row * 10, String);
  expect(page([3, 2, 1])).toEqual({ items: [30, 20], nextCursor: '2' });
  expect(page([2, 1])).toEqual({ items: [20, 10], nextCursor: null });
  expect(page([])).toEqual({ items: [], nextCursor: null });
});
