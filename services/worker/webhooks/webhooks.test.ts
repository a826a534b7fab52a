import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createExpectedWork } from '#core/domain/queue/expected-work.ts';
import type { HttpRequest, HttpResult } from '#core/domain/sending/http-exchange.ts';
import {
  ERROR,
  OK,
  TENANT,
  claimOf,
  endpointOf,
  hold,
  messageOf,
  scriptedWebhooks,
} from '#test/support/scripted-webhooks.ts';

const ASKS_FOR_A_WAIT: HttpResult = {
  kind: 'response',
  status: 503,
  headers: { 'retry-after': '60' },
  text: '',
};

describe('matching', () => {
  const tenants = Array.from({ length: 120 }, () => randomUUID());

  test('fails for a tenant after all others are matched, and the claimed events are called', async () => {
    const asked: string[] = [];
    const refused = new Error('no right to read');
    const s = scriptedWebhooks([], () => OK, {
      matchEvents: async (ids) => {
        asked.push(...ids);
        const claims = asked.length > 50 ? [] : [claimOf(endpointOf(), [1])];
        return {
          claims,
          isLeftDue: false,
          behind: [],
          missed: [],
          failures: asked.length > 50 ? [] : [refused],
        };
      },
    });
    s.webhooks.matchSoon(tenants);
    await expect.poll(() => s.failed).toEqual([expect.objectContaining({ errors: [refused] })]);
    expect(asked).toEqual(tenants);
    await expect.poll(() => s.calls.length).toBe(1);
  });

  test('fails if a whole batch fails, and the next run continues with the remaining tenants', async () => {
    const asked: string[] = [];
    const s = scriptedWebhooks([], () => OK, {
      matchEvents: async (ids) => {
        asked.push(...ids);
        if (asked.length <= 50) throw new Error('away');
        return { claims: [], isLeftDue: false, behind: [], missed: [], failures: [] };
      },
    });
    s.webhooks.matchSoon(tenants);
    await expect.poll(() => s.failed).toEqual([expect.objectContaining({ message: 'away' })]);
    await s.webhooks.match();
    expect(asked).toEqual(tenants);
  });
});

