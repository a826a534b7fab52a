import { randomUUID } from 'node:crypto';
import { heapGrowth } from '#test/support/heap-growth.ts';
import { expect, test } from 'vitest';
import { decodeWakes, encodeWakes, WAKES_PER_MESSAGE_MAX } from './wake.ts';

const wake = {
  seq: 1_125_899_906_842_623,
  tenantId: '0b9f2c52-6c1b-4f65-9d9c-222222222222',
  accountId: '0b9f2c52-6c1b-4f65-9d9c-111111111111',
};
const other = { ...wake, seq: 7 };

test('encoded wake-ups are decoded in order, with the priority of their subject', () => {
  expect(decodeWakes(encodeWakes([wake, other]), 'high')).toEqual([
    { ...wake, priority: 0 },
    { ...other, priority: 0 },
  ]);
});

test.each([
  '',
  'x',
  `${encodeWakes([wake])} more`,
  encodeWakes([{ ...wake, seq: -1 }]),
  encodeWakes([{ ...wake, seq: 1e21 }]),
  encodeWakes([{ ...wake, tenantId: "' or 1=1" }]),
  encodeWakes([{ ...wake, accountId: 'any' }]),
])('an invalid line is left out, and the next wake-up is kept: %s', (line) => {
  expect(decodeWakes(line, 'normal')).toEqual([]);
  expect(decodeWakes(`${line}\n${encodeWakes([other])}`, 'normal')).toEqual([{ ...other, priority: 1 }]);
});

test('at most WAKES_PER_MESSAGE_MAX wake-ups of a payload are decoded', () => {
  const many = encodeWakes(Array.from({ length: WAKES_PER_MESSAGE_MAX + 10 }, () => wake));
  expect(decodeWakes(many, 'normal')).toHaveLength(WAKES_PER_MESSAGE_MAX);
});

test('a queued wake-up keeps no memory of its payload', () => {
  const kept: unknown[] = [];
  const payload = () =>
    Array.from({ length: 256 }, (_, seq) => `${seq} ${randomUUID()} ${randomUUID()}`).join('\n');
  const grown = heapGrowth(() => {
    for (let i = 0; i < 1_000; i += 1) kept.push(decodeWakes(payload(), 'normal')[7]);
  });
  // A quarter of a megabyte; with their payloads they take twenty.
  expect(grown).toBeLessThan(4_000_000);
  expect(kept).toHaveLength(1_000);
});

test('a wake-up of an unknown priority counts as normal', () => {
  const account = '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10';
  const priorityOf = (name: string) => decodeWakes(`1 ${account} ${account}`, name)[0]?.priority;
  expect(['high', 'normal', 'bulk', 'urgent'].map(priorityOf)).toEqual([0, 1, 2, 1]);
});
