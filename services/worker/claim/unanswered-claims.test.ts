import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createUnansweredClaims } from './unanswered-claims.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const FORGET_MS = 120_000;
const LANE = { tenantId: 'a', accountId: 'account', aheadMs: 0 };

function setup() {
  const due = vi.fn<(tenantId: string) => void>();
  return { due, unanswered: createUnansweredClaims(due, FORGET_MS) };
}

test('an unanswered claim stays due until the turn that searched for it ends', () => {
  const { unanswered } = setup();
  unanswered.addNamed('a', 1);
  unanswered.addNamed('b', 2);
  unanswered.foundNamed('a', [1]);
  expect([unanswered.isDue('a'), unanswered.size]).toEqual([true, 2]);
  unanswered.endTurn();
  expect([unanswered.isDue('a'), unanswered.isDue('b'), unanswered.size]).toEqual([false, true, 1]);
});

test('a claim that goes unanswered after the search is due again', () => {
  const { unanswered } = setup();
  unanswered.addNamed('a', 1);
  unanswered.foundNamed('a', [1]);
  unanswered.addNamed('a', 1);
  unanswered.endTurn();
  expect(unanswered.isDue('a')).toBe(true);
});

test('a lane whose claim goes unanswered again is searched from the earlier beginning', () => {
  const { unanswered } = setup();
  unanswered.addLane({ ...LANE, dueFrom: [5, 6, 7] });
  const [begun] = unanswered.of('a').lanes;
  if (begun === undefined) throw new Error('nothing to search');
  begun.at = { seq: 1 };
  unanswered.addLane({ ...LANE, aheadMs: 10, dueFrom: [6, 5, 8] });
  // The search that had begun ends without the second claim's messages.
  unanswered.foundIn(begun);
  expect(unanswered.of('a').lanes).toEqual([
    { lane: { ...LANE, aheadMs: 10, dueFrom: [5, 5, 7] }, pages: 0 },
  ]);
  unanswered.addLane(LANE);
  unanswered.addLane({ ...LANE, dueFrom: [6, 5, 8] });
  expect(unanswered.of('a').lanes).toMatchObject([{ lane: { dueFrom: undefined } }]);
  for (const search of unanswered.of('a').lanes) unanswered.foundIn(search);
  unanswered.endTurn();
  expect(unanswered.size).toBe(0);
});

test('a postponed search is due again after half a second, and still counts in the size', () => {
  const { due, unanswered } = setup();
  unanswered.addNamed('a', 1);
  unanswered.putOff('a');
  vi.advanceTimersByTime(100);
  unanswered.putOff('a');
  unanswered.endTurn();
  vi.advanceTimersByTime(399);
  expect([unanswered.isDue('a'), unanswered.size, due.mock.calls]).toEqual([false, 1, []]);
  vi.advanceTimersByTime(1);
  expect([unanswered.isDue('a'), unanswered.size, due.mock.calls]).toEqual([true, 1, [['a']]]);
  unanswered.putOff('a');
  unanswered.stop();
  vi.advanceTimersByTime(10_000);
  expect(due).toHaveBeenCalledTimes(1);
});

test('a claim whose leases have ended is not searched for any more', () => {
  const { unanswered } = setup();
  vi.advanceTimersByTime(2 * FORGET_MS);
  unanswered.addLane(LANE);
  vi.advanceTimersByTime(FORGET_MS);
  unanswered.endTurn();
  expect(unanswered.size).toBe(1);
  vi.advanceTimersByTime(1);
  unanswered.endTurn();
  expect(unanswered.size).toBe(0);
});
