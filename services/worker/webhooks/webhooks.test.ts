import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { EndpointHealth } from '#core/domain/endpoint-state.ts';
import { createExpectedWork, type ExpectedWork } from '#core/domain/expected-work.ts';
import type { HttpRequest, HttpResult } from '#core/domain/http-exchange.ts';
import type { TenantId } from '#core/domain/ids.ts';
import { TOLD_EVENT_SCHEMAS, type StoredEvent } from '#core/domain/event-envelope.ts';
import type { DeliveryClaim, WebhookEndpoint } from '#core/store/delivery-claim.ts';
import type { DeliveryCompletion, WebhookStore } from '#core/store/webhook-deliveries.ts';
import { createEndpointSecrets } from './endpoint-secrets.ts';
import { createWebhooks } from './webhooks.ts';

const SECRET = `whsec_${randomBytes(32).toString('base64')}`;
const TENANT = randomUUID() as TenantId;
const FINE: EndpointHealth = {
  status: 'active',
  statusReason: null,
  failures: 0,
  failingSince: null,
  callAt: null,
};
const OK: HttpResult = { kind: 'response', status: 200, headers: {}, text: '' };
const ERROR: HttpResult = { kind: 'response', status: 500, headers: {}, text: 'no' };

function endpointOf(more: Partial<WebhookEndpoint> = {}): WebhookEndpoint {
  return {
    id: randomUUID(),
    number: 1,
    tenantId: TENANT,
    url: 'https://hooks.example/in',
    eventTypes: ['*'],
    finalOnly: false,
    channels: [],
    tags: [],
    headers: {},
    ordered: false,
    maskRecipients: false,
    signatures: ['v1'],
    status: 'active',
    failures: 0,
    failingSince: null,
    version: 1,
    secret: 'secret',
    previousSecret: null,
    signingKey: null,
    clientCertificate: null,
    ...more,
  };
}

function eventOf(message = 1): StoredEvent {
  return {
    seq: 7,
    id: randomUUID(),
    type: 'message.queued',
    at: new Date(),
    details: null,
    message: {
      sequence: 1,
      id: randomUUID(),
      test: false,
      externalId: null,
      channel: 'sms',
      to: '+15551230042',
      category: 'transactional',
      metadata: { message },
      tags: null,
      attempt: null,
      accountId: null,
      provider: null,
      isFinal: false,
    },
  };
}

let claimNumber = 0;
/** @param messages the claim contains one event of each. */
function claimOf(
  endpoint: WebhookEndpoint,
  messages: readonly number[],
  more: Partial<DeliveryClaim> = {},
): DeliveryClaim {
  return {
    dueId: ++claimNumber,
    claim: claimNumber,
    endpoint,
    purgeOn: '2026-02-02',
    attempts: 0,
    manual: false,
    events: messages.map((messageSeq, i) => ({ seq: i + 1, event: eventOf(messageSeq), messageSeq })),
    blocked: new Set(),
    leaseEndsAt: performance.now() + 60_000,
    ...more,
  };
}

type Answer = (request: HttpRequest) => HttpResult | Promise<HttpResult>;

