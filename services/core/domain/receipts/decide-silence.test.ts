import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SILENT_MESSAGE } from '#test/support/silent-message.ts';
import { decideSilence, type SilentMessage } from './decide-silence.ts';
import { canMove, MESSAGE_STATES } from '../message/message-state.ts';
import { orderOf, RECEIPT_WAIT_MS_MIN, ROUTE_STRATEGIES, type Route } from '../routing/route.ts';
import type { ClosedReason } from '../routing/skipped-account.ts';

const ACCOUNTS = ['first', 'second', 'third', 'fourth'] as const;
const silent = (overrides: Partial<SilentMessage> = {}): SilentMessage => ({
  ...SILENT_MESSAGE,
  id: 'm',
  accountId: 'first',
  tried: ['first'],
  ...overrides,
});
const routeOf = (overrides: Partial<Route> = {}): Route => ({
  channel: 'sms',
  version: 4,
  strategy: 'priority',
  steps: ACCOUNTS.map((accountId) => ({ accountId, weight: 1 })),
  failoverOn: [],
  receiptTimeoutMs: 60_000,
  ...overrides,
});
const accountsOf = (statuses: Readonly<Record<string, string>> = {}) =>
  ACCOUNTS.map((id) => ({ id, channel: 'sms', status: statuses[id] ?? 'active' }));

test('a message without a receipt in time moves to the next account of its route', () => {
  expect(decideSilence(silent(), accountsOf(), [routeOf()])).toEqual({
    kind: 'move',
    rerouted: { accountId: 'second', version: 4, skipped: [] },
  });
});

test('accounts with an open breaker are skipped, and tried accounts are not used again', () => {
  const closed = new Map<string, ClosedReason>([['third', 'breaker_open']]);
  const message = silent({ accountId: 'second', tried: ['first', 'second'] });
  expect(decideSilence(message, accountsOf(), [routeOf()], closed)).toEqual({
    kind: 'move',
    rerouted: {
      accountId: 'fourth',
      version: 4,
      skipped: [{ accountId: 'third', reason: 'breaker_open' }],
    },
  });
});

test.each<[string, Partial<SilentMessage>]>([
  ['does not exist any more', { id: null, channel: null, tenantStatus: null, status: null }],
  ['waits for a call', { status: null }],
  ['is at_most_once', { deliveryGuarantee: 'at_most_once' }],
  ['is pinned to its account', { pinned: true }],
  ['is a test message', { test: true }],
  ['has no content any more', { hasContent: false }],
  ['discards its content', { discard: true }],
  ['has expired', { isExpired: true }],
  ['is final without receipts', { final: true }],
  ['does not await a receipt', { isAwaited: false }],
  ['has a receipt already', { isTold: true }],
  ['was reported as sent by a receipt only', { isByCall: false }],
  ['had an ambiguous call', { ambiguous: 1 }],
  ['belongs to a tenant that is being deleted', { tenantStatus: 'deleting' }],
  ['belongs to a deleted tenant', { tenantStatus: 'deleted' }],
  ['was tried through every account', { tried: [...ACCOUNTS] }],
])('a message that %s stays with its account', (_name, overrides) => {
  expect(decideSilence(silent(overrides), accountsOf(), [routeOf()])).toEqual({ kind: 'stay' });
});

test.each<[string, Partial<SilentMessage>, number]>([
  ['its receipt timeout is not over', { silentMs: 20_000 }, 40_000],
  ['another transaction has locked it', { isBusy: true }, 1_000],
  ['receipts that arrived in time are not applied yet', { isBehind: true }, 5_000],
  ['its tenant is suspended', { tenantStatus: 'suspended' }, 60_000],
  ['a brake holds its channel', { isHeld: true }, 60_000],
])('the message is checked again later if %s', (_name, overrides, ms) => {
  expect(decideSilence(silent(overrides), accountsOf(), [routeOf()])).toEqual({ kind: 'later', ms });
});

test('the message is checked again while an account may open later, and stays if none can', () => {
  const closed = new Map<string, ClosedReason>([['second', 'rate_used_up']]);
  const route = routeOf({
    steps: ['first', 'second', 'third'].map((accountId) => ({ accountId, weight: 1 })),
  });
  const look = (statuses: Record<string, string>) =>
    decideSilence(silent(), accountsOf(statuses), [route], closed);
  expect(look({ third: 'invalid' })).toEqual({ kind: 'later', ms: 30_000 });
  const own = accountsOf().filter(({ id }) => id === 'first');
  expect(decideSilence(silent(), own, [route])).toEqual({ kind: 'stay' });
});

