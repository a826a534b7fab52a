import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { failOver, moveOf, type FailedTry, type FailoverFacts } from './failover.ts';
import { FAILURE_CLASSES, type FailureClass } from '../sending/failure.ts';
import { FAILOVER_CLASSES, FAILOVER_DEFAULT, orderOf, type Route } from './route.ts';

const route = (...ids: readonly string[]): Route => ({
  channel: 'sms',
  version: 1,
  strategy: 'priority',
  steps: ids.map((accountId) => ({ accountId, weight: 1 })),
  failoverOn: FAILOVER_DEFAULT,
});
const facts = (overrides: Partial<FailoverFacts> = {}): FailoverFacts => ({
  messageId: 'm',
  accountId: 'a',
  route: route('a', 'b', 'c'),
  usable: ['a', 'b', 'c'],
  tried: [],
  ...overrides,
});
const transient = (of: FailureClass = 'provider_unavailable') => ({ isPermanent: false, class: of });
const permanent = { isPermanent: true, class: 'sender_rejected' } as const;
const tried = (accountId: string, refusal: Omit<FailedTry, 'accountId'> = transient()): FailedTry => ({
  accountId,
  ...refusal,
});

describe('a refusal', () => {
  test('moves the message to the next account of the route', () => {
    expect(failOver(transient(), facts())).toEqual({ kind: 'next', accountId: 'b', skipped: [] });
  });

  test('skips accounts that cannot be used, and lists them', () => {
    const decision = failOver(transient(), facts({ usable: ['a', 'c'] }));
    expect(decision).toEqual({
      kind: 'next',
      accountId: 'c',
      skipped: [{ accountId: 'b', reason: 'disabled' }],
    });
  });

  test.each(FAILURE_CLASSES.filter((one) => !(FAILOVER_DEFAULT as readonly string[]).includes(one)))(
    'for %s does not fail over',
    (of) => {
      expect(failOver(transient(of), facts())).toBeUndefined();
      expect(failOver({ isPermanent: true, class: of }, facts())).toBeUndefined();
    },
  );

  test.each(['invalid_recipient', 'content_rejected'] as const)(
    'for %s cannot be a failover class of a route',
    (of) => {
      expect(FAILOVER_CLASSES as readonly string[]).not.toContain(of);
    },
  );
});

describe('when all accounts have been tried', () => {
  test('the first account that may still accept the message is tried again', () => {
    const decision = failOver(transient(), facts({ accountId: 'c', tried: [tried('a'), tried('b')] }));
    expect(decision).toMatchObject({ kind: 'again', accountId: 'a', waitsFor: 'provider_unavailable' });
  });

  test('an account with a permanent refusal is not tried again', () => {
    const decision = failOver(
      transient(),
      facts({ accountId: 'c', tried: [tried('a', permanent), tried('b')] }),
    );
    expect(decision).toMatchObject({ kind: 'again', accountId: 'b' });
  });

  test('an account with a refused credential is waited for only if no other is left', () => {
    const last = facts({ accountId: 'c', tried: [tried('a', permanent), tried('b', permanent)] });
    expect(failOver(transient('auth_or_config'), last)).toMatchObject({
      kind: 'again',
      accountId: 'c',
      waitsFor: 'auth_or_config',
    });
    const other = facts({ accountId: 'c', tried: [tried('a', transient('auth_or_config')), tried('b')] });
    expect(failOver(transient('auth_or_config'), other)).toMatchObject({
      accountId: 'a',
      waitsFor: 'provider_unavailable',
    });
  });

  test('an untried account with a refused credential does not hide that the others are throttled', () => {
    const throttled = facts({
      route: { ...route('a', 'b', 'c'), failoverOn: FAILOVER_CLASSES },
      accountId: 'c',
      invalid: ['a'],
      tried: [tried('b', transient('provider_throttled'))],
    });
    expect(failOver(transient('provider_throttled'), throttled)).toEqual({
      kind: 'again',
      accountId: 'b',
      skipped: [{ accountId: 'a', reason: 'invalid' }],
      waitsFor: 'provider_throttled',
    });
    const alone = { ...throttled, tried: [tried('b', permanent)] };
    expect(failOver(permanent, alone)).toMatchObject({ accountId: 'a', waitsFor: 'auth_or_config' });
  });

  test('and each has refused permanently, none is left', () => {
    const decision = failOver(
      permanent,
      facts({ accountId: 'c', tried: [tried('a', permanent), tried('b', permanent)] }),
    );
    expect(decision).toMatchObject({ kind: 'none' });
  });

  test('an account that is no longer in the route is retried as usual', () => {
    const alone = facts({ accountId: 'z', route: route('a'), tried: [tried('a', permanent)] });
    expect(failOver(transient(), alone)).toMatchObject({ kind: 'again', accountId: 'z', skipped: [] });
    expect(failOver(permanent, alone)).toEqual({ kind: 'none', skipped: [] });
  });

  test('an account that has been disabled since its call is tried again only if no other is left', () => {
    const disabled = facts({ route: route('a', 'b'), usable: ['b'], tried: [tried('b')] });
    expect(failOver(transient(), disabled)).toMatchObject({ kind: 'again', accountId: 'b' });
    const alone = { ...disabled, tried: [tried('b', permanent)] };
    expect(failOver(transient(), alone)).toMatchObject({ kind: 'again', accountId: 'a' });
  });
});

