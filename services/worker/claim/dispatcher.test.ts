import { expect, test } from 'vitest';
import { createFairQueue } from '#core/domain/queue/fair-queue.ts';
import type { Wake } from '#core/domain/queue/wake.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Lane, WaitingRow } from '#core/store/sending/lane.ts';
import { createDispatcher, type DispatcherDeps } from './dispatcher.ts';
import { createResolveWaiting, type ResolveDeps } from './resolve-waiting.ts';

const wake = (seq: number): Wake => ({
  seq,
  tenantId: `tenant ${seq % 3}`,
  accountId: `account ${seq % 3}`,
  priority: 1,
});
const lane = (n: number): Lane => ({ tenantId: `tenant ${n}`, accountId: `account ${n}` });

const claimed = (seq: number, more: Partial<ClaimedMessage> = {}) =>
  ({
    action: 'send',
    ...wake(seq),
    attempt: 1,
    segments: 1,
    rateLimitPerSecond: null,
    traceparent: null,
    ...more,
  }) as ClaimedMessage;
const waiting = (seq: number, more: Partial<WaitingRow> = {}) =>
  ({
    ...wake(seq),
    status: 'queued',
    tenantStatus: 'active',
    accountStatus: 'active',
    rateLimitPerSecond: null,
    ambiguous: 0,
    isDue: true,
    brake: null,
    suppression: null,
    ...more,
  }) as WaitingRow;

const never = (): never => {
  throw new Error('nothing of this was to be done');
};
const refused = () =>
  Promise.reject(Object.assign(new Error('no'), { name: 'PostgresError', code: '23514' }));

type Store = DispatcherDeps['store'] & ResolveDeps['store'];

/** Creates a dispatcher whose claims the test answers. Begun attempts end when the test says so. */
function setup(store: Partial<Store> = {}) {
  const claims: { seqs: number[]; answer: (claimed: ClaimedMessage[]) => void }[] = [];
  const claimedLanes: Lane[] = [];
  const told: string[] = [];
  const begun: { seq: number; end: () => void }[] = [];
  const blocked = new Map<string, number>();
  const all: Store = {
    claim: (seqs) => new Promise((answer) => claims.push({ seqs: seqs.toSorted((a, b) => a - b), answer })),
    claimDue: (lanes) => {
      for (const { tenantId, accountId } of lanes) claimedLanes.push({ tenantId, accountId });
      return Promise.resolve([]);
    },
    findWaiting: () => Promise.resolve([]),
    findWaitingDue: () => Promise.resolve({ rows: [], next: undefined }),
    claimedBy: never,
    claimedIn: never,
    dueSeqs: never,
    tryClaim: never,
    accountsOf: never,
    routesOf: never,
    moveMessages: never,
    returnSent: never,
    assignAccounts: never,
    lost: never,
    ...store,
  };
  const dispatcher = createDispatcher({
    queue: createFairQueue<Wake>({ queuedPerTenantMax: 1_000, queuedMax: 5_000, slots: 1_000 }),
    store: all,
    resolve: createResolveWaiting({
      store: all,
      endedUncalled: ({ seq }, reason) => told.push(`${seq} ${reason}`),
      failedOver: never,
    }),
    dueFrom: () => undefined,
    breakers: {
      blockedUntil: (accountId) => blocked.get(accountId) ?? 0,
      health: (accountId) => (blocked.has(accountId) ? 'open' : 'healthy'),
    },
    deliver: ({ seq }) =>
      new Promise((resolve) =>
        begun.push({
          seq,
          end: () => resolve({ outcome: { kind: 'accepted', providerMessageId: null }, provider: undefined }),
        }),
      ),
    recorder: { record: () => Promise.resolve(null), drain: () => Promise.resolve() },
    worker: 'worker',
    leaseMs: 60_000,
    inFlightMax: 512,
    events: {
      attemptFinished: () => {},
      claimFailed: (error) => told.push(`failed: ${String(error)}`),
      recordLost: never,
      claimRefused: ({ seq }) => told.push(`${seq} refused`),
    },
  });
  const offer = (...seqs: number[]): void => seqs.forEach((seq) => dispatcher.offer(wake(seq)));
  return { dispatcher, claims, claimedLanes, begun, told, blocked, offer };
}

test('messages offered in one tick are claimed in one statement', async () => {
  const { claims, offer } = setup();
  offer(1, 2, 3, 4, 5);
  await expect.poll(() => claims.length).toBeGreaterThan(0);
  expect(claims.map(({ seqs }) => seqs)).toEqual([[1, 2, 3, 4, 5]]);
});

