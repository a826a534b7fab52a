import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { NO_ACCOUNT } from './choose-account.ts';
import { decideWaiting, type WaitingDecision, type WaitingMessage } from './decide-waiting.ts';
import { canMove, MESSAGE_STATES, type MessageState } from './message-state.ts';

const ACCOUNTS = ['a', 'b', 'c'] as const;
const CHANNELS = ['sms', 'email'] as const;

const accounts = fc.uniqueArray(
  fc.record({ id: fc.constantFrom(...ACCOUNTS), channel: fc.constantFrom(...CHANNELS) }),
  { selector: ({ id }) => id },
);
const message: fc.Arbitrary<WaitingMessage> = fc.record({
  status: fc.constantFrom(...MESSAGE_STATES),
  tenantStatus: fc.constantFrom('active', 'suspended', 'deleting'),
  channel: fc.constantFrom(...CHANNELS),
  test: fc.boolean(),
  accountId: fc.constantFrom(...ACCOUNTS, NO_ACCOUNT),
  accountStatus: fc.constantFrom('unverified', 'active', 'invalid', 'disabled', null),
  pinned: fc.boolean(),
  ambiguous: fc.nat({ max: 2 }),
  isDue: fc.boolean(),
  isExpired: fc.boolean(),
  isLeaseOver: fc.boolean(),
});
const waiting = message.map((m) => ({ ...m, status: m.ambiguous > 0 ? 'deferred' : 'queued' }) as const);

const always = <M extends WaitingMessage>(
  messages: fc.Arbitrary<M>,
  holds: (m: M, decision: WaitingDecision, usable: { id: string; channel: string }[]) => void,
): void =>
  fc.assert(
    fc.property(messages, accounts, (m, usable) => {
      holds(m, decideWaiting(m, usable), usable);
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
    const isWaiting = status === 'queued' || status === 'deferred';
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
    if (decision.kind === 'move') expect(['expired', 'held']).toContain(decision.status);
  });
});

test('what is free to go another way takes the oldest account of its channel, or fails where there is none', () => {
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
  }));
  always(stranded, ({ channel }, decision, usable) => {
    const oldest = usable.find((account) => account.channel === channel);
    if (oldest === undefined)
      expect(decision).toMatchObject({ kind: 'move', status: 'failed', failure: { class: 'no_route' } });
    else expect(decision).toEqual({ kind: 'assign', accountId: oldest.id });
  });
});

test('what is decided alike is the same decision, and what ends says why', () => {
  always(waiting, (m, decision) => {
    if (decision.kind !== 'move') return;
    expect(decideWaiting({ ...m, accountId: 'd' }, [])).toBe(decision);
    expect(decision.failure === null).toBe(decision.status === 'held');
  });
});

test('an attempt is lost when its lease is over, and not before', () => {
  always(
    message.map((m) => ({ ...m, status: 'sending' as const })),
    ({ isLeaseOver }, { kind }) => expect(kind).toBe(isLeaseOver ? 'lost' : 'wait'),
  );
});
