import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { accountsFor, chooseAccount } from './choose-account.ts';
import { FAILOVER_DEFAULT, orderOf, type Route } from './route.ts';

const ACCOUNTS = [
  { id: 'mail', channel: 'email' },
  { id: 'old', channel: 'sms' },
  { id: 'new', channel: 'sms' },
];
const routeOf = (...ids: readonly string[]): Route => ({
  channel: 'sms',
  version: 2,
  strategy: 'priority',
  steps: ids.map((accountId) => ({ accountId, weight: 1 })),
  failoverOn: FAILOVER_DEFAULT,
});

describe('without a route', () => {
  test.each([
    ['the oldest of the channel', 'sms', null, 'old'],
    ['the only one of the channel', 'email', null, 'mail'],
    ['none of another channel', 'push', null, undefined],
    ['the one that was named, however young', 'sms', 'new', 'new'],
    ['none where the one that was named serves another channel', 'sms', 'mail', undefined],
    ['none where the one that was named is not there', 'sms', 'gone', undefined],
  ])('%s', (_name, channel, pinned, id) => {
    expect(chooseAccount(ACCOUNTS, { id: 'm', channel, pinned }, [])?.account.id).toBe(id);
  });
});

describe('with a route', () => {
  test.each([
    ['its first account', routeOf('new', 'old'), null, 'new', []],
    ['the next one where the first cannot be used', routeOf('gone', 'new'), null, 'new', ['gone']],
    [
      'none where none of it can be used, whatever else the tenant has',
      routeOf('gone'),
      null,
      undefined,
      undefined,
    ],
    ['none of another channel, even if it should stand there', routeOf('mail', 'old'), null, 'old', ['mail']],
    ['the one that was named, though the route has others', routeOf('new'), 'old', 'old', []],
  ])('%s', (_name, route, pinned, id, skipped) => {
    const choice = chooseAccount(ACCOUNTS, { id: 'm', channel: 'sms', pinned }, [route]);
    expect([choice?.account.id, choice?.skipped]).toEqual([id, skipped]);
    expect(choice?.routeVersion ?? null).toBe(choice === undefined || pinned !== null ? null : 2);
  });

  test('one of another channel says nothing', () => {
    const choice = chooseAccount(ACCOUNTS, { id: 'm', channel: 'email', pinned: null }, [routeOf('new')]);
    expect([choice?.account.id, choice?.routeVersion]).toEqual(['mail', 0]);
  });

  test('the first of its order that can be used is chosen, and what stood before it is named', () => {
    const ids = fc.uniqueArray(fc.constantFrom<string[]>('a', 'b', 'c', 'd', 'e'), { minLength: 1 });
    fc.assert(
      fc.property(
        ids,
        ids,
        fc.constantFrom('priority', 'weighted'),
        fc.uuid(),
        (inRoute, usable, strategy, id) => {
          const route = { ...routeOf(...inRoute), strategy } as Route;
          const accounts = usable.map((one) => ({ id: one, channel: 'sms' }));
          const choice = chooseAccount(accounts, { id, channel: 'sms', pinned: null }, [route]);
          const order = [...orderOf(route, id)];
          const first = order.findIndex((one) => usable.includes(one));
          expect(choice?.account.id).toBe(order[first]);
          if (choice !== undefined) expect(choice.skipped).toEqual(order.slice(0, first));
          const able = accountsFor(accounts, { channel: 'sms', pinned: null }, [route]);
          expect(able.some((one) => one.id === choice?.account.id)).toBe(first >= 0);
        },
      ),
    );
  });
});