test('runs two claims at once, and messages that arrive meanwhile share the next one', async () => {
  const { dispatcher, claims, offer } = setup();
  offer(1);
  await expect.poll(() => claims.length).toBe(1);
  offer(2);
  await expect.poll(() => claims.length).toBe(2);
  for (const seq of [3, 4, 5]) {
    offer(seq);
    await new Promise(setImmediate);
  }
  expect(claims.length).toBe(2);
  claims[0]?.answer([]);
  await expect.poll(() => claims.length).toBe(3);
  expect(claims[2]?.seqs).toEqual([3, 4, 5]);
  for (const { answer } of claims) answer([]);
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('unclaimed messages are resolved at once, expired ones end, and all slots are freed', async () => {
  const looked: number[][] = [];
  const { dispatcher, claims, offer, told } = setup({
    findWaiting: (seqs) => {
      looked.push([...seqs]);
      return Promise.resolve([
        waiting(1, { isExpired: true }),
        waiting(2, { accountStatus: 'disabled', pinned: true }),
      ]);
    },
    accountsOf: () => Promise.resolve([]),
    routesOf: () => Promise.resolve([]),
    // Another worker moved one of them first.
    moveMessages: (seqs, status) => Promise.resolve(new Set(status === 'expired' ? seqs : [])),
  });
  offer(1, 2, 3);
  await expect.poll(() => claims.length).toBe(1);
  expect(dispatcher.inFlight).toBe(3);
  claims[0]?.answer([]);
  await expect.poll(() => told).toEqual(['1 expired']);
  expect(looked.map((seqs) => seqs.toSorted((a, b) => a - b))).toEqual([[1, 2, 3]]);
  expect(dispatcher.inFlight).toBe(0);
});

test('a wake-up of a message in flight is dropped, and its slot is freed when the attempt ends', async () => {
  const { dispatcher, claims, offer, begun } = setup();
  offer(1);
  await expect.poll(() => claims.length).toBe(1);
  claims[0]?.answer([claimed(1)]);
  await expect.poll(() => begun.length).toBe(1);
  offer(1);
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  expect([claims.length, dispatcher.inFlight]).toEqual([1, 1]);
  begun[0]?.end();
  await expect.poll(() => dispatcher.inFlight).toBe(0);
});

test('no claims are made for a blocked account until it changes', async () => {
  const { dispatcher, claims, claimedLanes, blocked, offer } = setup();
  blocked.set('account 1', performance.now() + 60_000);
  offer(1, 4, 7);
  dispatcher.mark(lane(1), { swept: true });
  dispatcher.mark(lane(2));
  await expect.poll(() => claimedLanes).toEqual([lane(2)]);
  expect([claims.length, dispatcher.isOpen('account 1'), dispatcher.isOpen('account 2')]).toEqual([
    0,
    false,
    true,
  ]);
  blocked.delete('account 1');
  dispatcher.accountChanged('account 1');
  await expect.poll(() => claimedLanes).toEqual([lane(2), lane(1)]);
  await dispatcher.stop();
});

test('a rate-limited account is claimed by lane, once a second when tokens are short', async () => {
  const { dispatcher, claims, claimedLanes, offer, begun } = setup({
    findWaiting: () => Promise.resolve([waiting(1, { rateLimitPerSecond: 1 })]),
    claimDue: (lanes) => {
      for (const { tenantId, accountId } of lanes) claimedLanes.push({ tenantId, accountId });
      return Promise.resolve(claimedLanes.length === 1 ? [claimed(1, { rateLimitPerSecond: 1 })] : []);
    },
  });
  offer(1);
  await expect.poll(() => claims.length).toBe(1);
  claims[0]?.answer([]);
  await expect.poll(() => begun.map(({ seq }) => seq)).toEqual([1]);
  for (let i = 0; i < 50; i++) {
    offer(4 + 3 * i);
    await new Promise(setImmediate);
  }
  expect(claims.length).toBe(1);
  // One more claim if the second turned over meanwhile.
  expect(claimedLanes.length).toBeLessThanOrEqual(2);
  await expect.poll(() => claimedLanes.length).toBeGreaterThanOrEqual(2);
  begun[0]?.end();
  await dispatcher.stop();
});

/** A lane of one tenant with messages due, of which the claim refuses one. */
function refusing(bad: number, ...seqs: number[]) {
  const left = new Set(seqs);
  const isRefused = (some: Iterable<number>) => [...some].includes(bad);
  const store: Partial<Store> = {
    claimDue: (lanes) => {
      if (lanes.some(({ accountId }) => accountId === `account ${bad % 3}`) && left.has(bad))
        return refused();
      const taken = [...left].filter((seq) =>
        lanes.some(({ accountId }) => accountId === `account ${seq % 3}`),
      );
      for (const seq of taken) left.delete(seq);
      return Promise.resolve(taken.map((seq) => claimed(seq)));
    },
    dueSeqs: ({ accountId }) =>
      Promise.resolve(new Set([...left].filter((seq) => accountId === `account ${seq % 3}`))),
    claim: (some) => (isRefused(some) ? refused() : never()),
    tryClaim: (some) => (isRefused(some) ? refused() : Promise.resolve([...some])),
    moveMessages: (some) => {
      for (const seq of some) left.delete(seq);
      return Promise.resolve(new Set(some));
    },
  };
  return store;
}

test('after a refused claim the refused message is given up, and the others are claimed from their lane', async () => {
  const { dispatcher, told, begun } = setup(refusing(4, 1, 4, 7));
  dispatcher.mark(lane(1));
  await expect.poll(() => told).toEqual(['4 refused']);
  await expect.poll(() => begun.map(({ seq }) => seq)).toEqual([1, 7]);
  expect(dispatcher.inFlight).toBe(2);
  for (const { end } of begun) end();
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('after a refused claim by name the others are claimed from their lanes', async () => {
  const { dispatcher, told, begun, offer } = setup(refusing(4, 1, 2, 4));
  offer(1, 2, 4);
  await expect.poll(() => told).toEqual(['4 refused']);
  await expect.poll(() => new Set(begun.map(({ seq }) => seq))).toEqual(new Set([1, 2]));
  for (const { end } of begun) end();
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('lanes of several tenants are claimed from in one statement', async () => {
  const statements: Lane[][] = [];
  const { dispatcher, begun } = setup({
    claimDue: (lanes) => {
      statements.push(lanes.map(({ tenantId, accountId }) => ({ tenantId, accountId })));
      return Promise.resolve(statements.length === 1 ? [claimed(0), claimed(1), claimed(4)] : []);
    },
  });
  for (const n of [0, 1, 2]) dispatcher.mark(lane(n));
  await expect.poll(() => begun.map(({ seq }) => seq)).toEqual([0, 1, 4]);
  expect(statements).toEqual([[lane(0), lane(1), lane(2)]]);
  expect(dispatcher.inFlight).toBe(3);
  for (const { end } of begun) end();
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('a message that fails a claim of several lanes is given up, and the others are claimed', async () => {
  const { dispatcher, told, begun } = setup(refusing(4, 1, 2, 4));
  for (const n of [0, 1, 2]) dispatcher.mark(lane(n));
  await expect.poll(() => told).toEqual(['4 refused']);
  await expect.poll(() => new Set(begun.map(({ seq }) => seq))).toEqual(new Set([1, 2]));
  for (const { end } of begun) end();
  await dispatcher.stop();
});

test('messages of a failed claim that it did not take are claimed from their lanes', async () => {
  let claims = 0;
  const { dispatcher, claimedLanes, offer, told } = setup({
    claim: () => {
      claims++;
      return Promise.reject(new Error('away'));
    },
    claimedBy: () => Promise.resolve([]),
  });
  offer(1, 2);
  await expect.poll(() => claimedLanes.length).toBe(2);
  expect(claimedLanes.map(({ accountId }) => accountId).toSorted()).toEqual(['account 1', 'account 2']);
  expect([claims, told, dispatcher.inFlight]).toEqual([1, ['failed: Error: away'], 0]);
});

test('messages of a claim whose answer was lost are found and begun, each once', async () => {
  let asked = 0;
  const { dispatcher, blocked, begun, told, offer } = setup({
    claim: (seqs) => {
      if (asked++ === 0) return Promise.resolve(seqs.map((seq) => claimed(seq)));
      blocked.set('account 1', performance.now() + 60_000);
      return Promise.reject(new Error('the answer was lost'));
    },
    claimedBy: (seqs, _terms, { isLate, afterSeq }) =>
      Promise.resolve(isLate ? [] : [claimed(4)].filter(({ seq }) => seqs.includes(seq) && seq > afterSeq)),
  });
  offer(1);
  await expect.poll(() => begun.length).toBe(1);
  offer(4);
  await expect.poll(() => begun.map(({ seq }) => seq)).toEqual([1, 4]);
  expect(told).toEqual(['failed: Error: the answer was lost']);
  expect(dispatcher.inFlight).toBe(2);
  for (const { end } of begun) end();
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('a claim that was never sent is not searched for', async () => {
  let isAway = true;
  const refusedConnection = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', syscall: 'connect' });
  const { dispatcher, claimedLanes, offer, told } = setup({
    claim: () => Promise.reject(refusedConnection),
    claimDue: (lanes) => {
      if (isAway) {
        isAway = false;
        return Promise.reject(refusedConnection);
      }
      for (const { tenantId, accountId } of lanes) claimedLanes.push({ tenantId, accountId });
      return Promise.resolve([]);
    },
  });
  offer(1);
  await expect.poll(() => claimedLanes).toEqual([lane(1)]);
  expect(told).toEqual(['failed: Error: refused', 'failed: Error: refused']);
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('lanes with an unanswered claim are searched one after the other, with claims between long pages', async () => {
  const steps: string[] = [];
  let searches = 0;
  const { dispatcher, told, begun } = setup({
    claimDue: (lanes) => {
      steps.push(`claim ${lanes.map(({ tenantId }) => tenantId.slice(-1)).join()}`);
      return steps.length === 1 ? Promise.reject(new Error('the answer was lost')) : Promise.resolve([]);
    },
    async claimedIn({ tenantId }, _terms, readsMax, at) {
      steps.push(`search ${tenantId.slice(-1)} ${JSON.stringify(at ?? 0)}`);
      searches += 1;
      await new Promise(setImmediate);
      if (searches > 1) throw new Error('two searches at once');
      searches -= 1;
      if (tenantId !== 'tenant 0') return { found: [{ seq: 4, attempt: 1 }], reads: 1, next: undefined };
      return { found: [], reads: readsMax, next: at === undefined ? { page: 1 } : undefined };
    },
    claimedBy: (seqs, _terms, { isLate, afterSeq }) =>
      Promise.resolve(isLate || afterSeq > 0 ? [] : seqs.map((seq) => claimed(seq))),
  });
  dispatcher.mark(lane(0));
  dispatcher.mark(lane(1));
  await expect.poll(() => steps.length).toBe(5);
  expect(told).toEqual(['failed: Error: the answer was lost']);
  // The first page uses up its turn, so the lanes are claimed from before the other search.
  expect(steps).toEqual(['claim 0,1', 'search 0 0', 'claim 0,1', 'search 1 0', 'search 0 {"page":1}']);
  expect(begun.map(({ seq }) => seq)).toEqual([4]);
  for (const { end } of begun) end();
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('an unanswered claim is not searched for while another claim is under way', async () => {
  const named = new Map<number, PromiseWithResolvers<ClaimedMessage[]>>();
  const fromLane = Promise.withResolvers<ClaimedMessage[]>();
  const lanes: string[] = [];
  const searched: number[][] = [];
  const { dispatcher, offer, begun } = setup({
    claim([seq]) {
      const claim = Promise.withResolvers<ClaimedMessage[]>();
      named.set(seq ?? 0, claim);
      return claim.promise;
    },
    claimDue(some) {
      lanes.push(...some.map(({ accountId }) => accountId));
      return some.some(({ accountId }) => accountId === 'account 0') ? fromLane.promise : Promise.resolve([]);
    },
    async claimedBy(seqs, _terms, { isLate, afterSeq }) {
      searched.push([...seqs]);
      return isLate || afterSeq > 0 ? [] : [claimed(1)];
    },
  });
  offer(1);
  dispatcher.mark(lane(0));
  await expect.poll(() => named.size).toBe(1);
  offer(2);
  dispatcher.mark(lane(1));
  await expect.poll(() => named.size).toBe(2);
  named.get(1)?.reject(new Error('the answer was lost'));
  // The first turn goes on with a lane, whose claim has not ended.
  await expect.poll(() => lanes).toEqual(['account 0']);
  named.get(2)?.resolve([]);
  await expect.poll(() => lanes).toEqual(['account 0', 'account 1']);
  expect(searched).toEqual([]);
  fromLane.resolve([]);
  await expect.poll(() => begun.map(({ seq }) => seq)).toEqual([1]);
  for (const { end } of begun) end();
  await dispatcher.stop();
  expect(dispatcher.inFlight).toBe(0);
});

test('a message that is refused again after another one was claimed is given up', async () => {
  const { dispatcher, told, begun } = setup(refusing(4, 2, 4));
  dispatcher.mark(lane(1));
  await expect.poll(() => told).toEqual(['failed: PostgresError: no']);
  dispatcher.mark(lane(2));
  await expect.poll(() => begun.map(({ seq }) => seq)).toEqual([2]);
  // The first of these may be put off.
  for (let mark = 1; mark <= 2 && !told.includes('4 refused'); mark += 1) {
    const before = told.length;
    dispatcher.mark(lane(1));
    await expect.poll(() => told.length).toBeGreaterThan(before);
  }
  expect(told.at(-1)).toBe('4 refused');
  for (const { end } of begun) end();
  await dispatcher.stop();
});
