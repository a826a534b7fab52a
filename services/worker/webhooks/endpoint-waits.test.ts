import { expect, test } from 'vitest';
import { createEndpointWaits } from './endpoint-waits.ts';

function setup() {
  let clock = 0;
  const endpoints = createEndpointWaits({ minMs: 1_000, maxMs: 30_000 }, () => clock);
  return { endpoints, passMs: (ms: number) => void (clock += ms) };
}

test('each failure doubles the wait, up to its maximum; a success resets it', () => {
  const { endpoints, passMs } = setup();
  for (const ms of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    endpoints.failed('a');
    passMs(ms - 1);
    expect(endpoints.waiting).toEqual(['a']);
    passMs(1);
    expect(endpoints.waiting).toEqual([]);
  }
  endpoints.forget('a');
  endpoints.failed('a');
  passMs(1_000);
  expect(endpoints.waiting).toEqual([]);
});

test('at most two thousand endpoints are kept; the oldest are evicted', () => {
  const { endpoints } = setup();
  for (let i = 0; i < 2_100; i += 1) endpoints.failed(`e${i}`);
  expect(endpoints.waiting).toHaveLength(2_000);
  expect(endpoints.waiting[0]).toBe('e100');
});
