import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { WakePublication } from '#core/platform/nats/nats-types.ts';
import { createReceiptWakes } from './receipt-wakes.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function setup() {
  const published: WakePublication[] = [];
  const wakes = createReceiptWakes({
    everyMs: 50,
    publishWakes: async (publications) => {
      published.push(...publications);
      return { failed: [] };
    },
  });
  return { wakes, published };
}

test('a single call publishes one wake-up at once', () => {
  const { wakes, published } = setup();
  wakes.note();
  expect(published).toMatchObject([{ kind: 'receipts', payload: '' }]);
  vi.advanceTimersByTime(60_000);
  expect(published).toHaveLength(1);
});

test('a flood publishes one wake-up per interval, and one after its last call', () => {
  const { wakes, published } = setup();
  for (let ms = 0; ms < 500; ms += 1) {
    wakes.note();
    vi.advanceTimersByTime(1);
  }
  expect(published).toHaveLength(11);
  wakes.note();
  vi.advanceTimersByTime(50);
  expect(published).toHaveLength(12);
  vi.advanceTimersByTime(60_000);
  expect(published).toHaveLength(12);
  wakes.note();
  expect(published).toHaveLength(13);
  // JetStream drops a message with a duplicate id.
  expect(new Set(published.map(({ id }) => id)).size).toBe(published.length);
});

test('nothing is published after stop()', () => {
  const { wakes, published } = setup();
  wakes.note();
  wakes.note();
  wakes.stop();
  vi.advanceTimersByTime(1_000);
  expect(published).toHaveLength(1);
});