test('the message stays if its channel has no route or the route has no receipt timeout', () => {
  expect(decideSilence(silent(), accountsOf(), [routeOf({ receiptTimeoutMs: null })]).kind).toBe('stay');
  expect(decideSilence(silent(), accountsOf(), []).kind).toBe('stay');
  expect(decideSilence(silent(), accountsOf(), [routeOf({ channel: 'push' })]).kind).toBe('stay');
});

describe('for any message', () => {
  const flag = fc.oneof({ weight: 6, arbitrary: fc.constant(false) }, fc.boolean());
  const message: fc.Arbitrary<SilentMessage> = fc.record({
    id: fc.uuid(),
    channel: fc.constant('sms'),
    tenantStatus: fc.oneof(
      { weight: 4, arbitrary: fc.constant('active') },
      fc.constantFrom('suspended', 'deleting'),
    ),
    isHeld: flag,
    status: fc.oneof(
      { weight: 6, arbitrary: fc.constant('sent' as const) },
      fc.constantFrom(...MESSAGE_STATES),
    ),
    final: flag,
    test: flag,
    pinned: flag,
    deliveryGuarantee: fc.constantFrom('at_least_once', 'at_least_once', 'at_most_once'),
    discard: flag,
    hasContent: flag.map((is) => !is),
    accountId: fc.constantFrom(...ACCOUNTS),
    isByCall: flag.map((is) => !is),
    isTold: flag,
    isAwaited: flag.map((is) => !is),
    isExpired: flag,
    isBusy: flag,
    isBehind: flag,
    silentMs: fc.nat(200_000),
    tried: fc.subarray([...ACCOUNTS]),
    ambiguous: fc.constantFrom(0, 0, 0, 1),
  });
  const route = fc.record({
    strategy: fc.constantFrom(...ROUTE_STRATEGIES),
    receiptTimeoutMs: fc.option(fc.integer({ min: RECEIPT_WAIT_MS_MIN, max: 100_000 }), { freq: 6 }),
    steps: fc
      .uniqueArray(fc.constantFrom(...ACCOUNTS), { minLength: 1 })
      .map((ids) => ids.map((accountId, i) => ({ accountId, weight: i + 1 }))),
  });
  const accounts = fc.uniqueArray(
    fc.record({
      id: fc.constantFrom(...ACCOUNTS),
      channel: fc.constantFrom('sms', 'sms', 'sms', 'push'),
      status: fc.constantFrom('active', 'active', 'invalid'),
    }),
    { selector: ({ id }) => id },
  );
  const closed = fc
    .subarray([...ACCOUNTS])
    .map((ids) => new Map<string, ClosedReason>(ids.map((id) => [id, 'breaker_open'])));

  test('it moves only if that is allowed, to the first open account that was not tried', () => {
    let moved = 0;
    fc.assert(
      fc.property(message, route, accounts, closed, (one, given, own, shut) => {
        const of = routeOf(given);
        const decision = decideSilence(one, own, [of], shut);
        const isFree = (id: string) => !one.tried.includes(id) && id !== one.accountId;
        const isOpen = (id: string) =>
          own.some(
            (account) => account.id === id && account.channel === 'sms' && account.status === 'active',
          ) && !shut.has(id);
        const order = [...orderOf(of, one.id ?? '')].filter(isFree);
        const may =
          one.status === 'sent' &&
          one.tenantStatus === 'active' &&
          !one.isHeld &&
          one.deliveryGuarantee === 'at_least_once' &&
          ![one.final, one.test, one.pinned, one.discard, one.isTold, one.isExpired].includes(true) &&
          one.hasContent === true &&
          one.isByCall === true &&
          one.isAwaited === true &&
          one.ambiguous === 0 &&
          of.receiptTimeoutMs != null;
        if (decision.kind !== 'move') {
          const isOver = may && (one.silentMs ?? 0) >= (of.receiptTimeoutMs ?? Infinity);
          if (isOver && one.isBusy !== true && one.isBehind !== true) expect(order.some(isOpen)).toBe(false);
          if (!may && one.tenantStatus === 'active' && !one.isHeld) expect(decision.kind).toBe('stay');
          return;
        }
        moved += 1;
        expect(may && one.isBusy !== true && one.isBehind !== true).toBe(true);
        expect(one.silentMs).toBeGreaterThanOrEqual(of.receiptTimeoutMs ?? Infinity);
        expect(canMove('sent', 'queued')).toBe(true);
        const { accountId, skipped } = decision.rerouted;
        expect(accountId).toBe(order.find(isOpen));
        expect(skipped.map((step) => step.accountId)).toEqual(order.slice(0, order.indexOf(accountId)));
        expect(decideSilence(one, own, [of], shut)).toEqual(decision);
      }),
      { numRuns: 20_000 },
    );
    expect(moved).toBeGreaterThan(100);
  });
});
