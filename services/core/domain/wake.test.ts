import { expect, test } from 'vitest';
import { decodeWakes, encodeWakes, WAKES_PER_MESSAGE_MAX } from './wake.ts';

const wake = {
  id: '0b9f2c52-6c1b-4f65-9d9c-111111111111',
  purgeOn: '2026-12-28',
  tenantId: '0b9f2c52-6c1b-4f65-9d9c-222222222222',
};
const other = { ...wake, id: '0b9f2c52-6c1b-4f65-9d9c-333333333333' };

test('wake-ups survive their way over the stream, in their order and with the priority of their lane', () => {
  expect(decodeWakes(encodeWakes([wake, other]), 'high')).toEqual([
    { ...wake, priority: 0 },
    { ...other, priority: 0 },
  ]);
});

test.each([
  '',
  'x',
  `${encodeWakes([wake])} more`,
  encodeWakes([{ ...wake, id: "' or 1=1" }]),
  encodeWakes([{ ...wake, purgeOn: 'soon' }]),
])('what is not a wake-up is left out, and its neighbour is not: %s', (line) => {
  expect(decodeWakes(line, 'normal')).toEqual([]);
  expect(decodeWakes(`${line}\n${encodeWakes([other])}`, 'normal')).toEqual([{ ...other, priority: 1 }]);
});

test('a message cannot carry more than its limit', () => {
  const many = encodeWakes(Array.from({ length: WAKES_PER_MESSAGE_MAX + 10 }, () => wake));
  expect(decodeWakes(many, 'normal')).toHaveLength(WAKES_PER_MESSAGE_MAX);
});
