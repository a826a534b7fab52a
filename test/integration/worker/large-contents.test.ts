import { acceptBatch, acceptRow, ADDRESS_KEYS, type SeededTenant } from '#test/support/seed.ts';
import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asJson } from '#core/platform/postgres/postgres.ts';
import { workerStore, type WorkerStore } from '#core/store/worker-store.ts';
import { backdatePurge } from '#test/support/backdate-purge.ts';
import { LEAST, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';

const MIB = 1024 * 1024;

let api: TestApi;
let tenant: ApiTenant;
let store: WorkerStore;
beforeAll(async () => {
  api = await startTestApi();
  store = workerStore(api.admin, 10_000, ADDRESS_KEYS);
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

const attachment = (bytes: Buffer) => ({
  filename: 'a.bin',
  contentType: 'application/octet-stream',
  content: bytes.toString('base64'),
});
const mail = (...files: Buffer[]) => ({ ...LEAST.email, attachments: files.map(attachment) });
const post = (body: unknown, headers?: Record<string, string>) => send(api.first, tenant.key, body, headers);

/** Returns the contents that are stored apart, for a message or for a tenant. */
async function contentsOf(where: { seq?: number; id?: string; tenantId?: string }): Promise<unknown[]> {
  const { seq = null, id = null, tenantId = null } = where;
  const rows = await api.admin<{ content: string }[]>`
    select content from message_contents
    where (${seq}::bigint is null or message_seq = ${seq}) and (${tenantId}::uuid is null or tenant_id = ${tenantId})
      and (${id}::uuid is null or message_seq = (select seq from messages where id = ${id}))`;
  return rows.map(({ content }) => JSON.parse(content) as unknown);
}

/** Sequence numbers that no message has. */
let plantedSeq = 2 ** 45;

/**
 * Stores a content without its message, as an api does that dies in between. @returns the sequence number of the missing message.
 */
async function plant(tenantId: string): Promise<number> {
  const seq = plantedSeq++;
  await api.admin.begin(async (tx) => {
    await tx`select set_config('app.tenant', ${tenantId}, true)`;
    await tx`select store_content(${seq}, purge_day(now(), 30), '{}')`;
  });
  return seq;
}

async function seqOf(id: string): Promise<number> {
  const [row] = await api.admin<{ seq: string }[]>`select seq::text from messages where id = ${id}`;
  return Number(row?.seq);
}

async function claim(id: string) {
  const [row] = await store.claim([await seqOf(id)], { worker: 'w1', leaseMs: 60_000 });
  return row;
}

describe('ten megabytes of attachments', () => {
  test('are stored apart from the message and not carried by wake-ups and claims', async () => {
    const bytes = randomBytes(10 * MIB);
    const { status, body } = await post(mail(bytes));
    expect(status).toBe(202);
    const [content] = (await contentsOf({ id: body.id })) as [{ attachments: { content: string }[] }];
    expect(Buffer.from(content.attachments[0]?.content ?? '', 'base64').equals(bytes)).toBe(true);
    const [row] = await api.admin<{ text: string; place: string; own: string }[]>`
      select m::text as text, m.tableoid::regclass::text as own, c.tableoid::regclass::text as place
      from messages m join message_contents c on c.message_seq = m.seq and c.purge_on = m.purge_on where m.id = ${body.id}`;
    expect(row?.text.length).toBeLessThan(2_000);
    // Both rows are in partitions of the same retention week, which are dropped together.
    expect(row?.place.replace('message_contents', 'messages')).toBe(row?.own);
    await expect
      .poll(() => api.first.wakes.find(({ id }) => id === body.id)?.payload.length)
      .toBeLessThan(200);
    expect(await claim(body.id)).toMatchObject({ content: { storedBytes: expect.any(Number) } });
  });

  test('and one byte are rejected with 400, in one file or in two', async () => {
    const refusal = { status: 400, body: { details: [expect.objectContaining({ rule: 'max' })] } };
    expect(await post(mail(randomBytes(10 * MIB + 1)))).toMatchObject(refusal);
    expect(await post(mail(randomBytes(5 * MIB), randomBytes(5 * MIB + 1)))).toMatchObject(refusal);
  });
});

test.each<[name: string, body: () => unknown]>([
  ['more than fifteen megabytes', () => mail(randomBytes(12 * MIB))],
  ['more than one megabyte and no attachments', () => ({ ...LEAST.email, bodyHtml: 'a'.repeat(MIB) })],
  [
    'more than one megabyte beside attachments',
    () => ({ ...mail(randomBytes(MIB)), bodyHtml: 'a'.repeat(MIB) }),
  ],
  ['more than one megabyte in an unknown field', () => ({ ...LEAST.sms, unknown: 'a'.repeat(MIB) })],
])('a request with %s gets 413', async (_name, body) => {
  expect(await post(body())).toMatchObject({ status: 413, body: { code: 'payload_too_large' } });
});

test.each(['YQ', 'YWFh\nYWFh', '_-_-', 'YR==', 'not base64'])(
  'an attachment with the content %j is rejected as invalid base64',
  async (content) => {
    const body = { ...LEAST.email, attachments: [{ ...attachment(Buffer.from('a')), content }] };
    expect(await post(body)).toMatchObject({
      status: 400,
      body: { details: [{ field: 'attachments.0.content', rule: 'base64' }] },
    });
  },
);

test('a small attachment is stored inline with its message', async () => {
  const { body } = await post(mail(Buffer.from('small')));
  expect(await contentsOf({ id: body.id })).toEqual([]);
  expect(await claim(body.id)).toMatchObject({ content: { attachments: [{ content: 'c21hbGw=' }] } });
});

test('small and medium contents are stored inline (medium with their size), large ones apart', async () => {
  const sizeOf = async (bytes: number) => {
    const { body } = await post({ ...LEAST.email, bodyHtml: 'a'.repeat(bytes) });
    const [row] = await api.admin<{ content_bytes: number | null; apart: boolean }[]>`
      select l.content_bytes, m.content -> 'storedBytes' is not null as apart from live_messages l join messages m using (seq, purge_on)
      where m.id = ${body.id}`;
    return [row?.content_bytes ?? null, row?.apart];
  };
  expect(await sizeOf(600)).toEqual([null, false]);
  const [bytes, apart] = await sizeOf(20 * 1024);
  expect([bytes, apart]).toEqual([expect.any(Number), false]);
  expect(bytes).toBeGreaterThan(20 * 1024);
  expect(await sizeOf(40 * 1024)).toEqual([null, true]);
});

test('a repeated idempotency key stores nothing: same attachment replays, another one gets 409', async () => {
  const own = await api.tenant();
  const key = { 'idempotency-key': randomUUID() };
  const bytes = randomBytes(MIB);
  const first = await send(api.first, own.key, mail(bytes), key);
  const again = await send(api.first, own.key, mail(bytes), key);
  expect([first.status, again.status, again.body.id]).toEqual([202, 202, first.body.id]);
  expect(again.headers['idempotent-replayed']).toBe('true');
  bytes.writeUInt8((bytes.readUInt8(MIB - 1) + 1) % 256, MIB - 1);
  expect(await send(api.first, own.key, mail(bytes), key)).toMatchObject({
    status: 409,
    body: { code: 'idempotency_mismatch' },
  });
  await expect.poll(async () => (await contentsOf({ tenantId: own.tenantId })).length).toBe(1);
});

test('two concurrent requests with one idempotency key store one message and one content', async () => {
  const own = await api.tenant();
  const key = { 'idempotency-key': randomUUID() };
  const body = mail(randomBytes(MIB));
  const answers = await Promise.all([1, 2].map(() => send(api.first, own.key, body, key)));
  expect(new Set(answers.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1);
  await expect.poll(async () => (await contentsOf({ tenantId: own.tenantId })).length).toBe(1);
});

test('a message rejected for its quota leaves no stored content', async () => {
  const own = await api.tenant({ messagesPerDay: 1 });
  const answers = [];
  for (let i = 0; i < 3; i += 1) answers.push(await send(api.first, own.key, mail(randomBytes(MIB))));
  expect(answers.map(({ status }) => status)).toEqual([202, 429, 429]);
  await expect.poll(async () => (await contentsOf({ tenantId: own.tenantId })).length).toBe(1);
});

test('a content whose message was never accepted is deleted later; other contents are kept', async () => {
  const own = await api.tenant();
  const { body } = await send(api.first, own.key, mail(randomBytes(MIB)));
  const orphan = await plant(own.tenantId);
  const settle = async () => (await api.admin<{ n: number }[]>`select settle_contents(100) as n`)[0]?.n;
  await settle();
  expect(await contentsOf({ seq: orphan })).toHaveLength(1);
  await api.admin`update unsettled_contents set stored_at = now() - interval '1 hour' where tenant_id = ${own.tenantId}`;
  expect(await settle()).toBeGreaterThanOrEqual(2);
  expect([await contentsOf({ seq: orphan }), (await contentsOf({ id: body.id })).length]).toEqual([[], 1]);
  expect(await api.admin`select from unsettled_contents where tenant_id = ${own.tenantId}`).toHaveLength(0);
});

describe('a content with the retention discard', () => {
  const discarded = async () => {
    const { body } = await post({ ...mail(randomBytes(MIB)), contentRetention: 'discard' });
    expect(await contentsOf({ id: body.id })).toHaveLength(1);
    return body.id as string;
  };

  test('is deleted when the provider accepts the message', async () => {
    const id = await discarded();
    const claimed = await claim(id);
    const row = { seq: claimed?.seq, purge_on: claimed?.purgeOn, attempt: 1, discard: true };
    const end = {
      outcome: 'accepted',
      status: 'sent',
      final: true,
      retries: 0,
      ambiguous: 0,
      provider_waits: 0,
      duplicate_risk: false,
    };
    await api.admin`select complete(${asJson(api.admin, [{ ...row, ...end }])})`;
    expect(await contentsOf({ id })).toEqual([]);
  });

  test('is deleted when its message ends without a call', async () => {
    const id = await discarded();
    const seq = await seqOf(id);
    const failure = { class: 'expired', code: 'expired', retryable: false };
    expect((await store.moveMessages([seq], 'expired', failure)).size).toBe(1);
    const [row] = await api.admin`select content from messages where id = ${id}`;
    expect([row?.['content'], await contentsOf({ id })]).toEqual([null, []]);
  });
});

test('the purge of a tenant deletes its stored contents', async () => {
  const own = await api.tenant();
  await send(api.first, own.key, mail(randomBytes(MIB)));
  await plant(own.tenantId);
  const owner = randomUUID();
  await api.admin`update tenants set status = 'deleting', owner_uid = ${owner}, owner_ref = 'a/b' where id = ${own.tenantId}`;
  await backdatePurge(api.admin, own.slug);
  const purge = async () =>
    (await api.admin<{ outcome: string }[]>`select outcome from purge_some(${own.slug}, ${owner}, 100)`)[0]
      ?.outcome;
  await expect.poll(purge).toBe('empty');
  await api.admin`select end_purge(${own.slug}, ${owner})`;
  expect(await contentsOf({ tenantId: own.tenantId })).toEqual([]);
});

test('a request whose content is deleted before acceptance gets 503; its retry is accepted', async () => {
  const own = await api.tenant();
  const key = { 'idempotency-key': 'again' };
  const body = mail(randomBytes(MIB));
  const refused = await api.withoutUnsettled(() => send(api.first, own.key, body, key));
  expect(refused.status).toBe(503);
  expect(await api.admin`select from messages where tenant_id = ${own.tenantId}`).toHaveLength(0);
  const { status, body: accepted } = await send(api.first, own.key, body, key);
  expect([status, await contentsOf({ id: accepted.id })]).toEqual([202, [expect.anything()]]);
});

test('acceptance fails if the content was deleted; an open acceptance protects its content', async () => {
  const own = await api.tenant();
  const row = async () => {
    const seq = await plant(own.tenantId);
    await api.admin`update unsettled_contents set stored_at = now() - interval '16 minutes' where message_seq = ${seq}`;
    const of = { tenantId: own.tenantId, apiKeyId: randomUUID() } as SeededTenant;
    return acceptRow(of, { seq, content: { storedBytes: 2 } });
  };
  const late = await row();
  await store.settleContents(10);
  await expect(acceptBatch(api.admin, [late])).rejects.toMatchObject({ code: 'DS004' });
  expect(await api.admin`select from messages where seq = ${late.seq}`).toHaveLength(0);

  const slow = await row();
  await api.admin.begin(async (tx) => {
    await acceptBatch(tx as never, [slow]);
    await store.settleContents(10);
  });
  expect(await contentsOf({ seq: slow.seq })).toHaveLength(1);
});
