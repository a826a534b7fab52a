import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createRefusedMessages } from './refused-messages.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const LANE = { tenantId: 'tenant', accountId: 'account' };
const named = (...seqs: number[]) => seqs.map((seq) => ({ ...LANE, seq }));
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i);

/** Sets up a database that refuses to claim these messages, with this SQLSTATE. */
function setup(
  bad: Iterable<number>,
  { code = 'P0001', untakeable = [] as number[], unanswered = [] as number[] } = {},
) {
  const refusing = new Set(bad);
  const told: string[] = [];
  const ends: string[] = [];
  let probes = 0;
  let repairedAt = Number.POSITIVE_INFINITY;
  const refused = createRefusedMessages({
    store: {
      tryClaim(seqs) {
        probes += 1;
        if (probes > repairedAt) refusing.clear();
        return seqs.some((seq) => refusing.has(seq))
          ? Promise.reject(Object.assign(new Error('no'), { name: 'PostgresError', code }))
          : Promise.resolve(seqs.filter((seq) => !untakeable.includes(seq)));
      },
      findWaiting: () => Promise.resolve([]),
      moveMessages: (seqs, status) => {
        const moved = seqs.filter((seq) => status === 'unknown' || !unanswered.includes(seq));
        for (const seq of moved) {
          refusing.delete(seq);
          ends.push(`${seq} ${status}`);
        }
        return Promise.resolve(new Set(moved));
      },
      returnSent: () => Promise.resolve(new Set()),
    },
    terms: { worker: 'w', leaseMs: 60_000 },
    events: {
      claimRefused: ({ seq }) => void told.push(`${seq} ended`),
      claimFailed: () => void told.push('set aside'),
    },
  });
  return {
    refused,
    told,
    ends,
    probes: () => probes,
    repairAfter: (tries: number) => void (repairedAt = probes + tries),
  };
}

test('a message ends whose neighbors could be claimed', async () => {
  const { refused, told } = setup([5]);
  expect(await refused.isolate(named(...upTo(128)))).toEqual({ isResolved: true, missed: [] });
  expect(told).toEqual(['5 ended']);
});

test.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])(
  'no message ends if a fault that refused all is repaired after %i tries of a search',
  async (tries) => {
    const { refused, told, repairAfter } = setup(upTo(40));
    repairAfter(tries);
    await refused.isolate(named(...upTo(40)));
    expect(told).toEqual([]);
  },
);

test('a lone message does not end if the fault was repaired meanwhile', async () => {
  const { refused, told, repairAfter } = setup([1]);
  await refused.isolate(named(1));
  vi.advanceTimersByTime(5_000);
  refused.noteClaimed();
  repairAfter(1);
  expect(await refused.isolate(named(1))).toEqual({ isResolved: true, missed: [] });
  expect(told).toEqual([]);
});

test('a refused message is unknown if a call for it got no answer, else it has failed', async () => {
  const { refused, told, ends } = setup([5, 7], { unanswered: [7] });
  await refused.isolate(named(...upTo(128)));
  expect(ends.toSorted()).toEqual(['5 failed', '7 unknown']);
  expect(told.toSorted()).toEqual(['5 ended', '7 ended']);
});

test('no message ends while none can be claimed, and the search is short and not repeated at once', async () => {
  const { refused, told, probes } = setup(upTo(128));
  expect(await refused.isolate(named(...upTo(128)))).toEqual({ isResolved: false, missed: [] });
  expect(probes()).toBeLessThanOrEqual(20);
  const before = probes();
  expect(await refused.isolate(named(1))).toEqual({ isResolved: false, missed: [] });
  expect(probes()).toBe(before);
  vi.advanceTimersByTime(60_000);
  expect(await refused.isolate(named(1))).toEqual({ isResolved: false, missed: [] });
  expect(told).toEqual([]);
});

test('a lane is searched although no message of another lane can be claimed', async () => {
  const { refused, told } = setup([1, 5]);
  const other = { ...LANE, accountId: 'other', seq: 1 };
  for (let tries = 0; tries < 2; tries += 1) {
    await refused.isolate([other]);
    await refused.isolate(named(5, 6));
  }
  expect(told).toEqual(['5 ended']);
});

test('a lone message ends when it is refused again after others could be claimed', async () => {
  const { refused, told } = setup([1]);
  refused.noteClaimed();
  vi.advanceTimersByTime(5_000);
  expect(await refused.isolate(named(1))).toMatchObject({ isResolved: false });
  vi.advanceTimersByTime(5_000);
  expect(await refused.isolate(named(1))).toMatchObject({ isResolved: false });
  refused.noteClaimed();
  vi.advanceTimersByTime(5_000);
  expect(await refused.isolate(named(1))).toMatchObject({ isResolved: true });
  expect(told).toEqual(['1 ended']);
});

test('a few messages end per minute, and claims leave out the others for a while', async () => {
  const { refused, told } = setup(upTo(12));
  const ofLane = [...upTo(12), 100];
  for (let searches = 0; searches < 3; searches += 1) await refused.isolate(named(...ofLane));
  expect(told.filter((what) => what.endsWith('ended'))).toHaveLength(10);
  const left = refused.asideOf(LANE);
  expect(new Set(left)).toEqual(new Set([10, 11]));
  expect(refused.asideOf({ ...LANE, accountId: 'other' })).toEqual([]);
  vi.advanceTimersByTime(5 * 60_000 + 1);
  expect(refused.asideOf(LANE)).toEqual([]);
  await refused.isolate(named(10, 100));
  expect(told.at(-1)).toBe('10 ended');
});

test.each(['XX001', 'XX002'])('damage that the database reports as %s ends no message', async (code) => {
  const { refused, told } = setup([5], { code });
  expect(await refused.isolate(named(...upTo(10)))).toEqual({ isResolved: true, missed: [] });
  expect([told, refused.asideOf(LANE)]).toEqual([['set aside'], [5]]);
});

test('messages that no claim takes are named if none was refused', async () => {
  const { refused } = setup([], { untakeable: [2] });
  expect(await refused.isolate(named(1, 2))).toEqual({ isResolved: false, missed: [2] });
});
