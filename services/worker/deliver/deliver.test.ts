import { expect, test } from 'vitest';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { AnyProvider, ProviderContext } from '#providers/provider.ts';
import { simulatorFor } from '#providers/registry.ts';
import type { Account } from '../accounts/accounts.ts';
import { createBreakers } from '../accounts/breakers.ts';
import { createDeliver } from './deliver.ts';

const DEADLINE_MS = 15_000;

const message = (leaseLeftMs: number): ClaimedMessage =>
  ({
    action: 'send',
    id: '00000000-0000-4000-8000-000000000001',
    tenantId: 'a',
    channel: 'sms',
    address: '+15550001234',
    sender: null,
    content: { body: 'Hello' },
    accountId: 'account',
    accountStatus: 'active',
    accountVersion: 1,
    isHealthStale: false,
    isAccountMoved: false,
    isAccountRefused: false,
    provider: 'made-up',
    attempt: 1,
    waitsSince: new Date(),
    expiresAt: new Date(Date.now() + 60_000),
    leaseEndsAt: performance.now() + leaseLeftMs,
  }) as unknown as ClaimedMessage;

function setup(
  waitForContent: () => Promise<unknown> = () => Promise.resolve(),
  ownDeadlineMs?: number,
  dedupe: Partial<Pick<AnyProvider, 'dedupe' | 'keyLifetimeMs'>> = {},
) {
  let calls = 0;
  let allowedMs = 0;
  let released = 0;
  let isStopping = false;
  const provider = {
    ...simulatorFor('sms'),
    id: 'made-up',
    ...dedupe,
    ...(ownDeadlineMs === undefined ? {} : { deadlineMs: ownDeadlineMs }),
    send: () => {
      calls += 1;
      return Promise.resolve({ kind: 'accepted', providerMessageId: null });
    },
  };
  const account = { id: 'account', provider, version: 1, config: {}, secrets: {}, row: null };
  const breakers = createBreakers(Date.now);
  const deliver = createDeliver({
    accounts: {
      get: () => Promise.resolve({ kind: 'ready', account: account as unknown as Account }),
      inForce: () => Promise.reject(new Error('not asked for')),
    },
    contents: {
      load: async ({ content }) => {
        await waitForContent();
        return { kind: 'ready', content, release: () => void (released += 1) };
      },
    },
    breakers,
    contextOf: ({ until }) => {
      allowedMs = Number(until) - performance.now();
      return {} as ProviderContext;
    },
    receiptUrlOf: () => undefined,
    unsubscribeUrlOf: () => undefined,
    deadlineMs: DEADLINE_MS,
    leaseMs: 60_000,
    onAdapterFault: (_provider, error) => {
      throw error;
    },
    isStopping: () => isStopping,
  });
  return {
    breakers,
    deliver,
    calls: () => calls,
    allowedMs: () => allowedMs,
    released: () => released,
    stop: () => void (isStopping = true),
  };
}

test('a call is made if it can end within the lease', async () => {
  const { deliver, calls } = setup();
  const { outcome } = await deliver(message(DEADLINE_MS + 1_000));
  expect([outcome.kind, calls()]).toEqual(['accepted', 1]);
});

test('a call begins when all that it needs is there', async () => {
  const before = Date.now();
  const { deliver } = setup(() => new Promise((done) => setTimeout(done, 60)));
  const { calledAt, callMs } = await deliver(message(60_000));
  expect(calledAt).toBeGreaterThanOrEqual(before + 50);
  expect(callMs).toBeLessThan(50);
});

test('no call is begun that could outlast the lease, and no probe is used up', async () => {
  const { breakers, deliver, calls } = setup();
  breakers.open('account', 'made-up');
  expect((await deliver(message(DEADLINE_MS - 1))).outcome).toMatchObject({ kind: 'not_started' });
  breakers.reset('account');
  const { outcome } = await deliver(message(DEADLINE_MS - 1));
  expect(outcome).toEqual({ kind: 'not_started', reason: 'lease_over' });
  expect(calls()).toBe(0);
});

test("a provider's longer deadline applies, also to the check against the lease", async () => {
  const { deliver, calls, allowedMs } = setup(undefined, 40_000);
  expect((await deliver(message(39_000))).outcome).toEqual({ kind: 'not_started', reason: 'lease_over' });
  expect((await deliver(message(41_000))).outcome).toMatchObject({ kind: 'accepted' });
  expect(calls()).toBe(1);
  expect(allowedMs()).toBeGreaterThan(39_000);
  expect(allowedMs()).toBeLessThanOrEqual(40_000);
});

test('no call is begun if the message expires while its content is loaded', async () => {
  const { breakers, deliver, calls, released } = setup(() => new Promise((done) => setTimeout(done, 60)));
  const expiring = { ...message(60_000), expiresAt: new Date(Date.now() + 30) };
  const { outcome } = await deliver(expiring);
  expect([outcome.kind, calls(), released()]).toEqual(['not_started', 0, 1]);
  expect(breakers.health('account')).toBe('healthy');
});

test('no call is begun if the worker stops while the content is loaded', async () => {
  const { breakers, deliver, calls, released, stop } = setup(
    () => new Promise((done) => setTimeout(done, 60)),
  );
  const delivering = deliver(message(60_000));
  stop();
  const { outcome } = await delivering;
  expect(outcome).toEqual({ kind: 'not_started', reason: 'shutdown' });
  expect([calls(), released()]).toEqual([0, 1]);
  expect(breakers.health('account')).toBe('healthy');
});

test('no call is repeated after the idempotency key expired, and no probe is used up', async () => {
  const { breakers, deliver, calls, released } = setup(undefined, undefined, {
    dedupe: 'key',
    keyLifetimeMs: 65_000,
  });
  const repeated = (agoMs: number): ClaimedMessage => ({
    ...message(60_000),
    ambiguous: 1,
    ambiguousSince: new Date(Date.now() - agoMs),
  });
  expect((await deliver(repeated(1_000))).outcome).toMatchObject({ kind: 'accepted' });
  expect(await deliver(repeated(5_000))).toMatchObject({
    outcome: { kind: 'ambiguous', failure: { code: 'idempotency_key_expired' } },
    // A report on the first call still counts.
    receiptsExpected: true,
  });
  expect([calls(), released(), breakers.health('account')]).toEqual([1, 2, 'healthy']);
});

test.each(['key', 'lookup'] as const)(
  'no call is repeated at another server than the first one, which alone knows of it by %s',
  async (dedupe) => {
    const { breakers, deliver, calls, released } = setup(undefined, undefined, { dedupe });
    const repeated = { ...message(60_000), ambiguous: 1, ambiguousSince: new Date(), isAccountMoved: true };
    expect(await deliver(repeated)).toMatchObject({
      outcome: { kind: 'ambiguous', failure: { code: 'account_moved' } },
      receiptsExpected: true,
    });
    expect([calls(), released(), breakers.health('account')]).toEqual([0, 1, 'healthy']);
  },
);

test('a call is repeated at another server if duplicates are not prevented anyway', async () => {
  const { deliver, calls } = setup(undefined, undefined, { dedupe: 'none' });
  const repeated = { ...message(60_000), ambiguous: 1, ambiguousSince: new Date(), isAccountMoved: true };
  expect((await deliver(repeated)).outcome).toMatchObject({ kind: 'accepted' });
  expect(calls()).toBe(1);
});
