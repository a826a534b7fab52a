import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  LEAST,
  request,
  send,
  startTestApi,
  type ApiTenant,
  type Instance,
  type TestApi,
} from '#test/support/api.ts';

let api: TestApi;
let other: Instance;
beforeAll(async () => {
  api = await startTestApi();
  other = await api.instance();
});
afterAll(() => api[Symbol.asyncDispose]());

/** Returns the warnings about the tenant's limit, in the order of its events. */
async function told(tenantId: string) {
  const events = await api.admin`
    select type, details ->> 'limit' as "limit", (details ->> 'value')::int as value, (details ->> 'used')::int as used
    from tenant_events where tenant_id = ${tenantId} order by event_seq`;
  const named = await api.admin`
    select count(*)::int as n from tenant_events e, changes c
    where e.tenant_id = ${tenantId} and ${tenantId}::uuid = any (c.tenant_ids) and 0 = any (c.seqs) and e.event_seq = any (c.numbers)`;
  const entries = await api.admin`
    select actor, action, target from audit_log where tenant_id = ${tenantId} order by seq`;
  expect(named[0]?.['n']).toBe(events.length);
  expect(entries).toEqual(events.map(({ type }) => ({ actor: 'service', action: type, target: tenantId })));
  const lines = api.logLines.filter((line) => line.includes('"event":"audit"') && line.includes(tenantId));
  expect(lines).toHaveLength(events.length);
  return events.map(({ type, limit, value, used }) => {
    expect(limit).toBe('messagesPerDay');
    return `${type} ${used}/${value}`;
  });
}

const sendBatch = (tenant: ApiTenant, count: number, mode: 'strict' | 'permissive') =>
  request(api.first, 'POST', '/v1/messages/batch', {
    body: { mode, messages: Array.from({ length: count }, () => LEAST.sms) },
    headers: { 'x-service-key': tenant.key.text },
  });

test('limit warnings are emitted once at 80% and once at 100%, under concurrency over two processes', async () => {
  const tenant = await api.tenant({ messagesPerDay: 25 });
  for (let i = 0; i < 19; i++) await send(i % 2 === 0 ? api.first : other, tenant.key, LEAST.sms);
  expect(await told(tenant.tenantId)).toEqual([]);
  await send(api.first, tenant.key, LEAST.sms);
  expect(await told(tenant.tenantId)).toEqual(['limit.approaching 20/25']);
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, i) => send(i % 2 === 0 ? api.first : other, tenant.key, LEAST.sms)),
  );
  expect(replies.filter(({ status }) => status === 202)).toHaveLength(5);
  expect(await told(tenant.tenantId)).toEqual(['limit.approaching 20/25', 'limit.reached 25/25']);
  for (let i = 0; i < 3; i++) expect((await send(other, tenant.key, LEAST.sms)).status).toBe(429);
  expect(await told(tenant.tenantId)).toHaveLength(2);
});

test('one commit that crosses both thresholds emits both limit warnings; a refused strict batch emits none', async () => {
  const tenant = await api.tenant({ messagesPerDay: 10, batchMessagesMax: 100 });
  expect((await sendBatch(tenant, 11, 'strict')).status).toBe(429);
  expect(await told(tenant.tenantId)).toEqual([]);
  const reply = await sendBatch(tenant, 12, 'permissive');
  expect(reply.status).toBe(202);
  expect(reply.body.items).toHaveLength(12);
  expect(reply.body.items.filter((item: { id?: string }) => item.id !== undefined)).toHaveLength(10);
  expect(await told(tenant.tenantId)).toEqual(['limit.approaching 10/10', 'limit.reached 10/10']);
});

test('messages of test keys emit no limit warning; a warning for live messages is counted in a metric', async () => {
  const tenant = await api.tenant({ messagesPerDay: 1 });
  const key = await api.key(tenant.tenantId, { mode: 'test' });
  await send(api.first, key, LEAST.sms);
  expect(await told(tenant.tenantId)).toEqual([]);
  const count = async () => {
    const text = await api.first.metrics.registry.metrics();
    return Number(/despatch_limit_warnings_total\{.*level="reached".*\} (\d+)/.exec(text)?.[1]);
  };
  const before = await count();
  await send(api.first, tenant.key, LEAST.sms);
  expect(await count()).toBe(before + 1);
});

test('a limit that is lowered below what the day has used is reported as reached, once, by the first refusal', async () => {
  const tenant = await api.tenant({ messagesPerDay: 10 });
  for (let i = 0; i < 5; i++) await send(api.first, tenant.key, LEAST.sms);
  expect(await told(tenant.tenantId)).toEqual([]);
  await api.admin`
    update tenant_limits set limits = jsonb_set(limits, '{messagesPerDay}', '4') where tenant_id = ${tenant.tenantId}`;
  for (const instance of [api.first, other]) instance.notice('tenant', { tenantId: tenant.tenantId });
  expect((await sendBatch(tenant, 2, 'permissive')).status).toBe(429);
  const replies = await Promise.all(
    Array.from({ length: 6 }, (_, i) => send(i % 2 === 0 ? api.first : other, tenant.key, LEAST.sms)),
  );
  expect(replies.map(({ body }) => body.code)).toEqual(Array(6).fill('daily_limit_reached'));
  expect(await told(tenant.tenantId)).toEqual(['limit.approaching 5/4', 'limit.reached 5/4']);
});

test('limit warnings repeat on the next day, but not after a change of the limit on the same day', async () => {
  const tenant = await api.tenant({ messagesPerDay: 2 });
  for (let i = 0; i < 2; i++) await send(api.first, tenant.key, LEAST.sms);
  expect(await told(tenant.tenantId)).toEqual(['limit.approaching 2/2', 'limit.reached 2/2']);
  await api.admin`
    update tenant_limits set limits = jsonb_set(limits, '{messagesPerDay}', '4') where tenant_id = ${tenant.tenantId}`;
  api.first.notice('tenant', { tenantId: tenant.tenantId });
  for (let i = 0; i < 2; i++) expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(202);
  expect(await told(tenant.tenantId)).toHaveLength(2);
  await api.admin`update tenant_usage set day = day - 1 where tenant_id = ${tenant.tenantId}`;
  for (let i = 0; i < 4; i++) expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(202);
  expect((await told(tenant.tenantId)).slice(2)).toEqual(['limit.approaching 4/4', 'limit.reached 4/4']);
});
