import { createHmac, createSecretKey, randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/decide-receipts.ts';
import { receiptToken } from '#core/domain/receipt-token.ts';
import { settle } from '#core/domain/settle.ts';
import type { Credentials } from '../../../services/worker/accounts/credentials.ts';
import { setupDelivery } from '#test/support/delivery.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/worker.ts';
import { toCompletion } from '../../../services/worker/deliver/completion.ts';

const BASE = 'https://hooks.example/despatch';
const KEY = createSecretKey(randomBytes(32));
const TOKEN = 'a'.repeat(32);
const REPLACED = 'b'.repeat(32);

let b: Awaited<ReturnType<typeof setupDelivery>>;

const replaced: Credentials = {
  get: async () => ({ ok: true, secrets: { authToken: REPLACED } }),
  invalidate: () => undefined,
  autonomySeconds: () => null,
};

beforeAll(async () => {
  b = await setupDelivery(
    {},
    { receipts: { publicBaseUrl: BASE, receiptKey: KEY }, replacedCredentials: replaced },
  );
  // The key that the ids of planted messages are made with.
  await b.admin`update despatch.message_id_key set key = ${Buffer.alloc(16)}`;
  b.startWorker();
});
afterAll(() => b?.[Symbol.asyncDispose]());

type Sent = { readonly id: string; readonly seq: number; readonly sid: string; readonly callback: string };

/** A message that the provider has accepted. */
async function sent(overrides: Record<string, unknown> = {}): Promise<Sent> {
  const before = b.twilio.received.length;
  const seq = (await b.send(1, overrides))[0]?.seq ?? 0;
  await expect.poll(() => statusOf(seq)).toBe('sent');
  const [row] = await b.admin`select m.id, r.provider_message_id as sid from despatch.messages m
    join despatch.message_results r on r.seq = m.seq where m.seq = ${seq}`;
  const callback = new URLSearchParams(b.twilio.received[before]?.body).get('StatusCallback') ?? '';
  return { id: row?.['id'] as string, seq, sid: row?.['sid'] as string, callback };
}

async function recordOf(seq: number) {
  const [row] = await b.admin`select * from despatch.message_states where seq = ${seq}`;
  return row ?? {};
}
const statusOf = async (seq: number) => (await recordOf(seq))['status'] as string;
const eventsOf = async (seq: number): Promise<string[]> =>
  (
    await b.admin<{ type: string; applied: boolean }[]>`select type, applied from despatch.events
      where message_seq = ${seq} and source = 'receipt' order by event_seq`
  ).map(({ type, applied }) => `${type} ${applied}`);

type Call = {
  readonly url: string;
  readonly body: string;
  readonly secret?: string;
  readonly version?: number;
};

/** Stores a call as the api does. */
async function report({ url, body, secret = TOKEN, version = 1 }: Call): Promise<void> {
  const text = [...new URLSearchParams(body)]

    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .reduce((all, [name, value]) => all + name + value, url);
  const headers = { 'x-twilio-signature': createHmac('sha1', secret).update(text).digest('base64') };
  await b.admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body,
      received_at, due_at)
    values (${b.tenant.tenantId}, ${b.accountId}, 'POST', ${version}, ${new URL(url).search}, ${b.admin.json(headers)},
      ${Buffer.from(body)}, now(), now())`;
}
const form = (sid: string, status: string, over: Record<string, string> = {}): string =>
  new URLSearchParams({ MessageSid: sid, MessageStatus: status, ...over }).toString();
const callsLeft = async (): Promise<number> =>
  Number((await b.admin`select count(*) as n from despatch.receipt_calls`)[0]?.['n']);
const receiptsLeft = async (): Promise<number> =>
  Number((await b.admin`select count(*) as n from despatch.receipts`)[0]?.['n']);

describe('a receipt', () => {
  test('is asked for at an address that only api and worker can make', async () => {
    const { id, callback } = await sent();
    const token = receiptToken(KEY, b.accountId, 1);
    expect(callback).toBe(`${BASE}/v1/receipts/${b.accountId}/${token}?mid=${id}`);
  });

  test('tells what became of the message, and leaves nothing behind', async () => {
    const { seq, sid, callback } = await sent();
    await report({ url: callback, body: form(sid, 'delivered') });
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    expect(await recordOf(seq)).toMatchObject({ final: true, failure: null });
    expect(await eventsOf(seq)).toEqual(['message.delivered true']);
    expect([await callsLeft(), await receiptsLeft()]).toEqual([0, 0]);
  });

  test('of a failure says why', async () => {
    const { seq, sid, callback } = await sent();
    await report({ url: callback, body: form(sid, 'undelivered', { ErrorCode: '30005' }) });
    await expect.poll(() => statusOf(seq)).toBe('undelivered');
    expect(await recordOf(seq)).toMatchObject({
      final: true,
      failure: { class: 'invalid_recipient', code: 'unreachable_number', providerCode: '30005' },
    });
  });

  test('that comes again is one event', async () => {
    const { seq, sid, callback } = await sent();
    const body = form(sid, 'delivered');
    await Promise.all([report({ url: callback, body }), report({ url: callback, body })]);
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    await report({ url: callback, body });
    await expect.poll(async () => [await callsLeft(), await receiptsLeft()]).toEqual([0, 0]);
    expect(await eventsOf(seq)).toEqual(['message.delivered true']);
  });

  test('that was read by its recipient says so beside the status', async () => {
    const { seq, sid, callback } = await sent();
    await report({ url: callback, body: form(sid, 'read') });
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    expect((await recordOf(seq))['engagement']).toEqual({ read: expect.any(Number) });
  });

  test('signed with the secret before is believed as long as that one holds', async () => {
    const body = (one: Sent) => form(one.sid, 'delivered');
    const first = await sent();
    await b.admin`update despatch.provider_accounts set previous_ciphertext = 'test:{}', version = version + 1,
      previous_until = now() + interval '10 minutes' where id = ${b.accountId}`;
    await report({ url: first.callback, body: body(first), secret: REPLACED });
    await expect.poll(() => statusOf(first.seq)).toBe('delivered');
    await b.admin`update despatch.provider_accounts set previous_ciphertext = null, previous_until = null,
      version = version + 1 where id = ${b.accountId}`;
    const second = await sent();
    await report({ url: second.callback, body: body(second), secret: REPLACED });
    await expect.poll(callsLeft).toBe(0);
    expect(await statusOf(second.seq)).toBe('sent');
  });

  test('waits where its secret cannot be had, and is not lost', async () => {
    const one = await sent();
    b.credentials.down = true;
    await report({ url: one.callback, body: form(one.sid, 'delivered') });
    await expect
      .poll(async () => (await b.admin`select max(tries) as n from despatch.receipt_calls`)[0]?.['n'])
      .toBeGreaterThan(0);
    expect(await statusOf(one.seq)).toBe('sent');
    b.credentials.down = false;
    await expect.poll(() => statusOf(one.seq)).toBe('delivered');
  });
});

describe('what is no receipt', () => {
  test.each([
    ['of a secret that the account never had', { secret: 'c'.repeat(32) }],
    ['of another version of the URL', { version: 2 }],
  ])('a call %s is not applied, and the tenant is told', async (_, over) => {
    const one = await sent();
    await b.admin`update despatch.provider_accounts set receipt_refused_at = null, receipt_refused_reason = null`;
    await report({ url: one.callback, body: form(one.sid, 'delivered'), ...over });
    await expect.poll(callsLeft).toBe(0);
    expect([await statusOf(one.seq), await eventsOf(one.seq)]).toEqual(['sent', []]);
    const [account] = await b.admin`select receipt_refused_reason as reason from despatch.provider_accounts
      where id = ${b.accountId}`;
    expect(account?.['reason']).toBe('signature_mismatch');
  });

  test('a report on a message that nobody knows changes nothing, and is given up after a day', async () => {
    const mine = await sent();
    const url = mine.callback.replace(mine.id, '7f3b2a34-1111-4222-8333-444455556666');
    await report({ url, body: form('SMunknown', 'delivered') });
    await expect.poll(receiptsLeft).toBe(1);
    await b.admin`update despatch.receipts set received_at = received_at - interval '25 hours', apply_at = now()`;
    await expect.poll(receiptsLeft).toBe(0);
    expect(await statusOf(mine.seq)).toBe('sent');
  });

  test("a report on another tenant's message, signed with one's own secret, changes nothing", async () => {
    const mine = await sent();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId, { provider: 'simulator-sms' });
    const seq = (await b.send(1, { address: '+15550000007' }, { of: other }))[0]?.seq ?? 0;
    await expect.poll(() => statusOf(seq)).toBe('sent');
    const [row] = await b.admin`select m.id, r.provider_message_id as sid from despatch.messages m
      join despatch.message_results r on r.seq = m.seq where m.seq = ${seq}`;
    const url = mine.callback.replace(mine.id, String(row?.['id']));
    await report({ url, body: form(String(row?.['sid']), 'delivered') });
    await expect.poll(callsLeft).toBe(0);
    await expect.poll(receiptsLeft).toBe(1);
    expect([await statusOf(seq), await eventsOf(seq)]).toEqual(['sent', []]);
    await b.admin`delete from despatch.receipts`;
  });

  test('a page is put away', async () => {
    const { callback } = await sent();
    await report({ url: callback, body: '<html></html>' });
    await expect.poll(callsLeft).toBe(0);
    expect(await receiptsLeft()).toBe(0);
  });
});

describe("the vendor's id of a message", () => {
  type Named = { readonly found: boolean; readonly by?: string };

  /** What becomes of a message that the vendor knows as `X-1`, after a receipt that says no more than an id. */
  async function afterReport({ found, by = 'X-1' }: Named): Promise<{ status: string; left: number }> {
    await using stores = await setupStores();
    const tenant = await seedTenant(stores.admin);
    const accountId = await seedAccount(stores.admin, tenant.tenantId, { provider: 'twilio' });
    const other = await seedAccount(stores.admin, tenant.tenantId, { provider: 'twilio' });
    const row = acceptRow(tenant);
    await acceptBatch(stores.api, [row]);
    const [message] = await stores.store.claim([row.seq], { worker: 'w1', leaseMs: 60_000 });
    if (message === undefined) throw new Error('not claimed');
    const outcome = { kind: 'accepted', providerMessageId: 'X-1' } as const;
    const terms = {
      ...message,
      expiresAt: message.expiresAt.getTime(),
      dedupe: 'none',
      receiptsExpected: true,
    } as const;
    const completion = toCompletion(message, outcome, settle(outcome, terms, Date.now(), 0), Date.now());
    await stores.store.complete([found ? { ...completion, found_by_id: true } : completion]);
    for (const account of [other, accountId]) {
      const receipt = account === other ? 'undelivered' : 'delivered';
      await stores.admin`insert into despatch.receipts (tenant_id, account_id, provider_message_id, receipt, report_key, apply_at)
        values (${tenant.tenantId}, ${account}, ${by}, ${receipt}, ${account}, now())`;
    }
    await stores.store.applyReceipts(100, decideReceipts);
    const [state] = await stores.admin`select status from despatch.message_states where seq = ${row.seq}`;
    const [left] = await stores.admin`select count(*) as n from despatch.receipts`;
    return { status: state?.['status'] as string, left: Number(left?.['n']) };
  }

  test("leads to it where its provider's receipts may lack ours, in the account that it was sent through", async () => {
    expect(await afterReport({ found: true })).toEqual({ status: 'delivered', left: 1 });
  });

  test.each<Named>([{ found: false }, { found: true, by: 'X-2' }])(
    'leads nowhere else: %o',
    async (named) => {
      expect(await afterReport(named)).toEqual({ status: 'sent', left: 2 });
    },
  );
});

test('a flood of one account does not hold up another one', async () => {
  await using stores = await setupStores();
  const [loud, quiet] = [randomUUID(), randomUUID()];
  const store = (accountId: string, calls: number, age: string) =>
    stores.admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers,
        body, received_at, due_at)
      select ${randomUUID()}, ${accountId}, 'POST', 1, '', '{}', convert_to(repeat('x', 1000), 'UTF8'), now(),
        now() - ${age}::interval from generate_series(1, ${calls})`;
  await store(loud, 5_000, '1 hour');
  await store(quiet, 3, '1 second');
  const accountsOf = async (most: number, bytesMax: number) =>
    (await stores.store.takeReceiptCalls(most, bytesMax, 60_000)).map(({ accountId }) => accountId);
  const first = await accountsOf(10, 1_000_000);
  expect([first.length, first.filter((one) => one === quiet).length]).toEqual([10, 3]);
  // As many as the bytes allow, and one in any case.
  expect(await accountsOf(10, 4_500)).toHaveLength(4);
  expect(await accountsOf(10, 1)).toHaveLength(1);
  // What was given out belongs to who has it, until the lease is over.
  expect(first).not.toEqual([]);
  const [left] = await stores.admin`select count(*) as n from despatch.receipt_calls where due_at <= now()`;
  expect(left?.['n']).toBe(5_003 - 15);
});

test('two workers that take calls at the same moment share them', async () => {
  await using stores = await setupStores();
  for (let account = 0; account < 3; account++)
    await stores.admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers,
        body, received_at, due_at)
      select ${randomUUID()}, ${randomUUID()}, 'POST', 1, '', '{}', '', now(), now() from generate_series(1, 4)`;
  const taken = await stores.admin.begin(async (tx) => {
    const first = await tx<{ id: number }[]>`select id from despatch.take_receipt_calls(6, 1000, 60000)`;
    const second = await stores.store.takeReceiptCalls(6, 1_000, 60_000);
    return [...first, ...second].map(({ id }) => id);
  });
  expect([taken.length, new Set(taken).size]).toEqual([12, 12]);
});
