import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { Route } from '#core/domain/routing/route.ts';
import { workerStore, type WorkerStore } from '#core/store/worker-store.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import type { Reply } from '#test/support/api.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { acceptBatch, acceptRow, ADDRESS_KEYS } from '#test/support/seed.ts';

const ROUTE = '/v1/admin/routes/sms';
const ACCEPTED: AttemptOutcome = { kind: 'accepted', providerMessageId: 'p-1' };
const THROTTLED: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'provider_throttled', code: 'http_429' },
};
const UNAVAILABLE: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'provider_unavailable', code: 'http_503' },
};

let api: AdminApi;
let store: WorkerStore;
let tenant: TestTenant;
let key: string;
let a: string;
let b: string;
let c: string;

beforeAll(async () => {
  api = await startAdminApi();
  store = workerStore(api.database.open('worker', 2), 10_000, ADDRESS_KEYS);
});
afterAll(() => api[Symbol.asyncDispose]());
beforeEach(async () => {
  tenant = await api.tenant();
  key = (await asAdmin('POST', '/v1/admin/api-keys', { name: 'Shop' })).body.key;
  [a, b, c] = [await account('A'), await account('B'), await account('C')];
});

const asAdmin = (method: string, url: string, body?: unknown): Promise<Reply> =>
  api.callAs('admin', tenant, method, url, body);
const account = async (label: string): Promise<string> => {
  const body = { provider: 'simulator-sms', label: `Account ${label}`, secretConfig: {} };
  return (await asAdmin('POST', '/v1/admin/providers', body)).body.id;
};
const priority = (...providerIds: readonly string[]) => ({
  strategy: 'priority',
  steps: providerIds.map((providerId) => ({ providerId })),
});
const simulate = (draft: unknown, rest: object = {}, of = tenant): Promise<Reply> =>
  api.callAs('viewer', of, 'POST', `${ROUTE}/simulate`, { draft, ...rest });

async function send(body: object = {}): Promise<string> {
  const sent = { channel: 'sms', to: '+15550000009', body: 'Hello', ...body };
  const reply = await api.call('POST', '/v1/messages', { headers: { 'x-service-key': key }, body: sent });
  expect(reply.status).toBe(202);
  return reply.body.id;
}

/** Claims the message and completes its next attempt with this outcome. */
async function call(id: string, outcome: AttemptOutcome): Promise<void> {
  const [row] = await api.admin<{ seq: number }[]>`
    update live_messages l set next_attempt_at = null, due_at = now() from messages m
    where m.seq = l.seq and m.id = ${id} returning m.seq::int as seq`;
  const [message] = await store.claim([row?.seq ?? 0], { worker: 'w1', leaseMs: 60_000 });
  if (message === undefined) throw new Error('not claimed');
  const [facts] = await store.failoverFacts([message.seq]);
  const { version, strategy, steps, failoverOn, usable = [], invalid = [], tried } = facts ?? {};
  const route = { channel: 'sms', version, strategy, steps, failoverOn } as Route;
  const accountId = message.accountId ?? '';
  const failover = { messageId: id, accountId, route, usable, invalid, tried: tried ?? [] };
  await store.complete([
    completionOf(message, outcome, outcome.kind === 'accepted' ? {} : { failover }, { callMs: 5 }),
  ]);
}

