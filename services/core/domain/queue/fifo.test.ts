import { expect, test } from 'vitest';
import { createFifo } from './fifo.ts';

test('items come out in the order they were added, also across compactions', () => {
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

test('an emptied queue accepts items again', () => {
  const fifo = createFifo<string>();
  fifo.push('a');
  fifo.shift();
  fifo.push('b');
  expect([fifo.size, fifo.shift(), fifo.size]).toEqual([1, 'b', 0]);
});
