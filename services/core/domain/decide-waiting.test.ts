import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { NO_ACCOUNT } from './choose-account.ts';
import { decideWaiting, type WaitingDecision, type WaitingMessage } from './decide-waiting.ts';
import { SUPPRESSION_REASONS } from './suppression.ts';
import { canMove, MESSAGE_STATES, type MessageState } from './message-state.ts';
import { FAILOVER_DEFAULT, type Route } from './route.ts';

const ACCOUNTS = ['a', 'b', 'c'] as const;
const CHANNELS = ['sms', 'email'] as const;

const accounts = fc.uniqueArray(
  fc.record({ id: fc.constantFrom(...ACCOUNTS), channel: fc.constantFrom(...CHANNELS) }),
  { selector: ({ id }) => id },
);
const message: fc.Arbitrary<WaitingMessage> = fc.record({
  id: fc.uuid(),
  status: fc.constantFrom(...MESSAGE_STATES),
  tenantStatus: fc.constantFrom('active', 'suspended', 'deleting'),
  channel: fc.constantFrom(...CHANNELS),
  test: fc.boolean(),
  accountId: fc.constantFrom(...ACCOUNTS, NO_ACCOUNT),
  accountStatus: fc.constantFrom('unverified', 'active', 'invalid', 'disabled', null),
  pinned: fc.boolean(),
  refusedBy: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.subarray([...ACCOUNTS])),
  ambiguous: fc.nat({ max: 2 }),
  isDue: fc.boolean(),
  isExpired: fc.boolean(),
  isLeaseOver: fc.boolean(),
  suppression: fc.option(fc.constantFrom(...SUPPRESSION_REASONS), { freq: 1 }),
});
const waiting = message.map((m) => ({ ...m, status: m.ambiguous > 0 ? 'deferred' : 'queued' }) as const);
const scheduled = message.map((m) => ({ ...m, status: 'scheduled', ambiguous: 0 }) as const);

const always = <M extends WaitingMessage>(
  messages: fc.Arbitrary<M>,
  holds: (m: M, decision: WaitingDecision, usable: { id: string; channel: string }[]) => void,
  routes: readonly Route[] = [],
): void =>
  fc.assert(
    fc.property(messages, accounts, (m, usable) => {
      holds(m, decideWaiting(m, usable, routes), usable);
    }),
    { numRuns: 2_000 },
  );

test('every decision is a legal move, and nothing moves that does not wait', () => {
  const NEXT: Record<WaitingDecision['kind'], (d: WaitingDecision) => MessageState | undefined> = {
    move: (decision) => (decision.kind === 'move' ? decision.status : undefined),
    lane: () => 'sending',
    assign: () => 'sending',
    lost: () => 'unknown',
    wait: () => undefined,
  };
  always(message, ({ status }, decision) => {
    const next = NEXT[decision.kind](decision);
    const isWaiting = ['scheduled', 'queued', 'deferred'].includes(status);
    expect(next === undefined || canMove(status, next)).toBe(true);
    expect(isWaiting || ['lost', 'wait'].includes(decision.kind)).toBe(true);
  });
});

test('a message of a tenant that is not active is held, whatever else is true of it', () => {
  always(waiting, ({ tenantStatus }, decision) =>
    expect(decision.kind === 'move' && decision.status === 'held').toBe(tenantStatus !== 'active'),
  );
});

test('an expired message ends as expired, whether or not there is a route for it', () => {
  always(
    waiting.map((m) => ({ ...m, tenantStatus: 'active', isExpired: true })),
    (_, decision) => expect(decision).toMatchObject({ kind: 'move', status: 'expired' }),
  );
});

test('a message whose time has not come is left alone, though it has no route now', () => {
  always(
    waiting.map((m) => ({ ...m, tenantStatus: 'active', isExpired: false, isDue: false })),
    (_, decision) => expect(decision).toEqual({ kind: 'wait' }),
  );
});

test('what is due for a suppressed recipient ends with the reason of the entry, whether or not there is a route', () => {
  const due = waiting.map((m) => ({ ...m, tenantStatus: 'active', isExpired: false, isDue: true }));
  always(due, ({ suppression }, decision) => {
    expect(decision.kind === 'move' && decision.status === 'suppressed').toBe(suppression !== null);
    if (suppression !== null) expect(decision).toMatchObject({ failure: null, reason: suppression });
  });
});

