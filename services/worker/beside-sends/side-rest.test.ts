import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createSideRest } from './side-rest.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function setup() {
  const state = { isSending: true, over: 0 };
  const rest = createSideRest({
    kind: 'events',
    isSending: () => state.isSending,
    onOver: () => state.over++,
  });
  return { state, rest };
}

test('while messages are sent, work is followed by a rest; otherwise there is none', () => {
  const { state, rest } = setup();
  expect(rest.leftMs()).toBe(0);
  rest.extend({ tookMs: 50, waitedMs: 0 });
  vi.advanceTimersByTime(40);
  expect(rest.leftMs()).toBe(60);
  state.isSending = false;
  expect(rest.leftMs()).toBe(0);
  rest.extend({ tookMs: 50, waitedMs: 0 });
  state.isSending = true;
  expect(rest.leftMs()).toBe(60);
});

test('who asks is called once, when the rest is over with all that has extended it', () => {
  const { state, rest } = setup();
  rest.extend({ tookMs: 50, waitedMs: 0 });
  rest.callWhenOver();
  rest.callWhenOver();
  vi.advanceTimersByTime(90);
  rest.extend({ tookMs: 100, waitedMs: 0 });
  vi.advanceTimersByTime(209);
  expect(state.over).toBe(0);
  vi.advanceTimersByTime(1_000);
  expect(state.over).toBe(1);
});

test('nobody is called who has not asked', () => {
  const { state, rest } = setup();
  rest.extend({ tookMs: 50, waitedMs: 0 });
  vi.advanceTimersByTime(1_000);
  expect(state.over).toBe(0);
});
