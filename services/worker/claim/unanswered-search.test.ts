import { expect, test } from 'vitest';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import { createUnansweredClaims } from './unanswered-claims.ts';
import { createUnansweredSearch, type UnansweredSearchDeps } from './unanswered-search.ts';

const refillOf = (n: number, left = 10) => ({ tenantId: `tenant ${n}`, left });
const laneOf = (n: number) => ({
  tenantId: `tenant ${n}`,
  accountId: 'a',
  aheadMs: 0,
  dueFrom: undefined,
});
const claimed = (seq: number, attempt = 1) => ({ seq, attempt }) as ClaimedMessage;
const never = (): never => {
  throw new Error('nothing of this was to be done');
};

function setup(store: Partial<UnansweredSearchDeps['store']>, inHand: readonly [number, number][] = []) {
  const unanswered = createUnansweredClaims(() => undefined, 60_000);
  const begun: string[] = [];
  const failed: unknown[] = [];
  const search = createUnansweredSearch({
    store: { claimedBy: never, claimedIn: never, ...store },
    terms: { worker: 'w', leaseMs: 60_000 },
    unanswered,
    inHand: () => new Map(inHand),
    begin: ({ seq, attempt }, slotOf) => void begun.push(`${seq} attempt ${attempt} of ${slotOf}`),
    claimFailed: (error) => void failed.push(error),
  });
  return { unanswered, search, begun, failed };
}

test('messages that an unanswered claim has taken are begun page by page, those in hand are not', async () => {
  const pages = new Map([
    ['false 0', [claimed(1), claimed(2)]],
    ['false 2', [claimed(3, 2)]],
    ['true 0', [claimed(4)]],
  ]);
  const asked: string[] = [];
  const b = setup(
    {
      async claimedBy(seqs, _terms, { isLate, afterSeq }) {
        asked.push(`${seqs.join()} ${isLate} ${afterSeq}`);
        return pages.get(`${isLate} ${afterSeq}`) ?? [];
      },
    },
    [
      [2, 1],
      [3, 1],
    ],
  );
  for (const seq of [1, 2, 3, 4]) b.unanswered.addNamed('tenant 1', seq);
  const refill = refillOf(1);
  await b.search([refill]);
  expect(b.begun).toEqual(['1 attempt 1 of tenant 1', '3 attempt 2 of tenant 1', '4 attempt 1 of tenant 1']);
  expect(asked).toEqual([
    '1,2,3,4 false 0',
    '1,2,3,4 false 2',
    '1,2,3,4 false 3',
    '1,2,3,4 true 0',
    '1,2,3,4 true 4',
  ]);
  expect(refill.left).toBe(7);
  b.unanswered.endTurn();
  expect(b.unanswered.size).toBe(0);
});

test.each(['named messages', 'a lane', 'the messages of a lane'])(
  'while a claim has not ended, the search for %s is put off and what it looks for stays noted',
  async (of) => {
    const b = setup({
      claimedBy: async () => 'claims_open',
      claimedIn: async () =>
        of === 'a lane' ? 'claims_open' : { found: [{ seq: 1, attempt: 1 }], reads: 1, next: undefined },
    });
    if (of === 'named messages') b.unanswered.addNamed('tenant 1', 1);
    else b.unanswered.addLane(laneOf(1));
    await b.search([refillOf(1)]);
    b.unanswered.endTurn();
    expect([b.unanswered.size, b.unanswered.isDue('tenant 1'), b.begun]).toEqual([1, false, []]);
    b.unanswered.stop();
  },
);

test('a damaged row in one lane puts off its search alone, and a database that is away ends all', async () => {
  const damaged = Object.assign(new Error('damaged'), { name: 'PostgresError', code: 'XX001' });
  const away = Object.assign(new Error('gone'), { code: 'CONNECTION_CLOSED' });
  const faults = new Map<string, Error>([['tenant 1', damaged]]);
  const b = setup({
    async claimedIn({ tenantId }) {
      const fault = faults.get(tenantId);
      if (fault !== undefined) throw fault;
      return { found: [], reads: 1, next: undefined };
    },
  });
  for (const n of [1, 2]) b.unanswered.addLane(laneOf(n));
  await b.search([refillOf(1), refillOf(2)]);
  expect(b.failed).toEqual([damaged]);
  expect([1, 2].map((n) => b.unanswered.of(`tenant ${n}`).lanes.length)).toEqual([1, 0]);
  expect(b.unanswered.isDue('tenant 1')).toBe(false);
  faults.set('tenant 3', away);
  b.unanswered.addLane(laneOf(3));
  await expect(b.search([refillOf(3)])).rejects.toBe(away);
  expect(b.unanswered.of('tenant 3').lanes).toHaveLength(1);
  b.unanswered.stop();
});

test('the searches of one turn read ten thousand rows and twelve lanes at most', async () => {
  const rooms: number[] = [];
  const b = setup({
    async claimedIn({ tenantId }, _terms, readsMax) {
      rooms.push(readsMax);
      return { found: [], reads: tenantId === 'tenant 0' ? 9_990 : 1, next: undefined };
    },
  });
  const refills = Array.from({ length: 14 }, (_, n) => refillOf(n));
  for (const [n] of refills.entries()) b.unanswered.addLane(laneOf(n));
  await b.search(refills);
  // The first lane leaves ten rows.
  expect(rooms).toEqual([10_000, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
  await b.search(refills.slice(11));
  expect(rooms).toHaveLength(14);
  for (const [n] of refills.entries()) if (n > 0) b.unanswered.addLane(laneOf(n));
  await b.search(refills);
  expect(rooms).toHaveLength(26);
});