test('what is pinned, or was perhaps sent already, never changes its account', () => {
  always(
    waiting.filter((m) => m.pinned || m.ambiguous > 0),
    (_, { kind }) => expect(kind).not.toBe('assign'),
  );
});

test('a test message needs no account, and one whose account is usable keeps it', () => {
  const isUsable = (m: WaitingMessage) =>
    m.test || (m.accountStatus !== null && m.accountStatus !== 'disabled');
  always(waiting.filter(isUsable), (_, decision) => {
    expect(decision.kind).not.toBe('assign');
    if (decision.kind === 'move') expect(['expired', 'held', 'suppressed']).toContain(decision.status);
  });
});

test('what is free to go another way takes the oldest account of its channel that has not refused it, or fails', () => {
  const stranded = waiting.map((m) => ({
    ...m,
    status: 'queued' as const,
    tenantStatus: 'active',
    accountId: NO_ACCOUNT,
    accountStatus: null,
    pinned: false,
    ambiguous: 0,
    test: false,
    isDue: true,
    isExpired: false,
    suppression: null,
  }));
  always(stranded, ({ channel, refusedBy }, decision, usable) => {
    const oldest = usable.find(
      ({ id, ...account }) => account.channel === channel && !refusedBy.includes(id),
    );
    if (oldest === undefined)
      expect(decision).toMatchObject({ kind: 'move', status: 'failed', failure: { class: 'no_route' } });
    else expect(decision).toEqual({ kind: 'assign', accountId: oldest.id });
  });
});

test('a message whose account is gone goes to the first of its route that can be used, and to none outside', () => {
  const route = { channel: 'sms', version: 1, strategy: 'priority', failoverOn: FAILOVER_DEFAULT } as const;
  const steps = ['c', 'a'].map((accountId) => ({ accountId, weight: 1 }));
  const stranded = waiting.map((m) => ({
    ...m,
    channel: 'sms',
    tenantStatus: 'active',
    accountId: 'd',
    accountStatus: 'disabled',
    pinned: false,
    ambiguous: 0,
    test: false,
    isDue: true,
    isExpired: false,
  }));
  always(
    stranded,
    ({ refusedBy }, decision, usable) => {
      const isUsable = (id: string) =>
        !refusedBy.includes(id) && usable.some((one) => one.id === id && one.channel === 'sms');
      const next = ['c', 'a'].find(isUsable);
      if (next === undefined) expect(decision).toMatchObject({ kind: 'move', status: 'failed' });
      else expect(decision).toEqual({ kind: 'assign', accountId: next });
    },
    [{ ...route, steps }],
  );
});

test('what is decided alike is the same decision, and what ends says why', () => {
  always(waiting, (m, decision) => {
    if (decision.kind !== 'move') return;
    expect(decideWaiting({ ...m, accountId: 'd' }, [], [])).toBe(decision);
    expect(decision.failure === null).toBe(decision.status === 'held' || decision.status === 'suppressed');
    expect(decision.reason !== undefined).toBe(decision.status === 'suppressed');
  });
});

test('an attempt is lost when its lease is over, and not before', () => {
  always(
    message.map((m) => ({ ...m, status: 'sending' as const })),
    ({ isLeaseOver }, { kind }) => expect(kind).toBe(isLeaseOver ? 'lost' : 'wait'),
  );
});

test('a scheduled message is queued when its instant has come, whatever its route, and not before', () => {
  always(
    scheduled.map((m) => ({ ...m, tenantStatus: 'active', isExpired: false })),
    ({ isDue }, decision) =>
      expect(decision).toEqual(isDue ? { kind: 'move', status: 'queued', failure: null } : { kind: 'wait' }),
  );
});

test('a scheduled message is held while its tenant is not active, and else expires as any that waits', () => {
  always(scheduled, ({ tenantStatus, isExpired }, decision) => {
    const status = decision.kind === 'move' ? decision.status : undefined;
    expect(status === 'held').toBe(tenantStatus !== 'active');
    expect(status === 'expired').toBe(tenantStatus === 'active' && isExpired);
  });
});
