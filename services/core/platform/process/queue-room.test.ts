import { expect, test } from 'vitest';
import { QueueFullError } from './micro-batch.ts';
import { createQueueRoom } from './queue-room.ts';

test('one owner takes at most half of the items, and others the rest', () => {
  const room = createQueueRoom({ itemsMax: 4, bytesMax: 1_000 });
  const leave = room.enter('a', 1);
  room.enter('a', 1);
  expect(() => room.enter('a', 1)).toThrow(QueueFullError);
  room.enter('b', 1);
  leave();
  expect(() => room.enter('a', 1)).not.toThrow();
});

test('one owner takes at most half of the bytes, and all owners together take all of them', () => {
  const room = createQueueRoom({ itemsMax: 100, bytesMax: 1_000 });
  const leave = room.enter('a', 500);
  expect(() => room.enter('a', 1)).toThrow(QueueFullError);
  room.enter('b', 450);
  expect(() => room.enter('c', 51)).toThrow(QueueFullError);
  leave();
  expect(() => room.enter('c', 51)).not.toThrow();
  expect(() => room.enter('a', 500)).toThrow(QueueFullError);
  expect(() => room.enter('a', 499)).not.toThrow();
});
