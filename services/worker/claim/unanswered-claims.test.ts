import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createUnansweredClaims } from './unanswered-claims.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const FORGET_MS = 120_000;
const LANE = { tenantId: 'a', accountId: 'account', aheadMs: 0 };

function setup() {
  const due = vi.fn<(tenantId: string) => void>();
  return { due, lost: createUnansweredClaims(due, FORGET_MS) };
}

test('an unanswered claim stays due until the turn that searched for it ends', () => {
  const { lost } = setup();
  lost.addNamed('a', 1);
  lost.addNamed('b', 2);
  lost.foundNamed('a', [1]);
  expect([lost.isDue('a'), lost.size]).toEqual([true, 2]);
  lost.endTurn();
  expect([lost.isDue('a'), lost.isDue('b'), lost.size]).toEqual([false, true, 1]);
});

test('a claim that goes unanswered after the search is due again', () => {
  const { lost } = setup();
  lost.addNamed('a', 1);
  lost.foundNamed('a', [1]);
  lost.addNamed('a', 1);
  lost.endTurn();
  expect(lost.isDue('a')).toBe(true);
});

test('a lane whose claim goes unanswered again is searched from the earlier beginning', () => {
  const { lost } = setup();
  lost.addLane({ ...LANE, dueFrom: [5, 6, 7] });
  const [begun] = lost.of('a').lanes;
  if (begun === undefined) throw new Error('nothing to search');
  begun.at = { seq: 1 };
  lost.addLane({ ...LANE, aheadMs: 10, dueFrom: [6, 5, 7] });
  // The search that had begun ends without the second claim's messages.
  lost.foundIn(begun);
  expect(lost.of('a').lanes).toEqual([{ lane: { ...LANE, aheadMs: 10, dueFrom: [5, 5, 7] }, pages: 0 }]);
  lost.addLane(LANE);
  expect(lost.of('a').lanes).toMatchObject([{ lane: { dueFrom: undefined } }]);
  for (const search of lost.of('a').lanes) lost.foundIn(search);
  lost.endTurn();
  expect(lost.size).toBe(0);
});

test('a postponed search is due again after half a second, and still counts in the size', () => {
  const { due, lost } = setup();
  lost.addNamed('a', 1);
  lost.putOff('a');
  lost.endTurn();
  vi.advanceTimersByTime(499);
  expect([lost.isDue('a'), lost.size, due.mock.calls]).toEqual([false, 1, []]);
  vi.advanceTimersByTime(1);
  expect([lost.isDue('a'), lost.size, due.mock.calls]).toEqual([true, 1, [['a']]]);
  lost.putOff('a');
  lost.stop();
  vi.advanceTimersByTime(10_000);
  expect(due).toHaveBeenCalledTimes(1);
});

test('a claim whose leases have ended is not searched for any more', () => {
  const { lost } = setup();
  lost.addLane(LANE);
  vi.advanceTimersByTime(FORGET_MS);
  lost.endTurn();
  expect(lost.size).toBe(1);
  vi.advanceTimersByTime(1);
  lost.endTurn();
  expect(lost.size).toBe(0);
});
