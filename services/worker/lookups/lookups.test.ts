import { expect, test } from 'vitest';
import type { DueLookup, LookupTerms, SettledLookups } from '#core/store/receipts/lookups.ts';
import type { LookupAnswer, LookupQuestion } from '#providers/lookup.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { createLookups, type LookupsDeps } from './lookups.ts';

type Ask = (question: LookupQuestion, signal: AbortSignal) => Promise<LookupAnswer> | LookupAnswer;

const DELIVERED: LookupAnswer = {
  kind: 'found',
  reports: [{ providerStatus: 'delivered', state: 'delivered' }],
};
const failure = { class: 'auth_or_config', code: 'forbidden' } as const;

function due(seq: number, overrides: Partial<DueLookup> = {}): DueLookup {
  return {
    seq,
    purgeOn: '2026-01-05',
    tenantId: 'tenant',
    accountId: 'a',
    accountVersion: 1,
    provider: 'twilio',
    messageId: `message ${seq}`,
    status: 'sent',
    providerMessageId: `SM${seq}`,
    ageMs: 3_600_000,
    asks: 1,
    failures: 0,
    turn: 1,
    ...overrides,
  };
}

/** Waits until the signal is aborted, like a vendor's call that gets no answer. */
const hang: Ask = (_, signal) =>
  new Promise((resolve) => {
    const failed = { class: 'provider_unavailable', code: 'timeout' } as const;
    signal.addEventListener('abort', () => resolve({ kind: 'unanswered', failure: failed }));
  });

/** @param ask the vendor's answer, by account. */
function setup(
  batches: DueLookup[][],
  ask: Readonly<Record<string, Ask>>,
  overrides: Partial<LookupsDeps> = {},
) {
  const settled: SettledLookups[] = [];
  const terms: LookupTerms[] = [];
  const told = {
    paused: [] as unknown[],
    unstorable: [] as unknown[],
    failed: [] as unknown[],
    answered: [] as unknown[],
  };
  const asked: string[] = [];
  // Its readings have fractions; the database takes whole milliseconds.
  let monotonicNow = 1_000;
  const lookups = createLookups({
    store: {
      takeLookups: async (one) => {
        terms.push(one);
        return batches.shift() ?? [];
      },
      settleLookups: async (one) => void settled.push(one),
    },
    accounts: {
      get: async (id) => {
        const provider = {
          id: 'twilio',
          lookup: {
            by: 'id',
            ask: (question: LookupQuestion, _: unknown, { signal }: ProviderContext) => {
              asked.push(question.messageId);
              return ask[id]?.(question, signal);
            },
          },
        };
        const account = { id, provider, version: 1, config: {}, secrets: {}, row: null };
        return { kind: 'ready', account: account as never };
      },
    },
    contextOf: ({ until }) => ({ signal: until }) as ProviderContext,
    deadlineMs: 60_000,
    leaseMs: 60_000,
    isBlocked: () => false,
    onAnswered: (...all) => void told.answered.push(all),
    onPaused: (...all) => void told.paused.push(all),
    onUnstorable: (...all) => void told.unstorable.push(all),
    onFailed: (error) => void told.failed.push(error),
    onAdapterFault: (_, error) => void told.failed.push(error),
    onEnded: () => undefined,
    epochMs: () => 1_000_000,
    monotonicMs: () => (monotonicNow += 0.25),
    ...overrides,
  });
  return { lookups, settled, terms, told, asked };
}

test('an account whose provider does not answer does not delay others', async () => {
  const batches = [[due(1, { accountId: 'slow' })], [due(2, { accountId: 'quick' })]];
  const b = setup(batches, { slow: hang, quick: () => DELIVERED });
  await b.lookups.look();
  await expect.poll(() => b.settled.flatMap(({ done }) => done)).toEqual([{ seq: 2, asks: 1 }]);
  await b.lookups.stop();
});

test('at most one failing account is looked up at a time', async () => {
  const b = setup([[due(1, { accountId: 'slow', failures: 4 })]], { slow: hang });
  await b.lookups.look();
  expect(b.terms.map(({ accountsMax, failingMax }) => [accountsMax, failingMax])).toEqual([
    [8, 1],
    [8, 0],
  ]);
  await b.lookups.stop();
});

