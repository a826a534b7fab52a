import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createLanes } from './lanes.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const lane = (tenantId: string, accountId: string) => ({ tenantId, accountId });

function setup() {
  const closed = new Map<string, number>();
  const opened: string[] = [];
  const lanes = createLanes({
    closedUntil: (accountId) => closed.get(accountId) ?? 0,
    onOpen: (tenantId) => opened.push(tenantId),
    monotonicMs: () => performance.now(),
  });
  const close = (accountId: string, ms: number) => closed.set(accountId, performance.now() + ms);
  return { lanes, closed, close, opened };
}

test('lanes of a tenant take turns, and each mark is taken once', () => {
  const { lanes } = setup();
  lanes.mark(lane('t', 'a'));
  lanes.mark(lane('t', 'b'));
  expect(lanes.isOpen('t')).toBe(true);
  expect(lanes.take('t')?.accountId).toBe('a');
  // A lane that is marked again during its claim is taken again, behind the others.
  lanes.mark(lane('t', 'a'));
  expect([lanes.take('t')?.accountId, lanes.take('t')?.accountId, lanes.take('t')]).toEqual([
    'b',
    'a',
    undefined,
  ]);
  expect(lanes.isOpen('t')).toBe(false);
});

test('the flags of several marks are combined until the lane is taken', () => {
  const { lanes } = setup();
  lanes.mark(lane('t', 'a'), { ahead: true });
  lanes.mark(lane('t', 'a'), { swept: true });
  lanes.mark(lane('t', 'a'));
  expect(lanes.take('t')).toEqual({ ...lane('t', 'a'), ahead: true, swept: true });
  lanes.mark(lane('t', 'a'));
  expect(lanes.take('t')).toEqual({ ...lane('t', 'a'), ahead: false, swept: false });
});

test('a closed account blocks its own lanes until it opens, and no others', () => {
  const { lanes, close, opened } = setup();
  close('a', 5_000);
  lanes.mark(lane('t', 'a'));
  expect(opened).toEqual([]);
  expect([lanes.isOpen('t'), lanes.take('t')]).toEqual([false, undefined]);
  lanes.mark(lane('t', 'b'));
  expect(opened).toEqual(['t']);
  expect(lanes.take('t')?.accountId).toBe('b');
  vi.advanceTimersByTime(4_999);
  expect(opened).toEqual(['t']);
  vi.advanceTimersByTime(10);
  expect(opened).toEqual(['t', 't']);
  expect(lanes.take('t')?.accountId).toBe('a');
});

test.each([[['late', 'soon']], [['soon', 'late']]])(
  'one timer serves all closed accounts, the earliest opening first, if marked in the order %j',
  (order) => {
    const { lanes, close, opened } = setup();
    close('late', 9_000);
    close('soon', 1_000);
    for (const account of order) lanes.mark(lane(account === 'late' ? 't1' : 't2', account));
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1_010);
    expect([opened, vi.getTimerCount()]).toEqual([['t2'], 1]);
    vi.advanceTimersByTime(8_000);
    expect(opened).toContain('t1');
  },
);

test('an account whose closing is extended opens at the later time', () => {
  const { lanes, close, opened } = setup();
  close('a', 1_000);
  lanes.mark(lane('t', 'a'));
  close('a', 3_000);
  vi.advanceTimersByTime(2_000);
  expect(opened).toEqual([]);
  vi.advanceTimersByTime(1_100);
  expect(opened).toEqual(['t']);
});

test('a lane whose account closes between mark and claim is not taken until the account opens', () => {
  const { lanes, close, opened } = setup();
  lanes.mark(lane('t', 'a'));
  close('a', 1_000);
  expect(lanes.take('t')).toBeUndefined();
  vi.advanceTimersByTime(1_010);
  expect(opened).toEqual(['t', 't']);
  expect(lanes.take('t')?.accountId).toBe('a');
});

test('a recheck finds an account that has opened early, and stopping leaves no timer', () => {
  const { lanes, close, closed, opened } = setup();
  close('a', 60_000);
  close('b', 60_000);
  lanes.mark(lane('t', 'a'));
  lanes.mark(lane('u', 'b'));
  closed.delete('a');
  lanes.recheck();
  expect(opened).toEqual(['t']);
  lanes.stop();
  expect(vi.getTimerCount()).toBe(0);
});
