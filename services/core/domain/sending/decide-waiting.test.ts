import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BRAKE_LEVELS } from '../tenant/brake.ts';
import { NO_ACCOUNT } from '../routing/choose-account.ts';
import { decideWaiting, type WaitingDecision, type WaitingMessage } from './decide-waiting.ts';
import { SUPPRESSION_REASONS } from '../recipient/suppression.ts';
import { canMove, MESSAGE_STATES, type MessageState } from '../message/message-state.ts';
import { FAILOVER_DEFAULT, orderOf, ROUTE_STRATEGIES, type Route } from '../routing/route.ts';
import type { ClosedReason, SkippedAccount, SkippedReason } from '../routing/skipped-account.ts';

const ACCOUNTS = ['a', 'b', 'c'] as const;
const CHANNELS = ['sms', 'email'] as const;

const accounts = fc.uniqueArray(
  fc.record({
    id: fc.constantFrom(...ACCOUNTS),
    channel: fc.constantFrom(...CHANNELS),
    status: fc.constantFrom('unverified', 'active', 'invalid'),
  }),
  { selector: ({ id }) => id },
);
const message: fc.Arbitrary<WaitingMessage> = fc.record({
  id: fc.uuid(),
  status: fc.constantFrom(...MESSAGE_STATES),
  tenantStatus: fc.constantFrom('active', 'suspended', 'deleting'),
  channel: fc.constantFrom(...CHANNELS),
  test: fc.boolean(),
  accountId: fc.constantFrom(...ACCOUNTS, NO_ACCOUNT),
  accountStatus: fc.constantFrom('unverified', 'active', 'invalid', 'disabled', 'deleted', null),
  pinned: fc.boolean(),
  refusedBy: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.subarray([...ACCOUNTS])),
  ambiguous: fc.nat({ max: 2 }),
  waitedMs: fc.nat({ max: 100_000 }),
  leftForRate: fc.subarray([...ACCOUNTS]),
  isDue: fc.boolean(),
  isExpired: fc.boolean(),
  isLeaseOver: fc.boolean(),
  brake: fc.option(fc.constantFrom(...BRAKE_LEVELS)),
  suppression: fc.option(fc.constantFrom(...SUPPRESSION_REASONS), { freq: 2 }),
});
/** Nothing shows that the message may have been sent. */
const unsent = message.map((m) => ({ ...m, status: 'queued', ambiguous: 0 }) as const);
const waiting = message.map((m) => ({ ...m, status: m.ambiguous > 0 ? 'deferred' : 'queued' }) as const);
const scheduled = message.map((m) => ({ ...m, status: 'scheduled', ambiguous: 0 }) as const);

const always = <M extends WaitingMessage>(
  messages: fc.Arbitrary<M>,
  holds: (m: M, decision: WaitingDecision, usable: { id: string; channel: string; status: string }[]) => void,
  routes: readonly Route[] = [],
): void =>
  fc.assert(
    fc.property(messages, accounts, (m, usable) => {
      holds(m, decideWaiting(m, usable, routes), usable);
    }),
    { numRuns: 2_000 },
  );

test('every decision is an allowed transition, and only waiting messages move', () => {
  const NEXT: Record<WaitingDecision['kind'], (d: WaitingDecision) => MessageState | undefined> = {
    move: (decision) => (decision.kind === 'move' ? decision.status : undefined),
    lane: () => 'sending',
    assign: () => 'sending',
    lost: () => 'unknown',
    return: () => 'sent',
    wait: () => undefined,
  };
  always(message, ({ status }, decision) => {
    const next = NEXT[decision.kind](decision);
    const isWaiting = ['scheduled', 'queued', 'deferred'].includes(status);
    expect(next === undefined || canMove(status, next)).toBe(true);
    expect(isWaiting || ['lost', 'wait'].includes(decision.kind)).toBe(true);
  });
});

