import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { LanePlaces, WaitingPage } from '#core/store/sending/lane.ts';
import { createClaimLanes } from './lane-claims.ts';
import { createLaneReviews, REVIEW_PAGE } from './lane-reviews.ts';
import type { DueLane, DueMark } from './lanes.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const LANE = { tenantId: 'tenant', accountId: 'account' };
const END = [null, { seq: 10_000 }, null];
const never = (): never => {
  throw new Error('nothing of this was to be done');
};

/**
 * Sets up a lane whose pages the test answers. By default it always has more due than is claimed.
 * @param ended how many messages of each page end.
 */
function setup(answers: (LanePlaces | undefined)[], { isDeep = true, ended = 0 } = {}) {
  const asked: (LanePlaces | undefined)[] = [];
  const marks: DueMark[] = [];
  const decided: WaitingPage['rows'][] = [];
  const reviews = createLaneReviews({
    store: {
      findWaitingDue: (_lane, _size, at) => {
        asked.push(at);
        return Promise.resolve({ rows: [], next: answers.shift() });
      },
    },
    dueFrom: () => undefined,
  });
  const claimLanes = createClaimLanes({
    store: { claimDue: () => Promise.resolve([]), dueSeqs: never, findWaiting: never },
    reviews,
    terms: { worker: 'w', leaseMs: 60_000 },
    lanes: { mark: (_lane, mark = {}) => void marks.push(mark) },
    dueFrom: () => undefined,
    gates: { noteLimit: never, claimed: () => isDeep },
    named: {
      async decide(waiting) {
        decided.push(await waiting);
        return ended;
      },
    },
    begin: never,
    noteUnanswered: never,
    fail: never,
    refused: { isolate: never, asideOf: () => [], noteClaimed: never },
  });
  const claim = (swept: boolean) => {
    const lane: DueLane = { ...LANE, ahead: false, swept };
    return claimLanes([{ refill: { tenantId: LANE.tenantId, left: 10 }, lane, most: 10 }]);
  };
  return { asked, marks, decided, claim };
}

test('a deep lane is reviewed page by page every two seconds, and again after five', async () => {
  const { asked, decided, claim } = setup([END, undefined]);
  const after = async (ms: number) => {
    vi.advanceTimersByTime(ms);
    await claim(true);
    return asked.length;
  };
  expect(await after(0)).toBe(1);
  expect(await after(1_900)).toBe(1);
  expect(await after(200)).toBe(2);
  expect(await after(4_900)).toBe(2);
  expect(await after(200)).toBe(3);
  expect(asked).toEqual([undefined, END, undefined]);
  expect(decided).toHaveLength(3);
});

test('a lane stays marked as swept until its last page is reviewed', async () => {
  const { marks, claim } = setup([END, undefined]);
  await claim(true);
  await claim(false);
  vi.advanceTimersByTime(2_100);
  await claim(true);
  await claim(false);
  expect(marks.map(({ swept }) => swept)).toEqual([false, true, true, false]);
});

test('a lane is marked again soon only if a full page of its messages ended', async () => {
  const full = setup([END], { isDeep: false, ended: REVIEW_PAGE.most });
  await full.claim(true);
  expect(full.marks).toEqual([]);
  vi.advanceTimersByTime(100);
  expect(full.marks).toMatchObject([{ swept: true }]);
  const few = setup([END], { isDeep: false, ended: REVIEW_PAGE.most - 1 });
  await few.claim(true);
  vi.advanceTimersByTime(10_000);
  expect(few.marks).toEqual([]);
});
