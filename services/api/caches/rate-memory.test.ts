import { expect, test } from 'vitest';
import { createRateMemory } from './rate-memory.ts';

test('a rate-limited key is refused from memory until the last second of its wait', () => {
  let now = 0;
  const memory = createRateMemory(() => now);
  memory.refused('key', 60, 30);
  const said = [0, 1, 999, 1_000, 27_999, 28_000, 28_999, 29_000, 30_000].map((at) => {
    now = at;
    return memory.retryAfter('key', 60);
  });
  expect(said).toEqual([30, 30, 30, 29, 3, 2, 2, undefined, undefined]);
});

test('a wait of one second is not remembered, as it may be over already', () => {
  const memory = createRateMemory(() => 0);
  memory.refused('key', 60, 1);
  expect(memory.retryAfter('key', 60)).toBeUndefined();
});

test('another key and another limit of the same key are not refused', () => {
  const memory = createRateMemory(() => 0);
  memory.refused('key', 60, 30);
  expect([memory.retryAfter('other', 60), memory.retryAfter('key', 120)]).toEqual([undefined, undefined]);
});