/** Creates the worker's webhooks with a store that hands out these claims and a receiver that gives this answer. */
function setup(
  claims: readonly DeliveryClaim[],
  answer: Answer,
  more: {
    inFlightMax?: number;
    allowHttp?: boolean;
    isSending?: boolean;
    expected?: ExpectedWork;
    /** Until then, nothing is recorded. */
    recorded?: Promise<void>;
  } & Partial<Pick<WebhookStore, 'matchEvents'>> = {},
) {
  const left = [...claims];
  const completions: DeliveryCompletion[] = [];
  const calls: HttpRequest[] = [];
  const failed: unknown[] = [];
  const health = new Map<string, EndpointHealth>();
  const moved: string[] = [];
  const vault = { isAway: false, asked: 0 };
  const gauge = { now: 0, most: 0 };
  const tests: { id: string; endpoint: WebhookEndpoint }[] = [];
  const tested: unknown[] = [];
  const versions = new Map<string, number>();
  const missed: string[] = [];
  const delays: (number | undefined)[] = [];
  const store: WebhookStore = {
    matchEvents:
      more.matchEvents ??
      (async () => {
        const none = { isLeftDue: false, behind: [], failures: [] };
        return missed.length > 0
          ? { ...none, claims: [], missed: missed.splice(0, 1) }
          : { ...none, claims: left.splice(0), missed: [] };
      }),
    endpointsBehind: async () => ({ tenantIds: [TENANT], next: null }),
    tenantsBehind: async () => ({ tenantIds: [], newestPass: 1, isWhole: false }),
    claimDeliveries: async ({ claimsMax, tenantClaimsMax, busy }) => {
      const taken = new Map<string, number>();
      const idle = left.filter(({ endpoint: { id, tenantId } }) => {
        const its = (taken.get(tenantId) ?? 0) + 1;
        if (busy.includes(id) || busy.includes(tenantId) || its > tenantClaimsMax) return false;
        taken.set(tenantId, its);
        return true;
      });
      // One claim per endpoint and query, as in the database.
      const free = idle
        .filter((one, i) => idle.findIndex(({ endpoint }) => endpoint.id === one.endpoint.id) === i)
        .slice(0, claimsMax);
      for (const one of free) left.splice(left.indexOf(one), 1);
      return { claims: free, next: null, failures: [] };
    },
    completeDeliveries: async (some) => {
      await more.recorded;
      completions.push(...some);
      return { stale: 0 };
    },
    changeEndpoint: async (id, _version, decide) => {
      const now = health.get(id) ?? FINE;
      const next = decide(now) ?? now;
      health.set(id, next);
      return next;
    },
    changedEndpoints: async (known) =>
      known.flatMap(({ id, version }) => (versions.get(id) === version ? [] : [id])),
    takeEndpointTests: async () => tests.splice(0),
    storeEndpointTest: async (_id, result) => void tested.push(result),
    oldestUnmatchedSeconds: async () => 0,
    oldestDueSeconds: async () => 0,
    endpointCounts: async () => [],
  };
  const webhooks = createWebhooks({
    store,
    secrets: createEndpointSecrets({
      decrypter: {
        decrypt: async () => {
          vault.asked++;
          if (vault.isAway) throw new Error('Vault is away');
          return Buffer.from(SECRET);
        },
      },
      entriesMax: 1_000,
      ttlMs: 60_000,
    }),
    settings: { inFlightMax: more.inFlightMax ?? 64, deadlineMs: 1_000, leaseMs: 60_000 },
    allowHttp: more.allowHttp ?? false,
    isSending: () => more.isSending ?? false,
    expected: more.expected ?? createExpectedWork(),
    http: async (request) => {
      calls.push(request);
      gauge.most = Math.max(gauge.most, ++gauge.now);
      const result = await answer(request);
      gauge.now--;
      return result;
    },
    events: {
      webhookCalled: () => undefined,
      endpointMoved: (_endpoint, { status }) => void moved.push(status),
      eventUnreadable: (_endpoint, _id, error) => void failed.push(error),
      deliveriesDelayed: (error) => void failed.push(error),
      taskFailed: (_task, error) => void failed.push(error),
    },
    onDue: () => void webhooks.claim(),
    onBehind: (delayMs) => {
      delays.push(delayMs);
      void webhooks.match().catch((error: unknown) => failed.push(error));
    },
  });
  return {
    webhooks,
    left,
    completions,
    calls,
    failed,
    health,
    moved,
    vault,
    gauge,
    tests,
    tested,
    versions,
    missed,
    delays,
  };
}

const dataOf = ({ body }: HttpRequest) =>
  (JSON.parse(String(body)) as { data: { seq: number; to: string; metadata: { message: number } } }).data;
const messageOf = (request: HttpRequest): number => dataOf(request).metadata.message;

/** Holds all answers until it is released, and answers at once afterwards. */
function hold(answer: Answer = () => OK): { readonly answer: Answer; release(): void } {
  const held = Promise.withResolvers<void>();
  return {
    answer: async (request) => {
      await held.promise;
      return answer(request);
    },
    release: held.resolve,
  };
}