test('a stopping worker aborts its lookups, returns them and marks no account as failing', async () => {
  const batch = [due(1, { failures: 2 }), due(2, { failures: 2 })];
  const ask: Ask = (question, signal) =>
    question.messageId === 'message 1' ? DELIVERED : hang(question, signal);
  const b = setup([batch], { a: ask });
  await b.lookups.look();
  await expect.poll(() => b.asked.length).toBe(2);
  await b.lookups.stop();
  expect(b.settled.flatMap(({ done }) => done)).toEqual([{ seq: 1, asks: 1 }]);
  expect(b.settled.flatMap(({ again }) => again)).toMatchObject([{ seq: 2, asks: 1 }]);
  expect(b.settled.flatMap(({ again }) => again).map(({ ms }) => ms)).toEqual([2_000]);
  expect(b.told.paused).toEqual([]);
  await b.lookups.look();
  expect(b.terms).toHaveLength(2);
});

test('an answer that the database refuses is reported and asked for again, and the others are stored', async () => {
  const refusal = Object.assign(new Error('no'), { name: 'PostgresError', code: '22P05' });
  const stored: SettledLookups[] = [];
  const batch = [1, 2, 3, 4].map((seq) => due(seq));
  const answer: Ask = ({ messageId }) => ({
    kind: 'found',
    reports: [{ providerStatus: messageId === 'message 3' ? 'bad' : 'delivered', state: 'delivered' }],
  });
  const takes = [batch];
  const store = {
    takeLookups: async () => takes.shift() ?? [],
    settleLookups: async (one: SettledLookups) => {
      if (one.reports.some(({ provider_status }) => provider_status === 'bad')) throw refusal;
      stored.push(one);
    },
  };
  const b = setup([], { a: answer }, { store });
  await b.lookups.look();
  await expect.poll(() => b.told.answered.length).toBe(4);
  expect(new Set(stored.flatMap(({ done }) => done.map(({ seq }) => seq)))).toEqual(new Set([1, 2, 4]));
  expect(stored.flatMap(({ again }) => again)).toEqual([{ seq: 3, asks: 1, ms: 60_000 }]);
  expect(b.told.unstorable).toMatchObject([[{ messageId: 'message 3' }, refusal]]);
  expect(b.told.failed).toEqual([]);
});

test('an account without permission for lookups is reported, and paused for an hour', async () => {
  const b = setup([[due(1), due(2)]], { a: () => ({ kind: 'forbidden', failure }) });
  await b.lookups.look();
  await expect
    .poll(() => b.told.paused)
    .toMatchObject([
      [
        { accountId: 'a', provider: 'twilio' },
        { reason: 'forbidden', pauseMs: 3_600_000 },
      ],
    ]);
  expect(b.told.answered).toMatchObject([
    [{ messageId: 'message 1' }, 'forbidden'],
    [{ messageId: 'message 2' }, 'forbidden'],
  ]);
  expect(b.settled.flatMap(({ turns }) => turns)).toEqual([
    { account_id: 'a', turn: 1, failures: 1, pause_ms: 3_600_000 },
  ]);
});

test.each([
  ['twilio', 3, 3_000],
  ['resend', 1, 10_000],
])("lookups at %s keep to the provider's pace: a pause follows after %i of them", async (provider, n, ms) => {
  const batch = Array.from({ length: n }, (_, seq) => due(seq, { provider }));
  const b = setup([batch], { a: () => DELIVERED });
  await b.lookups.look();
  await expect.poll(() => b.settled.flatMap(({ turns }) => turns)).toMatchObject([{ pause_ms: ms }]);
});

test('the pause is shorter by the time that the answers took, even if the wall clock is set back meanwhile', async () => {
  const clocks = { epoch: 3_600_000, monotonic: 1_000 };
  const ask: Ask = () => {
    clocks.epoch -= 3_000_000;
    clocks.monotonic += 400;
    return DELIVERED;
  };
  const b = setup(
    [[due(1)]],
    { a: ask },
    { epochMs: () => clocks.epoch, monotonicMs: () => clocks.monotonic },
  );
  await b.lookups.look();
  await expect.poll(() => b.settled.flatMap(({ turns }) => turns)).toMatchObject([{ pause_ms: 600 }]);
});

