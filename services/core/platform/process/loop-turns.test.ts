import { expect, test } from 'vitest';
import { createLoopTurns } from './loop-turns.ts';

test.each([
  [
    [4, 4, 4, 1, 9, 20, 1],
    [2, 2, 1, 1, 1],
  ],
  [
    [10, 10],
    [1, 1],
  ],
  [[1, 1, 1], [3]],
])('pieces with weights %j share an event loop turn up to its maximum weight', async (weights, sizes) => {
  const turns = createLoopTurns(10);
  const spread: number[][] = [];
  let isNewTurn = true;
  await Promise.all(
    weights.map(async (weight) => {
      await turns(weight);
      if (isNewTurn) spread.push([]);
      spread.at(-1)?.push(weight);
      isNewTurn = false;
      setImmediate(() => (isNewTurn = true));
    }),
  );
  expect(spread.map(({ length }) => length)).toEqual(sizes);
});

test('other work of the event loop runs between the pieces', async () => {
  const order: string[] = [];
  const turns = createLoopTurns(1);
  const pieces = [1, 2, 3].map(async (n) => {
    await turns(1);
    order.push(`piece ${n}`);
    setImmediate(() => order.push(`after ${n}`));
  });
  await Promise.all(pieces);
  expect(order).toEqual(['piece 1', 'after 1', 'piece 2', 'after 2', 'piece 3']);
});