describe('concurrent calls', () => {
  test('are limited to twenty per endpoint and to the slots', async () => {
    const many = Array.from({ length: 100 }, (_, i) => i);
    const slow = hold();
    const one = scriptedWebhooks([claimOf(endpointOf(), many)], slow.answer);
    await one.webhooks.claim();
    await expect.poll(() => one.calls.length).toBe(20);
    slow.release();
    await expect.poll(() => one.completions.length).toBe(1);
    expect([one.calls.length, one.gauge.most]).toEqual([100, 20]);
    const slower = hold();
    const few = scriptedWebhooks(
      Array.from({ length: 4 }, () => claimOf(endpointOf({ tenantId: randomUUID() }), many)),
      slower.answer,
      { inFlightMax: 16 },
    );
    await few.webhooks.claim();
    // One share for each tenant, and one for the next tenant.
    await expect.poll(() => few.calls.length).toBe(12);
    slower.release();
    await expect.poll(() => few.completions.length).toBe(4);
    expect(few.gauge.most).toBeLessThanOrEqual(16);
    expect(few.calls).toHaveLength(400);
  });

  test.each([
    ['events that are new', { ageMs: 0, waitedMs: 0, events: 40, beforeRest: 20 }],
    [
      'old events of an endpoint that was paused',
      { ageMs: 86_400_000, waitedMs: 0, events: 40, beforeRest: 20 },
    ],
    ['late events, but for its limit', { ageMs: 120_000, waitedMs: 120_000, events: 60, beforeRest: 40 }],
    [
      'late events of an endpoint with a pace of its own, but for its limit',
      { ageMs: 120_000, waitedMs: 120_000, events: 60, beforeRest: 40, isPaced: true },
    ],
  ])('of a tenant with surplus rest while messages are sent, for %s', async (_, late) => {
    const isPaced = 'isPaced' in late;
    const loud = endpointOf({ tenantId: randomUUID(), url: 'https://loud.example/', ordered: isPaced });
    const quiet = endpointOf({ tenantId: randomUUID(), url: 'https://quiet.example/' });
    const isLoud = ({ url }: HttpRequest) => url.includes('loud');
    const many = Array.from({ length: late.events }, (_none, i) => i);
    const surplus = claimOf(loud, many, { isPaced, waitsSince: Date.now() - late.waitedMs });
    const at = new Date(Date.now() - late.ageMs);
    const events = surplus.events.map((one) => ({ ...one, event: { ...one.event, at } }));
    const s = scriptedWebhooks([{ ...surplus, events }], () => OK, {
      isSending: true,
      expected: {
        ...createExpectedWork(),
        withSurplus: () => new Set([loud.tenantId]),
        use(calls) {
          // Takes as long as beginning many calls, so that a rest after them lasts a second.
          for (const from = performance.now(); performance.now() - from < 200;);
          return calls.get(loud.tenantId) ?? 0;
        },
      },
    });
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length, { timeout: 900 }).toBe(late.beforeRest);
    s.left.push(claimOf(quiet, [1]));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(2);
    expect(s.calls.findIndex((call) => !isLoud(call))).toBe(late.beforeRest);
    expect(s.calls).toHaveLength(late.events + 1);
  });

  test('of an endpoint that hangs do not delay other endpoints', async () => {
    const many = Array.from({ length: 60 }, (_, i) => i);
    const dead = endpointOf({ url: 'https://dead.example/' });
    const hanging = hold(() => ({ kind: 'ambiguous', code: 'timeout' }));
    const fine = claimOf(endpointOf(), many);
    const s = scriptedWebhooks([claimOf(dead, many), claimOf(dead, many), fine], (call) =>
      call.url.includes('dead') ? hanging.answer(call) : OK,
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.map(({ claim }) => claim.dueId)).toEqual([fine.dueId]);
    hanging.release();
    // Four failures hold the endpoint: events whose calls had not begun by then go back uncalled.
    await expect.poll(() => s.completions.length).toBe(3);
    expect(s.calls.filter(({ url }) => url.includes('dead'))).toHaveLength(20);
    const back = s.completions.slice(1);
    expect(back.flatMap(({ again }) => again)).toHaveLength(20);
    expect(back.flatMap(({ uncalled }) => uncalled).toSorted((a, b) => a.first - b.first)).toEqual([
      { first: 1, last: 60 },
      { first: 21, last: 60 },
    ]);
    expect(s.moved).toEqual(['failing']);
  });

  test.each([1, 2, 5])(
    'of %d tenants with hundreds of endpoints that hang do not delay other tenants',
    async (tenants) => {
      const hanging = Array.from({ length: tenants }, () => randomUUID()).flatMap((tenantId) =>
        Array.from({ length: 300 }, () => claimOf(endpointOf({ tenantId }), Array<number>(5).fill(1))),
      );
      const quiet = Array.from({ length: 20 }, () => claimOf(endpointOf({ tenantId: randomUUID() }), [2]));
      const slow = hold();
      const s = scriptedWebhooks([...hanging, ...quiet], (call) =>
        messageOf(call) === 1 ? slow.answer(call) : OK,
      );
      // The database has tenants in an order of its own, so another query finds others first.
      for (let queries = 0; queries < 12; queries++) await s.webhooks.claim();
      await expect.poll(() => s.calls.filter((call) => messageOf(call) === 2)).toHaveLength(20);
      slow.release();
      await expect.poll(() => s.completions.length).toBe(tenants * 300 + 20);
    },
  );

  test('continue after a change, whatever an earlier address still answers', async () => {
    const before = endpointOf({ url: 'https://before.example/' });
    const after = { ...before, url: 'https://after.example/', version: 2 };
    const [old, slow] = [hold(() => ASKS_FOR_A_WAIT), hold()];
    const s = scriptedWebhooks([claimOf(before, [1])], (call) => {
      if (call.url === before.url) return old.answer(call);
      return messageOf(call) === 2 ? ERROR : slow.answer(call);
    });
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(1);
    s.webhooks.endpointChanged(before.id, 'secrets');
    s.left.push(claimOf(after, [2]));
    await s.webhooks.claim();
    await expect.poll(() => s.health.get(before.id)?.failures).toBe(1);
    s.left.push(claimOf(after, [3]));
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(3);
    old.release();
    await expect.poll(() => s.completions.length).toBe(2);
    s.left.push(claimOf(after, [4]));
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(4);
    slow.release();
    await expect.poll(() => s.completions.length).toBe(4);
  });

  test('to an endpoint of which the results cannot be recorded are not repeated after each lease', async () => {
    const refused = Object.assign(new Error('refused'), { name: 'PostgresError', code: '22P05' });
    const recorded = Promise.reject(refused);
    recorded.catch(() => undefined);
    const [one, other] = [endpointOf(), endpointOf({ url: 'https://other.example/' })];
    const s = scriptedWebhooks([claimOf(one, [1])], () => ERROR, { recorded });
    await s.webhooks.claim();
    await expect.poll(() => s.failed).toEqual([refused, refused, refused]);
    s.left.push(claimOf(one, [1]), claimOf(other, [2]));
    await s.webhooks.claim();
    await expect.poll(() => s.calls.map(({ url }) => url)).toEqual([one.url, other.url]);
    expect(s.left.map(({ endpoint }) => endpoint)).toEqual([one]);
  });

  test('end and are recorded when the worker stops, and no more are begun', async () => {
    const many = Array.from({ length: 50 }, (_, i) => i);
    const slow = hold();
    const s = scriptedWebhooks([claimOf(endpointOf(), many)], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(20);
    const stopped = s.webhooks.stop();
    slow.release();
    await stopped;
    expect(s.calls).toHaveLength(20);
    const [completion] = s.completions;
    expect(completion?.attempts).toHaveLength(20);
    expect(completion).toMatchObject({ again: [], uncalled: [{ first: 21, last: 50 }] });
  });
});

