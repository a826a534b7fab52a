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
    ['the oldest account of the channel', 'sms', null, 'old'],
    ['the only account of the channel', 'email', null, 'mail'],
    ['none for a channel without an account', 'push', null, undefined],
    ['the pinned account, even if it is newer', 'sms', 'new', 'new'],
    ['none if the pinned account serves another channel', 'sms', 'mail', undefined],
    ['none if the pinned account does not exist', 'sms', 'gone', undefined],
  ])('chooses %s', (_name, channel, pinned, id) => {
    expect(chooseAccount(ACCOUNTS, { id: 'm', channel, pinned }, [])?.account.id).toBe(id);
  });
});

describe('the accounts that may send a message', () => {
  const route = routeOf('new', 'gone');
  test.each([
    ['are those of its channel', null, [], ['old', 'new']],
    ['are those of the route that are left', null, [route], ['new']],
    [
      'are those of its channel if only another channel has a route',
      null,
      [{ ...route, channel: 'email' }],
      ['old', 'new'],
    ],
    ['are the pinned one, whatever the route', 'old', [route], ['old']],
    ['are none if the pinned one serves another channel', 'mail', [], []],
  ] as const)('%s', (_name, pinned, routes, ids) => {
    const able = accountsFor(ACCOUNTS, { channel: 'sms', pinned }, routes);
    expect(able.map((one) => one.id)).toEqual(ids);
  });
});

describe('with a route', () => {
  test.each([
    ['the first account of the route', routeOf('new', 'old'), null, 'new', []],
    ['the next account if the first one cannot be used', routeOf('gone', 'new'), null, 'new', ['gone']],
    ['none if no account of the route can be used', routeOf('gone'), null, undefined, undefined],
    [
      'no account of another channel, even if the route has it',
      routeOf('mail', 'old'),
      null,
      'old',
      ['mail'],
    ],
    ['the pinned account instead of the route', routeOf('new'), 'old', 'old', []],
  ])('chooses %s', (_name, route, pinned, id, skipped) => {
    const choice = chooseAccount(ACCOUNTS, { id: 'm', channel: 'sms', pinned }, [route]);
    expect([choice?.account.id, choice?.skipped]).toEqual([id, skipped]);
    expect(choice?.routeVersion ?? null).toBe(choice === undefined || pinned !== null ? null : 2);
  });

  test('ignores a route of another channel', () => {
    const choice = chooseAccount(ACCOUNTS, { id: 'm', channel: 'email', pinned: null }, [routeOf('new')]);
    expect([choice?.account.id, choice?.routeVersion]).toEqual(['mail', 0]);
  });

  test('chooses the first usable account of the order, and lists those before it as skipped', () => {
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