describe('an account that asked in an earlier round not to be called yet', () => {
  const asking = (accountId: string): FailedTry => ({ ...tried(accountId), waitMs: 1_000, isEarlier: true });
  const passed = { accountId: 'b', reason: 'asked_to_wait' } as const;

  test('is passed over in this round', () => {
    expect(failOver(transient(), facts({ tried: [asking('b')] }))).toEqual({
      kind: 'next',
      accountId: 'c',
      skipped: [passed],
    });
    expect(failOver(transient(), facts({ accountId: 'c', tried: [asking('b'), tried('a')] }))).toEqual({
      kind: 'again',
      accountId: 'a',
      skipped: [passed],
      waitsFor: 'provider_unavailable',
    });
  });

  test('is called when no other account is left', () => {
    const left = facts({ accountId: 'c', tried: [tried('a', permanent), asking('b')] });
    expect(failOver(permanent, left)).toMatchObject({ kind: 'again', accountId: 'b' });
  });

  test('counts as one with a refused credential if it is one now', () => {
    const invalid = facts({ invalid: ['b'], tried: [asking('b')] });
    expect(failOver(transient(), invalid)).toMatchObject({
      accountId: 'c',
      skipped: [{ accountId: 'b', reason: 'invalid' }],
    });
  });
});

describe('a decision', () => {
  const skipped = [{ accountId: 'c', reason: 'disabled' }] as const;
  const at = (accountId: string) => ({ accountId, version: 1, skipped });

  test('for another account reroutes the message', () => {
    expect(moveOf({ accountId: 'b', skipped }, facts())).toEqual({ rerouted: at('b'), stayed: null });
  });

  test('for the same account, or for none, is stored only if others were skipped', () => {
    for (const to of [{ accountId: 'a' }, {}]) {
      expect(moveOf({ ...to, skipped }, facts())).toEqual({ rerouted: null, stayed: at('a') });
      expect(moveOf({ ...to, skipped: [] }, facts())).toEqual({ rerouted: null, stayed: null });
    }
  });
});

const ids = fc.uniqueArray(fc.constantFrom<string[]>('a', 'b', 'c', 'd', 'e'), { minLength: 1 });