test("an endpoint's remaining events are claimed as soon as it has capacity, without a new scan", async () => {
  const endpoint = endpointOf();
  const claims = Array.from({ length: 12 }, () => claimOf(endpoint, [1, 2, 3]));
  const s = scriptedWebhooks(claims, () => OK);
  await s.webhooks.claim();
  await expect.poll(() => s.completions.length).toBe(12);
  expect(s.calls).toHaveLength(36);
});

test.each([
  ['is taken while the calls of a full claim are in progress', 20, 0],
  ['waits until a small claim ends', 2, 1],
])('the next claim of an endpoint %s', async (_, size, left) => {
  const { answer, release } = hold();
  const endpoint = endpointOf();
  const messages = Array.from({ length: size }, (_none, n) => n + 1);
  const s = scriptedWebhooks([claimOf(endpoint, messages), claimOf(endpoint, messages)], answer);
  await s.webhooks.claim();
  await expect.poll(() => s.calls.length).toBe(size);
  await expect.poll(() => s.left.length).toBe(left);
  expect(s.completions).toEqual([]);
  release();
  await expect.poll(() => s.completions.length).toBe(2);
});

test('no more claims are taken than can be recorded', async () => {
  const recording = Promise.withResolvers<void>();
  const endpoints = Array.from({ length: 100 }, () => endpointOf({ tenantId: randomUUID() }));
  const claims = endpoints.flatMap((endpoint) => Array.from({ length: 10 }, () => claimOf(endpoint, [1])));
  const s = scriptedWebhooks(claims, () => OK, { recorded: recording.promise });
  await s.webhooks.claim();
  for (let look = 0; look < 20; look++) {
    await s.webhooks.claim();
    await new Promise(setImmediate);
  }
  const taken = claims.length - s.left.length;
  expect(taken).toBeGreaterThan(100);
  expect(taken).toBeLessThanOrEqual(256);
  recording.resolve();
  await expect.poll(() => s.completions.length, { timeout: 10_000 }).toBe(claims.length);
});

test.each([
  ['all of its events if calls are short', 0, 0],
  ['none of its further events if calls are slow', 300, 5],
])('while a thousand events of a tenant wait in memory, a worker claims %s', async (_, ms, left) => {
  const messages = Array.from({ length: 100 }, (_none, n) => n);
  const [heavy, other] = [randomUUID(), randomUUID()];
  const some = (n: number, tenantId: string) =>
    Array.from({ length: n }, () => claimOf(endpointOf({ tenantId }), messages));
  const answer = () => new Promise<HttpResult>((resolve) => setTimeout(() => resolve(OK), ms));
  const s = scriptedWebhooks(some(10, heavy), answer, { inFlightMax: 2 });
  await s.webhooks.claim();
  await expect.poll(() => s.calls.length, { timeout: 10_000 }).toBeGreaterThan(12);
  s.left.push(...some(5, heavy), ...some(1, other));
  await s.webhooks.claim();
  expect(s.left.map(({ endpoint }) => endpoint.tenantId)).toEqual(Array(left).fill(heavy));
});

test('events of an endpoint found behind are matched and called at once', async () => {
  const s = scriptedWebhooks([claimOf(endpointOf(), [1])], () => OK);
  await s.webhooks.findBehind();
  await expect.poll(() => s.completions.length).toBe(1);
});

test('an endpoint that another worker had locked is matched again after a short delay', async () => {
  const s = scriptedWebhooks([claimOf(endpointOf(), [1])], () => OK);
  s.missed.push(TENANT, TENANT);
  s.webhooks.matchSoon([TENANT]);
  await expect.poll(() => s.completions.length).toBe(1);
  expect(s.delays).toEqual([undefined, 50, 100]);
});