describe('matching', () => {
  const tenants = Array.from({ length: 120 }, () => randomUUID());

  test('fails where a tenant could not be matched, once all others are, and what was claimed is called', async () => {
    const asked: string[] = [];
    const refused = new Error('no right to read');
    const s = setup([], () => OK, {
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

  test('fails where nobody could be matched, and goes on with those that it has not come to', async () => {
    const asked: string[] = [];
    const s = setup([], () => OK, {
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

describe('a claimed event', () => {
  test('is posted once, signed over its very bytes, with the number of the endpoint’s feed', async () => {
    const endpoint = endpointOf({ headers: { 'x-shop': '1' } });
    const s = setup([claimOf(endpoint, [1, 2])], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls.map((call) => dataOf(call).seq)).toEqual([1, 2]);
    const [call] = s.calls;
    expect(call).toMatchObject({ method: 'POST', url: endpoint.url, isTenantHost: true });
    const headers = call?.headers ?? {};
    expect(headers).toMatchObject({ 'x-shop': '1', 'content-type': 'application/json' });
    const signed = Buffer.concat([
      Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.`),
      call?.body as Buffer,
    ]);
    const key = Buffer.from(SECRET.slice('whsec_'.length), 'base64');
    expect(headers['webhook-signature']).toBe(
      `v1,${createHmac('sha256', key).update(signed).digest('base64')}`,
    );
    expect(s.completions[0]).toMatchObject({
      attempts: [
        { seq: 1, attempt: 1, status: 200, error: null, succeeded: true },
        { seq: 2, attempt: 1, status: 200, error: null, succeeded: true },
      ],
      again: [],
    });
    expect([s.failed, s.health.size]).toEqual([[], 0]);
  });

  test('is posted to the URL as a request writes it', async () => {
    const s = setup([claimOf(endpointOf({ url: 'https://hooks.example?to=日本' }), [1])], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls[0]?.url).toBe('https://hooks.example/?to=%E6%97%A5%E6%9C%AC');
  });

  test('is signed with the secrets of its own claim, while another one of the endpoint is under way', async () => {
    const former = endpointOf({ previousSecret: 'former' });
    const first = Promise.withResolvers<HttpResult>();
    const claims = [claimOf(former, [1]), claimOf({ ...former, previousSecret: null }, [2])];
    const s = setup(claims, (request) => (messageOf(request) === 1 ? first.promise : OK));
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(1);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.map(messageOf)).toEqual([1, 2]);
    first.resolve(OK);
    const signatures = s.calls.map(({ headers }) => String(headers?.['webhook-signature']).split(' ').length);
    expect(signatures).toEqual([2, 1]);
  });

  test('leaves no part of a secret in what is kept of an answer, however often that repeats it', async () => {
    const token = randomBytes(500).toString('hex');
    const text = `${'x'.repeat(100)}${token}${'y'.repeat(300)}${token}`;
    const s = setup([claimOf(endpointOf({ headers: { authorization: token } }), [1])], () => ({
      ...ERROR,
      text,
    }));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    const [attempt] = s.completions[0]?.attempts ?? [];
    expect(attempt?.answer).toContain('[redacted]');
    expect(attempt?.answer).not.toContain(token.slice(0, 20));
  });

  test('leaves an answer without the values of the query of its URL, which may be secrets', async () => {
    const token = randomBytes(12).toString('hex');
    const url = `https://hooks.example/in?token=${token}&to=shop&sig=a%20long%20one`;
    const text = `Cannot POST ${url}: no shop for "a long one"`;
    const s = setup([claimOf(endpointOf({ url }), [1])], () => ({ ...ERROR, text }));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.completions[0]?.attempts[0]?.answer).toBe(
      'Cannot POST https://hooks.example/in?token=[redacted]&to=shop&sig=[redacted]: no shop for "[redacted]"',
    );
  });

  test('tells a masked recipient where the endpoint wants that, and the very one to another endpoint', async () => {
    const claim = claimOf(endpointOf({ maskRecipients: true }), [1]);
    const other = { ...claimOf(endpointOf(), []), events: claim.events };
    const s = setup([claim, other], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(2);
    expect(s.calls.map((call) => dataOf(call).to).toSorted()).toEqual(['+***42', '+15551230042']);
  });

  test('that fails is due again by itself in five seconds or so, and the others are done with', async () => {
    const s = setup([claimOf(endpointOf(), [1, 2, 3])], (call) => (messageOf(call) === 2 ? ERROR : OK));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    const { attempts, again } = s.completions[0] ?? { attempts: [], again: [] };
    expect(attempts).toHaveLength(3);
    expect(attempts.find(({ seq }) => seq === 2)).toMatchObject({
      succeeded: false,
      status: 500,
      answer: 'no',
    });
    expect(again).toMatchObject([{ seq: 2, attempts: 1, messageSeq: null }]);
    const failed = attempts.find(({ seq }) => seq === 2);
    const inMs = Number(again[0]?.dueAt) - Number(failed?.at) - (failed?.durationMs ?? 0);
    expect(inMs).toBeGreaterThan(3_000);
    expect(inMs).toBeLessThan(7_000);
  });

  test.each<[name: string, more: Partial<DeliveryClaim>]>([
    ['for the tenth time', { attempts: 9 }],
    ['that a person asked for', { attempts: 3, manual: true }],
  ])('that fails %s is given up', async (_, more) => {
    const s = setup([claimOf(endpointOf(), [1], more)], () => ERROR);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.completions[0]?.attempts).toMatchObject([
      { attempt: (more.attempts ?? 0) + 1, succeeded: false },
    ]);
    expect(s.completions[0]?.again).toEqual([]);
  });

  test('is a failure where the answer leads elsewhere, and nobody goes there', async () => {
    const moved: HttpResult = {
      kind: 'response',
      status: 302,
      headers: { location: 'https://x.example' },
      text: '',
    };
    const s = setup([claimOf(endpointOf(), [1])], () => moved);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.completions[0]?.attempts).toMatchObject([{ succeeded: false, status: 302 }]);
    expect(s.calls).toHaveLength(1);
  });

  test('leaves an answer without secrets and recipients, of a thousand characters at most', async () => {
    const endpoint = endpointOf({ headers: { authorization: 'Bearer h3ader-value' } });
    const text = `${SECRET} Bearer h3ader-value +15551230042 ${'x'.repeat(5_000)}`;
    const s = setup([claimOf(endpoint, [1])], () => ({ ...OK, text }));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    const answer = s.completions[0]?.attempts[0]?.answer ?? '';
    expect(answer).toMatch(/^\[redacted\] \[redacted\] \[redacted\] x+$/);
    expect(answer).toHaveLength(1_024);
  });

  test('is not sent without TLS, unless the operator allows it', async () => {
    const url = 'http://hooks.example/in';
    const refused = setup([claimOf(endpointOf({ url }), [1])], () => OK);
    await refused.webhooks.claim();
    await expect.poll(() => refused.completions.length).toBe(1);
    expect(refused.completions[0]?.attempts).toMatchObject([{ succeeded: false, error: 'https_required' }]);
    expect(refused.calls).toEqual([]);
    const allowed = setup([claimOf(endpointOf({ url }), [1])], () => OK, { allowHttp: true });
    await allowed.webhooks.claim();
    await expect.poll(() => allowed.calls.length).toBe(1);
  });

  test('waits while Vault gives no secret, without an attempt', async () => {
    const s = setup([claimOf(endpointOf(), [1])], () => OK);
    s.vault.isAway = true;
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.completions[0]).toMatchObject({ attempts: [], again: [], uncalled: [{ first: 1, last: 1 }] });
    expect(s.calls).toEqual([]);
    s.vault.isAway = false;
    const { endpoint } = s.completions[0]?.claim ?? claimOf(endpointOf(), []);
    s.left.push(claimOf(endpoint, [1]));
    // Its events are not claimed again at once.
    await s.webhooks.claim();
    expect(s.completions.length).toBe(1);
    await expect
      .poll(async () => {
        await s.webhooks.claim();
        return s.completions[1]?.attempts;
      })
      .toMatchObject([{ attempt: 1, succeeded: true }]);
  });

  test('of many tenants without a secret take no room from one whose secret is known', async () => {
    const known = endpointOf({ tenantId: randomUUID() });
    const s = setup([claimOf(known, [1])], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(1);
    s.vault.isAway = true;
    s.left.push(...Array.from({ length: 300 }, () => claimOf(endpointOf({ tenantId: randomUUID() }), [1])));
    await expect
      .poll(async () => {
        await s.webhooks.claim();
        return s.completions.length;
      })
      .toBe(301);
    s.left.push(claimOf(known, [2]));
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(2);
  });

  test('is not called for once it was paused between the claim and the reading of its settings', async () => {
    const s = setup([claimOf(endpointOf({ status: 'paused' }), [1])], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls).toEqual([]);
    expect(s.completions[0]).toMatchObject({ attempts: [], uncalled: [{ first: 1, last: 1 }] });
  });

  test('goes out with none of the settings that a later claim shows to be replaced', async () => {
    const slow = hold();
    const many = Array.from({ length: 60 }, (_, i) => i);
    const before = endpointOf();
    const s = setup([claimOf(before, many)], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(20);
    s.left.push(claimOf({ ...before, version: 2, maskRecipients: true }, [100]));
    await s.webhooks.claim();
    slow.release();
    await expect.poll(() => s.completions.length).toBe(2);
    expect(s.calls.slice(20).map((call) => dataOf(call).to)).toEqual(['+***42']);
    expect(s.completions.map(({ uncalled }) => uncalled)).toContainEqual([{ first: 21, last: 60 }]);
  });

  test('is not called for where the call could outlive the lease', async () => {
    const s = setup([claimOf(endpointOf(), [1], { leaseEndsAt: performance.now() + 2_000 })], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls).toEqual([]);
    expect(s.completions[0]).toMatchObject({ attempts: [], again: [], uncalled: [{ first: 1, last: 1 }] });
  });
});

describe('calls at once', () => {
  test('are no more than an endpoint’s twenty, and no more than there are slots', async () => {
    const many = Array.from({ length: 100 }, (_, i) => i);
    const slow = hold();
    const one = setup([claimOf(endpointOf(), many)], slow.answer);
    await one.webhooks.claim();
    await expect.poll(() => one.calls.length).toBe(20);
    slow.release();
    await expect.poll(() => one.completions.length).toBe(1);
    expect([one.calls.length, one.gauge.most]).toEqual([100, 20]);
    const slower = hold();
    const few = setup(
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

  test('beyond what is expected rest while messages are sent, and nobody else’s do', async () => {
    const loud = endpointOf({ tenantId: randomUUID(), url: 'https://loud.example/' });
    const quiet = endpointOf({ tenantId: randomUUID(), url: 'https://quiet.example/' });
    const isLoud = ({ url }: HttpRequest) => url.includes('loud');
    const many = Array.from({ length: 40 }, (_, i) => i);
    const claims = [claimOf(loud, many), claimOf(quiet, [1])];
    const s = setup(claims.slice(0, 1), () => OK, {
      isSending: true,
      expected: {
        ...createExpectedWork(),
        behind: () => new Set([loud.tenantId]),
        use(calls) {
          // Takes as long as beginning many calls.
          for (const from = performance.now(); performance.now() - from < 100;);
          return calls.get(loud.tenantId) ?? 0;
        },
      },
    });
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(20);
    s.left.push(...claims.slice(1));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(2);
    expect(s.calls.findIndex((call) => !isLoud(call))).toBe(20);
    expect(s.calls).toHaveLength(41);
  });

  test('of an endpoint that hangs hold up no other one', async () => {
    const many = Array.from({ length: 60 }, (_, i) => i);
    const dead = endpointOf({ url: 'https://dead.example/' });
    const hanging = hold(() => ({ kind: 'ambiguous', code: 'timeout' }));
    const fine = claimOf(endpointOf(), many);
    const s = setup([claimOf(dead, many), claimOf(dead, many), fine], (call) =>
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

  test('of a tenant with very many endpoints that hang hold up no other tenant', async () => {
    const loud = randomUUID();
    const hanging = Array.from({ length: 300 }, () =>
      claimOf(endpointOf({ tenantId: loud }), Array<number>(5).fill(1)),
    );
    const quiet = Array.from({ length: 20 }, () => claimOf(endpointOf({ tenantId: randomUUID() }), [2]));
    const slow = hold();
    const s = setup([...hanging, ...quiet], (call) => (messageOf(call) === 1 ? slow.answer(call) : OK));
    await s.webhooks.claim();
    await expect.poll(() => s.calls.filter((call) => messageOf(call) === 2)).toHaveLength(20);
    slow.release();
    await expect.poll(() => s.completions.length).toBe(320);
  });

  test('end and are recorded when the worker stops, and none is begun any more', async () => {
    const many = Array.from({ length: 50 }, (_, i) => i);
    const slow = hold();
    const s = setup([claimOf(endpointOf(), many)], slow.answer);
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

describe('an ordered endpoint', () => {
  test('is told of a message’s events one after the other, and of several messages at once', async () => {
    const slow = hold();
    const s = setup([claimOf(endpointOf({ ordered: true }), [1, 1, 2, 1, 2, 3])], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(3);
    slow.release();
    await expect.poll(() => s.completions.length).toBe(1);
    const seqsOf = (message: number) =>
      s.calls.filter((call) => messageOf(call) === message).map((call) => dataOf(call).seq);
    expect([seqsOf(1), seqsOf(2), seqsOf(3)]).toEqual([[1, 2, 4], [3, 5], [6]]);
    expect(s.gauge.most).toBe(3);
  });

  test('is not told of later events of a message before an earlier one that failed', async () => {
    const s = setup([claimOf(endpointOf({ ordered: true }), [1, 1, 2, 1])], (call) =>
      dataOf(call).seq === 1 ? ERROR : OK,
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(new Set(s.calls.map((call) => dataOf(call).seq))).toEqual(new Set([1, 3]));
    expect(s.calls).toHaveLength(2);
    expect(s.completions[0]?.again).toMatchObject([
      { seq: 1, attempts: 1, messageSeq: 1 },
      { seq: 2, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
      { seq: 4, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
    ]);
    expect(s.completions[0]?.again[0]?.dueAt).toBeInstanceOf(Date);
  });

  test('that was changed gives back what nobody called as it came, but for what waits for a failure', async () => {
    const endpoint = endpointOf({ ordered: true });
    const slow = hold((call) => (messageOf(call) === 1 ? ERROR : OK));
    const s = setup([claimOf(endpoint, [1, 1, 2, 1, 2, 3])], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(3);
    s.webhooks.endpointChanged(endpoint.id, 'settings');
    slow.release();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls.map((call) => dataOf(call).seq)).toEqual([1, 3, 6]);
    expect(s.completions[0]?.again).toMatchObject([
      { seq: 1, attempts: 1, messageSeq: 1 },
      { seq: 2, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
      { seq: 4, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
    ]);
    expect(s.completions[0]?.uncalled).toEqual([{ first: 5, last: 5 }]);
  });

  test('is told of a message’s events in order across claims, and of none behind one that failed', async () => {
    const endpoint = endpointOf({ ordered: true });
    const claims = [
      [1, 2],
      [1, 3],
      [2, 1],
    ].map(([a = 0, b = 0], nth) => {
      const claim = claimOf(endpoint, [a, b]);
      return { ...claim, events: claim.events.map((told) => ({ ...told, seq: told.seq + 2 * nth })) };
    });
    const slow = hold((call) => (dataOf(call).seq === 1 ? ERROR : OK));
    const s = setup(claims.toReversed(), slow.answer);
    s.webhooks.matchSoon([TENANT]);
    await expect.poll(() => s.calls.length).toBe(3);
    slow.release();
    await expect.poll(() => s.completions.length).toBe(3);
    expect(s.calls.map((call) => dataOf(call).seq)).toEqual([1, 2, 4, 5]);
    const again = s.completions.flatMap((one) => one.again).toSorted((a, b) => a.seq - b.seq);
    expect(again).toMatchObject([
      { seq: 1, attempts: 1, messageSeq: 1 },
      { seq: 3, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
      { seq: 6, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
    ]);
  });

  test('is told of everything where it is no longer ordered in a later claim', async () => {
    const slow = hold();
    const endpoint = endpointOf({ ordered: true });
    const s = setup([claimOf(endpoint, [1, 1])], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(1);
    s.left.push(claimOf({ ...endpoint, ordered: false, version: 2 }, [2]));
    s.webhooks.matchSoon([TENANT]);
    await expect.poll(() => s.calls.length).toBe(2);
    slow.release();
    await expect.poll(() => s.completions.length).toBe(2);
  });

  test('is not told of what waits for an earlier event in the database', async () => {
    const s = setup([claimOf(endpointOf({ ordered: true }), [1, 2], { blocked: new Set([1]) })], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls.map(messageOf)).toEqual([2]);
    expect(s.completions[0]?.again).toMatchObject([{ seq: 1, dueAt: 'after_earlier' }]);
  });
});

describe('an endpoint', () => {
  test('that is gone is disabled, and the rest of its events goes back', async () => {
    const s = setup(
      [
        claimOf(
          endpointOf(),
          Array.from({ length: 60 }, (_, i) => i),
        ),
      ],
      () => ({ ...ERROR, status: 410 }),
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect([...s.health.values()]).toMatchObject([{ status: 'disabled', statusReason: 'gone' }]);
    const { attempts = [], again, uncalled } = s.completions[0] ?? {};
    expect(attempts.length).toBeLessThan(60);
    expect(again).toHaveLength(attempts.length);
    expect(uncalled).toEqual([{ first: attempts.length + 1, last: 60 }]);
  });

  test('that asks for time is left alone', async () => {
    const claim = claimOf(
      endpointOf(),
      Array.from({ length: 60 }, (_, i) => i),
    );
    const s = setup([claim], () => ({ ...ERROR, status: 429, headers: { 'retry-after': '120' } }));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls.length).toBeLessThan(60);
    expect(s.completions[0]?.again).toHaveLength(s.calls.length);
    for (const { dueAt } of s.completions[0]?.again ?? [])
      expect((dueAt as Date).getTime()).toBeGreaterThan(Date.now() + 100_000);
  });

  test('that was changed is claimed anew for what had not begun', async () => {
    const endpoint = endpointOf();
    const many = Array.from({ length: 50 }, (_, i) => i);
    const slow = hold();
    const s = setup([claimOf(endpoint, many)], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(20);
    s.webhooks.endpointChanged(endpoint.id, 'settings');
    slow.release();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls).toHaveLength(20);
    expect(s.completions[0]).toMatchObject({ again: [], uncalled: [{ first: 21, last: 50 }] });
  });

  test.each([
    ['changed', 2],
    ['deleted', undefined],
  ] as const)(
    'that was %s without a notice gives back what had not begun, at the next look',
    async (_how, version) => {
      const endpoint = endpointOf();
      const events = Array.from({ length: 50 }, (_, i) => i);
      const slow = hold();
      const s = setup([claimOf(endpoint, events)], slow.answer);
      s.versions.set(endpoint.id, 1);
      await s.webhooks.claim();
      await expect.poll(() => s.calls.length).toBe(20);
      await s.webhooks.findChanged();
      expect(s.completions).toEqual([]);
      if (version === undefined) s.versions.delete(endpoint.id);
      else s.versions.set(endpoint.id, version);
      await s.webhooks.findChanged();
      slow.release();
      await expect.poll(() => s.completions.length).toBe(1);
      expect(s.calls).toHaveLength(20);
      expect(s.completions[0]).toMatchObject({ again: [], uncalled: [{ first: 21, last: 50 }] });
      expect(s.completions[0]?.attempts).toHaveLength(20);
    },
  );

  test('goes on with what it is called for when there is more of it', async () => {
    const endpoint = endpointOf();
    const many = Array.from({ length: 50 }, (_, i) => i);
    const slow = hold();
    const s = setup([claimOf(endpoint, many)], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(20);
    s.left.push(claimOf(endpoint, [50]));
    s.webhooks.endpointChanged(endpoint.id, 'due');
    slow.release();
    await expect.poll(() => s.completions.length).toBe(2);
    expect([s.calls.length, s.vault.asked]).toEqual([51, 1]);
  });

  test.each([
    ['due', 1, 1],
    ['settings', 2, 1],
    ['secrets', 2, 2],
  ] as const)(
    'of which a notice says %s: Vault is asked for its secret only where that may be another one',
    async (changed, version, asked) => {
      const endpoint = endpointOf();
      const s = setup([claimOf(endpoint, [1])], () => OK);
      await s.webhooks.claim();
      await expect.poll(() => s.completions.length).toBe(1);
      s.left.push(claimOf({ ...endpoint, version }, [2]));
      s.webhooks.endpointChanged(endpoint.id, changed);
      await expect.poll(() => s.completions.length).toBe(2);
      expect(s.vault.asked).toBe(asked);
    },
  );

  test('is not remembered beyond its last claim, however it did', async () => {
    const endpoint = endpointOf();
    const s = setup([claimOf(endpoint, [1])], () => (s.calls.length === 1 ? ERROR : OK));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.health.get(endpoint.id)?.failures).toBe(1);
    // The claim was made before the failure and shows a healthy endpoint.
    s.health.clear();
    await new Promise((resolve) => setImmediate(resolve));
    s.left.push(claimOf(endpoint, [2]));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(2);
    expect([s.health.size, s.failed]).toEqual([0, []]);
  });

  test('works again with the success of a probe', async () => {
    const failing = endpointOf({ status: 'failing', failures: 5, failingSince: new Date() });
    const s = setup([claimOf(failing, [1])], () => OK);
    s.health.set(failing.id, { ...FINE, status: 'failing', failures: 5, failingSince: new Date() });
    await s.webhooks.claim();
    await expect.poll(() => s.moved).toEqual(['active']);
  });

  test('that a person tries out is called once, and no value of its headers is shown', async () => {
    const s = setup([], () => ({ ...OK, text: 'fine' }));
    s.tests.push({
      id: 't',
      endpoint: endpointOf({ status: 'paused', headers: { authorization: 'Basic s3cret' } }),
    });
    await s.webhooks.callTested();
    await expect.poll(() => s.tested).toHaveLength(1);
    expect(s.calls[0]?.headers).toMatchObject({ authorization: 'Basic s3cret' });
    expect(s.tested).toMatchObject([
      {
        succeeded: true,
        request: { headers: { authorization: '[redacted]' } },
        response: { status: 200, body: 'fine' },
        error: null,
      },
    ]);
    const body: unknown = JSON.parse(String(s.calls[0]?.body));
    expect(TOLD_EVENT_SCHEMAS['test.ping'].parse(body)).toEqual(body);
  });
});

test('what an endpoint has left is claimed as soon as it has room, with no other look', async () => {
  const endpoint = endpointOf();
  const claims = Array.from({ length: 12 }, () => claimOf(endpoint, [1, 2, 3]));
  const s = setup(claims, () => OK);
  await s.webhooks.claim();
  await expect.poll(() => s.completions.length).toBe(12);
  expect(s.calls).toHaveLength(36);
});

test.each([
  ['is taken while the calls of a full one are under way', 20, 0],
  ['waits for the end of a small one, as there seldom is one', 2, 1],
])('the next claim of an endpoint %s', async (_, size, left) => {
  const { answer, release } = hold();
  const endpoint = endpointOf();
  const messages = Array.from({ length: size }, (_none, n) => n + 1);
  const s = setup([claimOf(endpoint, messages), claimOf(endpoint, messages)], answer);
  await s.webhooks.claim();
  await expect.poll(() => s.calls.length).toBe(size);
  await expect.poll(() => s.left.length).toBe(left);
  expect(s.completions).toEqual([]);
  release();
  await expect.poll(() => s.completions.length).toBe(2);
});

test('no more is claimed than can be recorded', async () => {
  const recording = Promise.withResolvers<void>();
  const endpoints = Array.from({ length: 100 }, () => endpointOf({ tenantId: randomUUID() }));
  const claims = endpoints.flatMap((endpoint) => Array.from({ length: 10 }, () => claimOf(endpoint, [1])));
  const s = setup(claims, () => OK, { recorded: recording.promise });
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
  ['many more where calls are short', 0, 0],
  ['no more of that tenant where these take long to call for', 300, 5],
])('of what is due while a thousand events of a tenant wait, a worker takes %s', async (_, ms, left) => {
  const messages = Array.from({ length: 100 }, (_none, n) => n);
  const [heavy, other] = [randomUUID(), randomUUID()];
  const some = (n: number, tenantId: string) =>
    Array.from({ length: n }, () => claimOf(endpointOf({ tenantId }), messages));
  const answer = () => new Promise<HttpResult>((resolve) => setTimeout(() => resolve(OK), ms));
  const s = setup(some(10, heavy), answer, { inFlightMax: 2 });
  await s.webhooks.claim();
  await expect.poll(() => s.calls.length, { timeout: 10_000 }).toBeGreaterThan(12);
  s.left.push(...some(5, heavy), ...some(1, other));
  await s.webhooks.claim();
  expect(s.left.map(({ endpoint }) => endpoint.tenantId)).toEqual(Array(left).fill(heavy));
});

test('what is matched is called for at once, whoever found it', async () => {
  const s = setup([claimOf(endpointOf(), [1])], () => OK);
  await s.webhooks.findBehind();
  await expect.poll(() => s.completions.length).toBe(1);
});

test('what another one had when it was matched is matched a moment later, and not only by the next look', async () => {
  const s = setup([claimOf(endpointOf(), [1])], () => OK);
  s.missed.push(TENANT, TENANT);
  s.webhooks.matchSoon([TENANT]);
  await expect.poll(() => s.completions.length).toBe(1);
  expect(s.delays).toEqual([undefined, 50, 100]);
});