test('a message that was accepted before returns to sent where any other message would end', () => {
  const WHY = { expired: 'expired', suppressed: 'suppressed', failed: 'disabled' } as const;
  let returned = 0;
  always(unsent, (m, decision, usable) => {
    const sent = decideWaiting({ ...m, isSent: true }, usable, []);
    const ends = decision.kind === 'move' && decision.status !== 'held' ? decision.status : undefined;
    if (ends === undefined) expect(sent).toEqual(decision);
    else expect(sent).toEqual({ kind: 'return', why: WHY[ends as keyof typeof WHY] });
    returned += ends === undefined ? 0 : 1;
  });
  expect(returned).toBeGreaterThan(100);
});

test('a message is held exactly if its tenant is not active or a brake holds its channel', () => {
  always(waiting, ({ tenantStatus, brake }, decision) => {
    const isHeld = decision.kind === 'move' && decision.status === 'held';
    expect(isHeld).toBe(tenantStatus !== 'active' || brake === 'held');
    if (isHeld && tenantStatus === 'active') expect(decision).toMatchObject({ reason: 'abuse_brake' });
  });
});

test('a slowing brake does not hold messages', () => {
  always(
    waiting.map((m) => ({ ...m, tenantStatus: 'active', brake: 'slowed' as const })),
    (_, decision) => expect(decision.kind === 'move' && decision.status === 'held').toBe(false),
  );
});

test('a message with an ambiguous call ends as unknown where any other message would end', () => {
  let left = 0;
  always(unsent, (m, _, usable) => {
    const perhaps = decideWaiting({ ...m, status: 'deferred', pinned: true, ambiguous: 1 }, usable, []);
    const pinned = decideWaiting({ ...m, status: 'deferred', pinned: true }, usable, []);
    const ends = pinned.kind === 'move' && pinned.status !== 'held';
    expect(perhaps).toEqual(
      ends ? { kind: 'move', status: 'unknown', failure: null, reason: 'ambiguous_attempt' } : pinned,
    );
    left += ends ? 1 : 0;
  });
  expect(left).toBeGreaterThan(100);
});

test('an expired message ends as expired, whether or not there is a route for it', () => {
  always(
    unsent.map((m) => ({ ...m, tenantStatus: 'active', brake: null, isExpired: true })),
    (_, decision) =>
      expect(decision).toMatchObject({ kind: 'move', status: 'expired', failure: { retryable: false } }),
  );
});

test('a message that is not due waits, even if it has no route', () => {
  always(
    waiting.map((m) => ({ ...m, tenantStatus: 'active', brake: null, isExpired: false, isDue: false })),
    (_, decision) => expect(decision).toEqual({ kind: 'wait' }),
  );
});

test('a due message to a suppressed recipient ends as suppressed, with the reason of the entry', () => {
  const due = unsent.map((m) => ({
    ...m,
    tenantStatus: 'active',
    brake: null,
    isExpired: false,
    isDue: true,
  }));
  always(due, ({ suppression }, decision) => {
    expect(decision.kind === 'move' && decision.status === 'suppressed').toBe(suppression !== null);
    if (suppression !== null) expect(decision).toMatchObject({ failure: null, reason: suppression });
  });
});

test('a pinned message, or one with an ambiguous call, never changes its account', () => {
  always(
    waiting.filter((m) => m.pinned || m.ambiguous > 0),
    (_, { kind }) => expect(kind).not.toBe('assign'),
  );
});

test('a test message, or one whose account is usable, is not assigned to another account', () => {
  const isUsable = (m: WaitingMessage) =>
    m.test || ['unverified', 'active', 'invalid'].includes(m.accountStatus ?? '');
  always(waiting.filter(isUsable), (_, decision) => {
    expect(decision.kind).not.toBe('assign');
    if (decision.kind === 'move')
      expect(['expired', 'held', 'suppressed', 'unknown']).toContain(decision.status);
  });
});