describe('accounts that are skipped', () => {
  test('an account with a refused credential is called only if no other is left', () => {
    const invalid = ['b'];
    expect(failOver(transient(), facts({ invalid }))).toEqual({
      kind: 'next',
      accountId: 'c',
      skipped: [{ accountId: 'b', reason: 'invalid' }],
    });
    const last = facts({ accountId: 'c', invalid, tried: [tried('a')] });
    expect(failOver(transient(), last)).toEqual({
      kind: 'again',
      accountId: 'a',
      skipped: [{ accountId: 'b', reason: 'invalid' }],
      waitsFor: 'provider_unavailable',
    });
    const none = facts({ accountId: 'c', invalid, tried: [tried('a', permanent)] });
    expect(failOver(permanent, none)).toEqual({
      kind: 'again',
      accountId: 'b',
      skipped: [],
      waitsFor: 'auth_or_config',
    });
  });

  test('an account with a refused credential comes after a tried one, whatever their order', () => {
    const second = facts({ accountId: 'b', route: route('a', 'b'), invalid: ['a'] });
    expect(failOver(transient(), second)).toEqual({
      kind: 'again',
      accountId: 'b',
      skipped: [{ accountId: 'a', reason: 'invalid' }],
      waitsFor: 'provider_unavailable',
    });
  });

  test('an account that refused the message is not listed once it is no longer in the route', () => {
    const changed = facts({ route: route('a'), tried: [tried('z', permanent)] });
    expect(failOver(transient(), changed)).toMatchObject({ kind: 'again', accountId: 'a', skipped: [] });
  });

  test('a tried account that is no longer in the route is listed once all have been tried', () => {
    const changed = facts({
      accountId: 'b',
      route: route('b', 'c'),
      usable: ['a', 'b'],
      tried: [tried('a')],
    });
    expect(failOver(transient(), changed)).toEqual({
      kind: 'again',
      accountId: 'b',
      skipped: [
        { accountId: 'c', reason: 'disabled' },
        { accountId: 'a', reason: 'not_in_route' },
      ],
      waitsFor: 'provider_unavailable',
    });
  });

  test('each account of the route is tried, skipped with a reason, or next', () => {
    fc.assert(
      fc.property(
        fc.uuid(),
        ids,
        ids,
        ids,
        fc.boolean(),
        (messageId, inRoute, usable, invalid, isPermanent) => {
          const of = route(...inRoute);
          const [accountId = 'z'] = inRoute;
          const able = usable.filter((id) => id !== 'e');
          const decision = failOver(
            { isPermanent, class: 'provider_unavailable' },
            { messageId, accountId, route: of, usable: able, invalid, tried: [] },
          );
          if (decision === undefined) throw new Error('no decision');
          const { skipped } = decision;
          const next = decision.kind === 'none' ? undefined : decision.accountId;
          for (const { accountId: id, reason } of skipped)
            expect(reason).toBe(able.includes(id) ? 'invalid' : 'disabled');
          const passed = skipped.map((one) => one.accountId);
          expect(new Set(passed).size).toBe(passed.length);
          expect(passed).not.toContain(accountId);
          expect(passed).not.toContain(next);
          if (decision.kind === 'next') {
            expect(inRoute.slice(0, inRoute.indexOf(decision.accountId)).toSorted()).toEqual(
              [accountId, ...passed].toSorted(),
            );
          } else {
            expect(new Set([accountId, next, ...passed])).toEqual(new Set([...inRoute, accountId, next]));
          }
        },
      ),
    );
  });
});

const refusal = fc.record({ isPermanent: fc.boolean(), class: fc.constantFrom(...FAILOVER_DEFAULT) });

test('a message calls each account once per round, and never again after a permanent refusal', () => {
  fc.assert(
    fc.property(
      ids,
      ids,
      fc.constantFrom('priority', 'weighted'),
      fc.uuid(),
      fc.array(refusal, { minLength: 30, maxLength: 30 }),
      (inRoute, usable, strategy, messageId, answers) => {
        const of = { ...route(...inRoute), strategy } as Route;
        const able = [...orderOf(of, messageId)].filter((id) => usable.includes(id));
        let accountId = able[0];
        if (accountId === undefined) return;
        const refused = new Set<string>();
        let round: FailedTry[] = [];
        for (const answer of answers) {
          expect(refused.has(accountId)).toBe(false);
          expect(round.map((one) => one.accountId)).not.toContain(accountId);
          const permanents = [...refused].map((id) => tried(id, permanent));
          const decision = failOver(answer, {
            messageId,
            accountId,
            route: of,
            usable,
            tried: [...permanents, ...round],
          });
          if (answer.isPermanent) refused.add(accountId);
          else round.push(tried(accountId, answer));
          if (decision === undefined || decision.kind === 'none') {
            expect(refused.size).toBe(able.length);
            return;
          }
          expect(able).toContain(decision.accountId);
          if (decision.kind === 'again') {
            expect(new Set([...refused, ...round.map((one) => one.accountId)]).size).toBe(able.length);
            round = [];
          }
          ({ accountId } = decision);
        }
      },
    ),
  );
});