test('no lookups are made for an account that is blocked or has to yield to sends', async () => {
  const b = setup(
    [[due(1)], [due(2, { accountId: 'blocked' })]],
    { a: () => DELIVERED },
    {
      isBlocked: (id) => id === 'blocked',
    },
  );
  b.lookups.yieldToSends('a');
  await b.lookups.look();
  await expect
    .poll(() => b.settled.flatMap(({ again }) => again))
    .toEqual([
      { seq: 1, asks: 1, ms: 60_000, unasked: true },
      { seq: 2, asks: 1, ms: 60_000, unasked: true },
    ]);
  expect(b.asked).toEqual([]);
});

test.each([
  ['its secret cannot be decrypted', 'credentials_unreadable', 60_000],
  ['its settings cannot be used', 'config_invalid', 60_000],
  ['it was deleted', 'provider_deleted', null],
] as const)(
  'a message whose account is unusable because %s (%s) is looked up again after %s ms',
  async (_, code, ms) => {
    const accounts = { get: async () => ({ kind: 'unusable', code }) as const };
    const b = setup([[due(1)]], {}, { accounts });
    await b.lookups.look();
    await expect.poll(() => b.settled.flatMap(({ again }) => again)).toEqual([{ seq: 1, asks: 1, ms }]);
    expect(b.asked).toEqual([]);
  },
);

test('nothing is taken while all slots are occupied, and a turn that has ended leaves its slot', async () => {
  const batches = [
    ...Array.from({ length: 8 }, (_, n) => [due(n, { accountId: `slow ${n}` })]),
    [due(8, { accountId: 'failing', failures: 1 })],
  ];
  const slow = Promise.withResolvers<LookupAnswer>();
  let ended = 0;
  const ask: Ask = (question, signal) =>
    question.messageId === 'message 3' ? slow.promise : hang(question, signal);
  const asks = Object.fromEntries(batches.map(([one]) => [one?.accountId, ask]));
  const b = setup(batches, asks, { onEnded: () => void (ended += 1) });
  await b.lookups.look();
  const room = () => b.terms.map(({ accountsMax, failingMax }) => [accountsMax, failingMax]);
  expect(room()).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0].map((left) => [left, 1]));
  await b.lookups.look();
  expect([room().length, ended]).toEqual([9, 0]);
  slow.resolve(DELIVERED);
  await expect.poll(() => ended).toBe(1);
  await b.lookups.look();
  expect(room().slice(9)).toEqual([[1, 0]]);
  await b.lookups.stop();
});

test('while the database is away no answer counts as given or as refused, and the slot is free again', async () => {
  const away = Object.assign(new Error('gone'), { code: 'CONNECTION_CLOSED' });
  const batches = [[due(1)]];
  let ended = 0;
  const store = {
    takeLookups: async () => batches.shift() ?? [],
    settleLookups: () => Promise.reject(away),
  };
  const b = setup([], { a: () => DELIVERED }, { store, onEnded: () => void (ended += 1) });
  await b.lookups.look();
  await expect.poll(() => ended).toBe(1);
  expect(b.told).toEqual({ paused: [], unstorable: [], failed: [away], answered: [] });
});

test.each<[answer: LookupAnswer, outcome: string]>([
  [DELIVERED, 'final'],
  [{ kind: 'found', reports: [{ providerStatus: 'queued' }] }, 'pending'],
  [{ kind: 'not_found' }, 'not_found'],
])('the answer %j is counted as %s', async (answer, outcome) => {
  const b = setup([[due(1)]], { a: () => answer });
  await b.lookups.look();
  await expect.poll(() => b.told.answered).toMatchObject([[{ messageId: 'message 1' }, outcome]]);
});

test('lookups that were taken while the worker was told to stop are given back without a call', async () => {
  const batches = [[due(1)]];
  const settled: SettledLookups[] = [];
  const taking = Promise.withResolvers<void>();
  const store = {
    async takeLookups() {
      await taking.promise;
      return batches.shift() ?? [];
    },
    settleLookups: async (one: SettledLookups) => void settled.push(one),
  };
  const b = setup([], { a: () => DELIVERED }, { store });
  const looking = b.lookups.look();
  const stopped = b.lookups.stop();
  taking.resolve();
  await Promise.all([looking, stopped]);
  await expect
    .poll(() => settled.flatMap(({ again }) => again))
    .toEqual([{ seq: 1, asks: 1, ms: 0, unasked: true }]);
  expect(b.asked).toEqual([]);
});
