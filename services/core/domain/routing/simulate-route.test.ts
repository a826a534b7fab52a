import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { FAILURE_CLASSES } from '../sending/failure.ts';
import { recomputeRoute } from './recompute-route.ts';
import { FAILOVER_CLASSES, ROUTE_STRATEGIES, type Route } from './route.ts';
import { createSimulator, SIMULATION_SAMPLES_MAX, type PastMessage } from './simulate-route.ts';

const IDS = ['a', 'b', 'c', 'd'] as const;
const accountsOf = (ids: readonly string[]) => ids.map((id) => ({ id, channel: 'sms' }));
const route: fc.Arbitrary<Route> = fc.record({
  channel: fc.constant('sms'),
  version: fc.constant(1),
  strategy: fc.constantFrom(...ROUTE_STRATEGIES),
  steps: fc
    .subarray([...IDS], { minLength: 1 })
    .map((ids) => ids.map((accountId) => ({ accountId, weight: 1 }))),
  failoverOn: fc.subarray([...FAILOVER_CLASSES]),
  maxWaitMs: fc.constant(null),
});
const message: fc.Arbitrary<PastMessage> = fc.record({
  id: fc.uuid(),
  channel: fc.constant('sms'),
  accountId: fc.constantFrom(...IDS),
  status: fc.constantFrom('sent', 'delivered', 'undelivered', 'failed', 'queued'),
  turns: fc.array(
    fc.oneof(
      fc.record({
        kind: fc.constant('refused' as const),
        accountId: fc.constantFrom(...IDS),
        isPermanent: fc.boolean(),
        class: fc.constantFrom(...FAILURE_CLASSES),
      }),
      fc.record({ kind: fc.constant('unanswered' as const), accountId: fc.constantFrom(...IDS) }),
    ),
    { maxLength: 6 },
  ),
});

test('the totals equal the sums of the single messages', () => {
  fc.assert(
    fc.property(
      route,
      fc.subarray([...IDS]),
      fc.array(message, { maxLength: 60 }),
      (draft, able, messages) => {
        const simulator = createSimulator(draft, accountsOf(able));
        messages.forEach(simulator.add);
        const result = simulator.result();
        const ends = messages.map((one) => recomputeRoute(one, draft, accountsOf(able)).accountId);
        const isMoved = (one: PastMessage, i: number) => ends[i] !== null && ends[i] !== one.accountId;

        expect(result.considered).toBe(messages.length);
        expect(result.unroutable).toBe(ends.filter((end) => end === null).length);
        expect(result.moved).toBe(messages.filter(isMoved).length);
        for (const id of IDS) {
          const had = messages.filter((one) => one.accountId === id);
          const shown = result.byAccount.find(({ accountId }) => accountId === id);
          expect(shown?.before ?? 0).toBe(had.length);
          expect(shown?.after ?? 0).toBe(ends.filter((end) => end === id).length);
          const of = (status: string) => had.filter((one) => one.status === status).length;
          const told = of('delivered') + of('undelivered');
          expect(shown?.deliveryRate ?? null).toBe(
            told === 0 ? null : Math.round((of('delivered') / told) * 10_000) / 10_000,
          );
        }
        const shownIds = result.byAccount.map(({ accountId }) => accountId);
        expect(shownIds).toEqual(expect.arrayContaining(draft.steps.map(({ accountId }) => accountId)));
        expect(result.moves.reduce((sum, one) => sum + one.messages, 0)).toBe(result.moved);
        for (const { messages: n } of result.excluded) expect(n).toBeLessThanOrEqual(messages.length);
        const notable = result.moved + result.unroutable;
        expect(result.samples).toHaveLength(Math.min(notable, SIMULATION_SAMPLES_MAX));
        for (const { before, after } of result.samples) expect(after).not.toBe(before);
      },
    ),
  );
});

test('skipped and failed accounts are listed with a reason and a number of messages', () => {
  const steps = ['a', 'b', 'c'].map((accountId) => ({ accountId, weight: 1 }));
  const failoverOn = ['provider_unavailable'] as const;
  const simulator = createSimulator(
    { channel: 'sms', version: 1, strategy: 'priority', steps, failoverOn, maxWaitMs: null },
    accountsOf(['b', 'c']),
  );
  const past = (id: string, accountId: string, ...refused: string[]): PastMessage => ({
    id,
    channel: 'sms',
    accountId,
    status: 'sent',
    turns: refused.map((of) => ({
      kind: 'refused',
      accountId: of,
      isPermanent: false,
      class: 'provider_unavailable',
    })),
  });
  simulator.add(past('3', 'c', 'b'));
  simulator.add(past('1', 'a'));
  simulator.add(past('2', 'a'));
  expect(simulator.result()).toMatchObject({
    considered: 3,
    moved: 2,
    moves: [{ from: 'a', to: 'b', messages: 2 }],
    excluded: [
      { accountId: 'a', reason: 'disabled', messages: 3 },
      { accountId: 'b', reason: 'provider_unavailable', messages: 1 },
    ],
    samples: [
      { id: '1', before: 'a', after: 'b' },
      { id: '2', before: 'a', after: 'b' },
    ],
  });
});

test('the most frequent moves and reasons come first, and the first moved messages are the samples', () => {
  const draft = { channel: 'sms', version: 1, strategy: 'priority', failoverOn: [] } as const;
  const simulator = createSimulator(
    {
      ...draft,
      steps: [
        { accountId: 'gone', weight: 1 },
        { accountId: 'd', weight: 1 },
      ],
    },
    accountsOf(['d']),
  );
  const froms = ['b', ...Array.from({ length: SIMULATION_SAMPLES_MAX }, () => 'a'), 'c', 'c'];
  for (const [n, accountId] of froms.entries())
    simulator.add({ id: String(n), channel: 'sms', accountId, status: 'sent', turns: [] });
  const { moves, samples } = simulator.result();
  expect(moves).toEqual([
    { from: 'a', to: 'd', messages: SIMULATION_SAMPLES_MAX },
    { from: 'c', to: 'd', messages: 2 },
    { from: 'b', to: 'd', messages: 1 },
  ]);
  expect(samples.map(({ id }) => Number(id))).toEqual(
    froms.slice(0, SIMULATION_SAMPLES_MAX).map((_, n) => n),
  );
});
