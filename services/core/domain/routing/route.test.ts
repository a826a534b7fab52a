import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  FAILOVER_DEFAULT,
  orderOf,
  routeByAge,
  ROUTE_STEPS_MAX,
  STEP_WEIGHT_MAX,
  type Route,
} from './route.ts';

const steps = fc.uniqueArray(
  fc.record({ accountId: fc.uuid(), weight: fc.integer({ min: 1, max: STEP_WEIGHT_MAX }) }),
  { selector: ({ accountId }) => accountId, minLength: 1, maxLength: ROUTE_STEPS_MAX },
);
const route: fc.Arbitrary<Route> = fc.record({
  channel: fc.constant('sms'),
  version: fc.integer({ min: 1 }),
  strategy: fc.constantFrom('priority', 'weighted'),
  steps,
  failoverOn: fc.constant(FAILOVER_DEFAULT),
});
const weighted = (...weights: readonly number[]): Route => ({
  channel: 'sms',
  version: 3,
  strategy: 'weighted',
  steps: weights.map((weight, i) => ({ accountId: `${i}`, weight })),
  failoverOn: FAILOVER_DEFAULT,
});
const firstOf = (of: Route, messageId: string): string | undefined => [...orderOf(of, messageId)][0];

test('a message tries each account of the route once', () => {
  fc.assert(
    fc.property(route, fc.uuid(), (of, messageId) => {
      const tried = [...orderOf(of, messageId)];
      expect(tried.toSorted()).toEqual(of.steps.map(({ accountId }) => accountId).toSorted());
    }),
  );
});

test('by priority the order is that of the steps, for every message', () => {
  fc.assert(
    fc.property(route, fc.uuid(), (of, messageId) => {
      const order = [...orderOf({ ...of, strategy: 'priority' }, messageId)];
      expect(order).toEqual(of.steps.map(({ accountId }) => accountId));
    }),
  );
});

describe('by weight', () => {
  test('the same message and version have the same order anywhere', () => {
    fc.assert(
      fc.property(route, fc.uuid(), (of, messageId) => {
        const elsewhere = JSON.parse(JSON.stringify(of)) as Route;
        expect([...orderOf(elsewhere, messageId)]).toEqual([...orderOf(of, messageId)]);
      }),
    );
  });

  test('the order of given messages is stable across releases', () => {
    const of = weighted(5, 3, 2);
    const ids = ['b7e23ec2-9f0a-4b1c-8d2e-3f4a5b6c7d8e', '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10'];
    expect(ids.map((id) => [...orderOf(of, id)].join(''))).toEqual(['021', '102']);
  });

  test('another version of the route draws a new order', () => {
    const ids = Array.from({ length: 200 }, (_, i) => `message ${i}`);
    const moved = ids.filter(
      (id) => firstOf(weighted(1, 1), id) !== firstOf({ ...weighted(1, 1), version: 4 }, id),
    );
    expect(moved.length).toBeGreaterThan(50);
    expect(moved.length).toBeLessThan(150);
  });

  test.each([
    ['equal weights', [1, 1]],
    ['one in a hundred', [99, 1]],
    ['three of different weight', [700, 200, 100]],
    ['twenty', Array.from({ length: 20 }, (_, i) => i + 1)],
  ])('messages are spread in proportion: %s', (_name, weights) => {
    const messages = 20_000;
    const counts = new Map<string, number>();
    for (let i = 0; i < messages; i += 1) {
      const first = firstOf(weighted(...weights), `message ${i}`) as string;
      counts.set(first, (counts.get(first) ?? 0) + 1);
    }
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    for (const [i, weight] of weights.entries()) {
      const share = weight / total;
      // Five standard deviations: the hashes are fixed, so the test always passes or always fails.
      const margin = 5 * Math.sqrt(messages * share * (1 - share));
      expect(Math.abs((counts.get(`${i}`) ?? 0) - messages * share)).toBeLessThan(margin);
    }
  });

  test('the messages of an unusable account are spread over the others in proportion', () => {
    const of = weighted(600, 300, 100);
    const orders = Array.from({ length: 20_000 }, (_, i) => [...orderOf(of, `message ${i}`)]);
    const without = orders.map((order) => order.find((id) => id !== '0'));
    const ofSecond = without.filter((id) => id === '1').length / orders.length;
    expect(ofSecond).toBeCloseTo(0.75, 1);
  });
});

test('routeByAge returns the accounts of the channel from old to new', () => {
  const accounts = [
    { id: 'mail', channel: 'email' },
    { id: 'old', channel: 'sms' },
    { id: 'new', channel: 'sms' },
  ];
  const steps = ['old', 'new'].map((accountId) => ({ accountId, weight: 1 }));
  expect(routeByAge('sms', accounts)).toMatchObject({ version: 0, strategy: 'priority', steps });
});
