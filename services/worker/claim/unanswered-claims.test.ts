import { expect, test, vi } from 'vitest';
import { createUnansweredClaims } from './unanswered-claims.ts';

test('an unanswered claim stays due until the turn that searched for it ends', () => {
  const lost = createUnansweredClaims(vi.fn<(tenantId: string) => void>());
  lost.add('a');
  lost.add('b');
  lost.found('a');
  expect([lost.isDue('a'), lost.size]).toEqual([true, 2]);
  lost.endTurn();
  expect([lost.isDue('a'), lost.isDue('b'), lost.size]).toEqual([false, true, 1]);
});

test('a claim that goes unanswered after the search is due again', () => {
  const lost = createUnansweredClaims(vi.fn<(tenantId: string) => void>());
  lost.add('a');
  lost.found('a');
  lost.add('a');
  lost.endTurn();
  expect(lost.isDue('a')).toBe(true);
});

test('a postponed search is due again after half a second, and still counts in the size', () => {
  vi.useFakeTimers();
  const due = vi.fn<(tenantId: string) => void>();
  const lost = createUnansweredClaims(due);
  lost.add('a');
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
  vi.useRealTimers();
});
