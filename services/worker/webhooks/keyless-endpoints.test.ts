import { expect, test } from 'vitest';
import { createKeylessEndpoints } from './keyless-endpoints.ts';

function setup() {
  let clock = 0;
  const endpoints = createKeylessEndpoints(() => clock);
  return { endpoints, passMs: (ms: number) => void (clock += ms) };
}

test('each failure to load keys doubles the wait, up to thirty seconds; a success resets it', () => {
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