describe('a simulated route', () => {
  test('moves no message if it equals the current route', async () => {
    await asAdmin('PUT', ROUTE, priority(a, b));
    const [one, two, three] = [await send(), await send(), await send()];
    await call(one, ACCEPTED);
    await call(two, UNAVAILABLE);
    await call(two, ACCEPTED);
    await call(three, THROTTLED);
    const { status, body } = await simulate(priority(a, b));
    expect(status).toBe(200);
    expect(body).toEqual({
      channel: 'sms',
      considered: 3,
      since: expect.any(String) as unknown,
      moved: 0,
      unroutable: 0,
      byProvider: [
        { providerId: a, label: 'Account A', before: 2, after: 2, deliveryRate: null },
        { providerId: b, label: 'Account B', before: 1, after: 1, deliveryRate: null },
      ],
      moves: [],
      excluded: [{ providerId: a, label: 'Account A', reason: 'provider_unavailable', messages: 1 }],
      samples: [],
    });
    expect((await asAdmin('GET', `/v1/admin/messages/${one}`)).body.enqueuedAt).toBe(body.since);
    // Weighted draws depend on the route's version, so the simulation uses the version in force.
    await asAdmin('PUT', ROUTE, { ...priority(a, b, c), strategy: 'weighted' });
    for (let i = 0; i < 12; i += 1) await call(await send(), ACCEPTED);
    const weighted = await simulate({ ...priority(a, b, c), strategy: 'weighted' }, { last: 12 });
    expect(weighted.body).toMatchObject({ considered: 12, moved: 0, unroutable: 0 });
    expect((await asAdmin('GET', ROUTE)).body.version).toBe(2);
  });

  test('passes over an account whose credential was refused when a message failed over', async () => {
    await asAdmin('PUT', ROUTE, priority(a, b, c));
    const id = await send();
    await api.admin`update provider_accounts set status = 'invalid' where id = ${b}`;
    await call(id, UNAVAILABLE);
    await api.admin`update provider_accounts set status = 'active' where id = ${b}`;
    await call(id, ACCEPTED);
    const { body } = await simulate(priority(a, b, c));
    expect(body).toMatchObject({ considered: 1, moved: 0 });
    expect(body.excluded).toContainEqual({
      providerId: b,
      label: 'Account B',
      reason: 'invalid',
      messages: 1,
    });
  });

  test('reports which messages would move, where to and why, and the delivery rate of the accounts', async () => {
    await asAdmin('PUT', ROUTE, priority(a, b));
    const [one, two, three] = [await send(), await send(), await send()];
    await call(one, ACCEPTED);
    await call(two, UNAVAILABLE);
    await call(two, ACCEPTED);
    await call(three, ACCEPTED);
    await api.admin`update message_results s set status = 'delivered' from messages m where m.seq = s.seq and m.id = ${one}`;
    await api.admin`update message_results s set status = 'undelivered' from messages m where m.seq = s.seq and m.id = ${three}`;

    const other = await simulate(priority(c));
    expect(other.body).toMatchObject({
      considered: 3,
      moved: 3,
      byProvider: [
        { providerId: c, before: 0, after: 3, deliveryRate: null },
        { providerId: a, before: 2, after: 0, deliveryRate: 0.5 },
        { providerId: b, before: 1, after: 0, deliveryRate: null },
      ],
      moves: [
        { from: a, to: c, messages: 2 },
        { from: b, to: c, messages: 1 },
      ],
      excluded: [],
    });
    expect((await simulate(priority(a, c))).body).toMatchObject({
      moved: 1,
      moves: [{ from: b, to: c, messages: 1 }],
      excluded: [{ providerId: a, reason: 'provider_unavailable', messages: 1 }],
      samples: [
        {
          messageId: two,
          before: b,
          after: c,
          route: [
            { providerId: a, label: 'Account A', verdict: 'failed', reason: 'provider_unavailable' },
            { providerId: c, label: 'Account C', verdict: 'chosen', reason: 'next_in_route' },
          ],
        },
      ],
    });
    await asAdmin('POST', `/v1/admin/providers/${c}/disable`);
    expect((await simulate(priority(c))).body).toMatchObject({
      moved: 0,
      unroutable: 3,
      excluded: [{ providerId: c, label: 'Account C', reason: 'disabled', messages: 3 }],
      samples: [three, two, one].map((messageId) => ({ messageId, after: null })),
    });
    expect((await simulate(priority(c, b))).body).toMatchObject({ moved: 2, unroutable: 0 });
    expect((await simulate(priority(b), { last: 2 })).body).toMatchObject({ considered: 2, moved: 1 });
  });

  test('fails over a message that waited too long only if the draft has maxWaitMs', async () => {
    await asAdmin('PUT', ROUTE, { ...priority(a, b, c), maxWaitMs: 1_000 });
    const id = await send();
    const [row] = await api.admin<{ seq: number }[]>`select seq::int as seq from messages where id = ${id}`;
    const seq = row?.seq ?? 0;
    const rerouted = { accountId: c, version: 1, skipped: [{ accountId: b, reason: 'invalid' }] } as const;
    const moved = await store.assignAccounts([
      { seq, from: a, rerouted, why: 'breaker_open', waitedMs: 2_000 },
    ]);
    expect(moved).toEqual(new Set([seq]));
    await call(id, ACCEPTED);

    const same = await simulate({ ...priority(a, b, c), maxWaitMs: 1_000 });
    expect(same.body).toMatchObject({
      considered: 1,
      moved: 0,
      excluded: [
        { providerId: a, reason: 'breaker_open', messages: 1 },
        { providerId: b, reason: 'invalid', messages: 1 },
      ],
    });
    const patient = await simulate(priority(a, b, c));
    expect(patient.body).toMatchObject({ moved: 1, moves: [{ from: c, to: a, messages: 1 }] });
  });

  test('considers only live messages of its tenant that were sent by a route', async () => {
    await asAdmin('PUT', ROUTE, priority(a));
    const kept = await send();
    await call(kept, ACCEPTED);
    await call(await send({ providerId: b }), ACCEPTED);
    await send();
    const testKey = (await asAdmin('POST', '/v1/admin/api-keys', { name: 'Test', mode: 'test' })).body
      .key as string;
    await api.call('POST', '/v1/messages', {
      headers: { 'x-service-key': testKey },
      body: { channel: 'sms', to: '+15550000001', body: 'Hello' },
    });
    // More messages of another channel than one read returns.
    const sender = { tenantId: tenant.id, slug: tenant.slug, apiKeyId: kept };
    const mails = Array.from({ length: 620 }, () =>
      acceptRow(sender, { channel: 'email', api_key_id: null }),
    );
    for (let i = 0; i < mails.length; i += 62) await acceptBatch(api.admin, mails.slice(i, i + 62));
    expect((await simulate(priority(c))).body).toMatchObject({
      considered: 1,
      moved: 1,
      samples: [{ messageId: kept, before: a, after: c }],
    });
    const stranger = await api.tenant();
    const theirs = (
      await api.callAs('admin', stranger, 'POST', '/v1/admin/providers', {
        provider: 'simulator-sms',
        label: 'Theirs',
        secretConfig: {},
      })
    ).body.id as string;
    expect((await simulate(priority(theirs), {}, stranger)).body).toMatchObject({
      considered: 0,
      since: null,
      moved: 0,
      byProvider: [{ providerId: theirs, before: 0, after: 0, deliveryRate: null }],
      samples: [],
    });
  });

  test('is validated like a stored route, and the answer names the invalid field', async () => {
    const { body: mine } = await asAdmin('GET', ROUTE);
    expect((await simulate(mine)).status).toBe(200);
    for (const [draft, field] of [
      [priority(a, a), 'draft.steps.1.providerId'],
      [priority('3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10'), 'draft.steps.0.providerId'],
      [{ ...priority(a), strategy: 'random' }, 'draft.strategy'],
      [{ strategy: 'priority', steps: [] }, 'draft.steps'],
    ] as const) {
      const { status, body } = await simulate(draft);
      expect([status, body.details[0].field]).toEqual([400, field]);
    }
    for (const last of [0, 10_001]) {
      const { status, body } = await simulate(priority(a), { last });
      expect([status, body.details[0].field]).toEqual([400, 'last']);
    }
  });
});