test('without a route, a stranded message takes the oldest account that has not refused it, or fails', () => {
  const stranded = waiting.map((m) => ({
    ...m,
    status: 'queued' as const,
    tenantStatus: 'active',
    brake: null,
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
      expect(decision).toMatchObject({
        kind: 'move',
        status: 'failed',
        failure: { class: 'no_route', retryable: false },
      });
    else
      expect(decision).toMatchObject({
        kind: 'assign',
        rerouted: { accountId: oldest.id, version: 0 },
        why: 'disabled',
      });
  });
});

test('a message whose account is disabled moves to the first usable account of its route, or fails', () => {
  const route = { channel: 'sms', version: 1, strategy: 'priority', failoverOn: FAILOVER_DEFAULT } as const;
  const steps = ['c', 'a'].map((accountId) => ({ accountId, weight: 1 }));
  const stranded = waiting.map((m) => ({
    ...m,
    channel: 'sms',
    tenantStatus: 'active',
    brake: null,
    accountId: 'd',
    accountStatus: 'disabled',
    pinned: false,
    ambiguous: 0,
    test: false,
    isDue: true,
    isExpired: false,
    suppression: null,
  }));
  always(
    stranded,
    ({ refusedBy }, decision, usable) => {
      const isUsable = (id: string) =>
        !refusedBy.includes(id) && usable.some((one) => one.id === id && one.channel === 'sms');
      const next = ['c', 'a'].find(isUsable);
      if (next === undefined) expect(decision).toMatchObject({ kind: 'move', status: 'failed' });
      else expect(decision).toMatchObject({ kind: 'assign', rerouted: { accountId: next, version: 1 } });
    },
    [{ ...route, steps }],
  );
});

describe('a message with these facts', () => {
  const own: WaitingMessage = {
    id: 'm',
    status: 'queued',
    tenantStatus: 'active',
    channel: 'sms',
    test: false,
    accountId: 'a',
    accountStatus: 'active',
    pinned: false,
    refusedBy: [],
    ambiguous: 0,
    waitedMs: 30_000,
    leftForRate: [],
    isDue: true,
    isExpired: false,
    isLeaseOver: false,
    brake: null,
    suppression: null,
  };
  const route: Route = {
    channel: 'sms',
    version: 7,
    strategy: 'priority',
    steps: ACCOUNTS.map((accountId) => ({ accountId, weight: 1 })),
    failoverOn: FAILOVER_DEFAULT,
    maxWaitMs: 30_000,
  };
  const usable = (...ids: readonly string[]) => ids.map((id) => ({ id, channel: 'sms', status: 'active' }));
  const decided = (
    over: Partial<WaitingMessage>,
    {
      able = usable(...ACCOUNTS),
      by = [route],
      why = 'breaker_open',
    }: {
      readonly able?: ReturnType<typeof usable>;
      readonly by?: readonly Route[];
      readonly why?: ClosedReason;
    } = {},
  ) => decideWaiting({ ...own, ...over }, able, by, new Map([['a', why]]));
  const lane = { kind: 'lane' };
  const to = (accountId: string, why: string, skipped: readonly SkippedAccount[] = []) => ({
    kind: 'assign',
    rerouted: { accountId, version: 7, skipped },
    why,
  });
  const { maxWaitMs: _, ...patient } = route;
  const passed = (accountId: string) => ({ accountId, reason: 'disabled' }) as const;

  test.each([
    ['moves after the wait that its route allows', {}, {}, to('b', 'breaker_open')],
    ['stays before that', { waitedMs: 29_999 }, {}, lane],
    ['stays if its route allows any wait', {}, { by: [patient] }, lane],
    ['stays without a route', {}, { by: [] }, lane],
    ['moves if the rate is used up', {}, { why: 'rate_used_up' }, to('b', 'rate_used_up')],
    ['stays in a slowed channel if the rate is used up', { brake: 'slowed' }, { why: 'rate_used_up' }, lane],
    ['moves in a slowed channel if the breaker is open', { brake: 'slowed' }, {}, to('b', 'breaker_open')],
    ['shows that its credential was refused', { accountStatus: 'invalid' }, {}, to('b', 'invalid')],
    ['moves past an account that refused it', { refusedBy: ['b'] }, {}, to('c', 'breaker_open')],
    ['moves past a disabled account', {}, { able: usable('a', 'c') }, to('c', 'breaker_open', [passed('b')])],
  ] as const)('%s', (_name, over, given, decision) => {
    expect(decided(over, given)).toEqual(decision);
  });

  test.each(['disabled', 'deleted', null])('moves from an account that is %s', (status) => {
    expect(decided({ accountStatus: status }, { able: usable('b', 'c') })).toEqual(to('b', 'disabled'));
  });

  test('lists the disabled accounts before its next one, without its own and those that refused it', () => {
    const lost = { accountStatus: 'disabled' };
    expect(decided(lost, { able: usable('c') })).toEqual(to('c', 'disabled', [passed('b')]));
    expect(decided({ ...lost, refusedBy: ['b'] }, { able: usable('b', 'c') })).toEqual(to('c', 'disabled'));
  });
});

test('equal decisions are the same object, and an ended message has a failure or a reason', () => {
  always(waiting, (m, decision) => {
    if (decision.kind !== 'move') return;
    expect(decideWaiting({ ...m, accountId: 'd' }, [], [])).toBe(decision);
    const { status } = decision;
    expect(decision.failure === null).toBe(['held', 'suppressed', 'unknown'].includes(status));
    const isBraked = status === 'held' && m.tenantStatus === 'active';
    expect(decision.reason !== undefined).toBe(['suppressed', 'unknown'].includes(status) || isBraked);
  });
});

test('an attempt is lost once its lease has expired, and not before', () => {
  always(
    message.map((m) => ({ ...m, status: 'sending' as const })),
    ({ isLeaseOver }, { kind }) => expect(kind).toBe(isLeaseOver ? 'lost' : 'wait'),
  );
});

test('a scheduled message is queued once it is due, with or without a route', () => {
  always(
    scheduled.map((m) => ({ ...m, tenantStatus: 'active', brake: null, isExpired: false })),
    ({ isDue }, decision) =>
      expect(decision).toEqual(isDue ? { kind: 'move', status: 'queued', failure: null } : { kind: 'wait' }),
  );
});

test('a scheduled message is held for an inactive tenant or, if due, by a brake, or else expires', () => {
  always(scheduled, ({ tenantStatus, brake, isDue, isExpired }, decision) => {
    const status = decision.kind === 'move' ? decision.status : undefined;
    const isHeld = tenantStatus !== 'active' || (brake === 'held' && isDue);
    expect(status === 'held').toBe(isHeld);
    expect(status === 'expired').toBe(!isHeld && isExpired);
  });
});

describe('a message that waits for an account that cannot be called', () => {
  const WAIT_MS = 30_000;
  const steps = ACCOUNTS.map((accountId) => ({ accountId, weight: 2 }));
  const routes = fc.record({
    channel: fc.constant('sms'),
    version: fc.constant(7),
    strategy: fc.constantFrom(...ROUTE_STRATEGIES),
    steps: fc.subarray(steps),
    failoverOn: fc.constant(FAILOVER_DEFAULT),
    maxWaitMs: fc.option(fc.constantFrom(0, WAIT_MS)),
  });
  const closed = fc
    .subarray([...ACCOUNTS])
    .map((ids) => new Map<string, ClosedReason>(ids.map((id) => [id, 'breaker_open'])));
  const ready = message.map((m) => ({
    ...m,
    status: m.ambiguous > 0 ? ('deferred' as const) : ('queued' as const),
    tenantStatus: 'active',
    channel: 'sms',
    accountStatus: m.accountStatus === 'invalid' ? 'invalid' : 'active',
    brake: null,
    isDue: true,
    isExpired: false,
    suppression: null,
  }));
  const usable = accounts.map((ones) => ones.map((one) => ({ ...one, channel: 'sms' })));
  type Case = {
    readonly m: WaitingMessage;
    readonly own: readonly { id: string; channel: string; status: string }[];
    readonly shut: ReadonlyMap<string, ClosedReason>;
  };
  const all = (holds: (of: Case, decision: WaitingDecision, route: Route) => void): void =>
    fc.assert(
      fc.property(ready, usable, routes, closed, (m, own, route, shut) => {
        holds({ m, own, shut }, decideWaiting(m, own, [route], shut), route);
      }),
      { numRuns: 5_000 },
    );

  test('moves to another account only after the maxWaitMs of its route', () => {
    all(({ m, shut }, { kind }, { maxWaitMs }) => {
      if (kind !== 'assign') return;
      expect(maxWaitMs).not.toBeNull();
      expect(m.waitedMs).toBeGreaterThanOrEqual(maxWaitMs ?? Infinity);
      expect(shut.has(m.accountId)).toBe(true);
      expect([m.pinned, m.ambiguous, m.test]).toEqual([false, 0, false]);
    });
  });

  test('moves to the first open step, and every step before it is listed with a reason', () => {
    all(({ m, own, shut }, decision, route) => {
      if (decision.kind !== 'assign') return;
      const { accountId, skipped, version } = decision.rerouted;
      const others = [...orderOf(route, m.id)].filter(
        (id) => id !== m.accountId && !m.refusedBy.includes(id),
      );
      const before = others.slice(0, others.indexOf(accountId));
      expect(version).toBe(7);
      expect(skipped.map((one) => one.accountId)).toEqual(before);
      for (const { accountId: id, reason } of skipped) {
        const account = own.find((one) => one.id === id);
        const why: Partial<Record<SkippedReason, boolean>> = {
          disabled: account === undefined,
          invalid: account?.status === 'invalid',
          breaker_open: shut.has(id),
          rate_used_up: m.leftForRate.includes(id),
        };
        expect(why[reason]).toBe(true);
      }
      expect(own.some(({ id, status }) => id === accountId && status !== 'invalid')).toBe(true);
      expect(shut.has(accountId) || m.leftForRate.includes(accountId)).toBe(false);
      expect(decision.why).toBe(m.accountStatus === 'invalid' ? 'invalid' : 'breaker_open');
    });
  });

  test('gets the same decision again, also from the stored facts of the decision', () => {
    all(({ m, own, shut }, decision, route) => {
      expect(decideWaiting(m, own, [route], shut)).toEqual(decision);
      if (decision.kind !== 'assign') return;
      const { accountId, skipped } = decision.rerouted;
      const shown = new Map<string, ClosedReason>([[m.accountId, 'breaker_open']]);
      for (const { accountId: id, reason } of skipped)
        if (reason === 'breaker_open' || reason === 'rate_used_up') shown.set(id, reason);
      const known = [
        ...skipped.flatMap(({ accountId: id, reason }) =>
          reason === 'disabled'
            ? []
            : [{ id, channel: 'sms', status: reason === 'invalid' ? 'invalid' : 'active' }],
        ),
        { id: accountId, channel: 'sms', status: 'active' },
      ];
      expect(decideWaiting(m, known, [route], shown)).toEqual(decision);
    });
  });

  test('stays if a brake slows its channel, since any other account is as slow', () => {
    fc.assert(
      fc.property(ready, usable, routes, (m, own, route) => {
        const shut = new Map<string, ClosedReason>([[m.accountId, 'rate_used_up']]);
        const slowed = { ...m, accountStatus: 'active', brake: 'slowed' as const };
        expect(decideWaiting(slowed, own, [route], shut)).toEqual({ kind: 'lane' });
      }),
    );
  });

  test('never moves back and forth between accounts that are too slow', () => {
    fc.assert(
      fc.property(ready, routes, (m, route) => {
        const own = ACCOUNTS.map((id) => ({ id, channel: 'sms', status: 'active' }));
        const left: string[] = [];
        let at: string = m.accountId;
        for (;;) {
          const shut = new Map<string, ClosedReason>([[at, 'rate_used_up']]);
          const waiting = { ...m, accountId: at, leftForRate: left, waitedMs: WAIT_MS };
          const decision = decideWaiting(waiting, own, [route], shut);
          if (decision.kind !== 'assign') break;
          expect(left).not.toContain(decision.rerouted.accountId);
          left.push(at);
          at = decision.rerouted.accountId;
        }
        expect(left.length).toBeLessThanOrEqual(ACCOUNTS.length);
      }),
    );
  });
});
