import { expect, test } from 'vitest';
import { createFifo } from './fifo.ts';

test('what came first goes first, however often the line is compacted', () => {
  const fifo = createFifo<number>();
  const out: number[] = [];
  let next = 0;
  for (let round = 0; round < 200; round++) {
    for (let i = 0; i < 37; i++) fifo.push(next++);
    for (let i = 0; i < 31; i++) out.push(fifo.shift() as number);
  }
  expect(fifo.size).toBe(200 * 6);
  while (fifo.size > 0) out.push(fifo.shift() as number);
  expect(out).toEqual(Array.from({ length: next }, (_, n) => n));
  expect(fifo.shift()).toBeUndefined();
});

test('a line that ran empty takes in again', () => {
  const fifo = createFifo<string>();
  fifo.push('a');
  fifo.shift();
  fifo.push('b');
  expect([fifo.size, fifo.shift(), fifo.size]).toEqual([1, 'b', 0]);
});
