import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { INLINE_BYTES_MAX } from '#core/domain/message/content.ts';
import { CLAIM_BYTES_MAX, type ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { LanePlaces, WaitingPage } from '#core/store/sending/lane.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { createClaimLanes, type LaneClaimsDeps } from './lane-claims.ts';
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

const laneOf = (n: number): DueLane => ({
  tenantId: `tenant ${n}`,
  accountId: 'a',
  ahead: false,
  swept: false,
});

/** Claims from lanes of several tenants, or of one, and returns what came of it. */
async function claimFrom(
  claimDue: WorkerStore['claimDue'],
  overrides: Partial<LaneClaimsDeps> = {},
  lanes = 1,
) {
  const told: string[] = [];
  const claimLanes = createClaimLanes({
    store: { claimDue, dueSeqs: never, findWaiting: never },
    reviews: { isDue: never, isUnderWay: () => false, readPage: never },
    terms: { worker: 'w', leaseMs: 60_000 },
    lanes: { mark: ({ tenantId }) => void told.push(`mark ${tenantId}`) },
    dueFrom: () => undefined,
    gates: { noteLimit: (_, perSecond) => void told.push(`limit ${perSecond}`), claimed: () => false },
    named: { decide: never },
    begin: ({ seq }) => void told.push(`begin ${seq}`),
    noteUnanswered: ({ tenantId }) => void told.push(`unanswered ${tenantId}`),
    fail: (error) => void told.push(`fail ${String(error)}`),
    refused: { isolate: never, asideOf: () => [], noteClaimed: never },
    ...overrides,
  });
  const asks = Array.from({ length: lanes }, (_, n) => {
    const lane = laneOf(n + 1);
    return { refill: { tenantId: lane.tenantId, left: 10 }, lane, most: 10 };
  });
  await claimLanes(asks).catch((error: unknown) => void told.push(`thrown ${String(error)}`));
  vi.advanceTimersByTime(1_000);
  return told;
}

test.each([
  [0, ['limit 5', 'begin 1']],
  [1, ['limit 5', 'begin 1', 'mark tenant 1']],
])('a lane is marked again if the next content may not have fitted: by %i bytes', async (over, told) => {
  const contentBytes = CLAIM_BYTES_MAX - INLINE_BYTES_MAX + over;
  const message = { tenantId: 'tenant 1', accountId: 'a', seq: 1, rateLimitPerSecond: 5, contentBytes };
  expect(await claimFrom(async () => [message as ClaimedMessage])).toEqual(told);
});

test.each([
  ['got no answer', new Error('lost'), ['unanswered tenant 1', 'unanswered tenant 2']],
  ['was never sent', Object.assign(new Error('lost'), { code: 'ECONNREFUSED', syscall: 'connect' }), []],
])(
  'the lanes of a claim that %s are marked again, and searched if it may have been committed',
  async (_, error, noted) => {
    expect(await claimFrom(() => Promise.reject(error), {}, 2)).toEqual([
      'mark tenant 1',
      'mark tenant 2',
      ...noted,
      'thrown Error: lost',
    ]);
  },
);

const REFUSED = Object.assign(new Error('no'), { name: 'PostgresError', code: '23514' });

test.each([
  ['have ended', [7], 1, ['mark tenant 1']],
  ['stay', [7], 0, ['fail PostgresError: no']],
  ['are not there', [], 1, ['fail PostgresError: no']],
])(
  'a refused lane whose messages that no claim takes %s is claimed from again if that helps',
  async (_, missed, ended, told) => {
    const looked: (readonly number[])[] = [];
    const store: LaneClaimsDeps['store'] = {
      claimDue: never,
      dueSeqs: async () => new Set([7, 8]),
      findWaiting: async (seqs) => (looked.push(seqs), []),
    };
    expect(
      await claimFrom(never, {
        store: { ...store, claimDue: () => Promise.reject(REFUSED) },
        refused: {
          isolate: async () => ({ isResolved: false, missed }),
          asideOf: () => [8],
          noteClaimed: never,
        },
        named: { decide: async (waiting) => (await waiting, ended) },
      }),
    ).toEqual(told);
    expect(looked).toEqual(missed.length > 0 ? [missed] : []);
  },
);

test('after a refused claim of several lanes each is claimed from alone, until the database fails', async () => {
  const asked: string[][] = [];
  const claimDue: WorkerStore['claimDue'] = async (lanes) => {
    asked.push(lanes.map(({ tenantId }) => tenantId));
    if (lanes.length > 1) throw REFUSED;
    if (asked.length === 3)
      throw Object.assign(new Error('away'), { code: 'ECONNREFUSED', syscall: 'connect' });
    return [];
  };
  expect(await claimFrom(claimDue, {}, 4)).toEqual([
    'mark tenant 2',
    'mark tenant 3',
    'mark tenant 4',
    'thrown Error: away',
  ]);
  expect(asked).toEqual([['tenant 1', 'tenant 2', 'tenant 3', 'tenant 4'], ['tenant 1'], ['tenant 2']]);
});
