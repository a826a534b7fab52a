import { createHmac, createSecretKey, randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import type { DueReceipt } from '#core/domain/receipts/due-receipt.ts';
import { receiptToken } from '#core/domain/receipts/receipt-token.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { CallReportRow } from '#core/store/receipts/receipt-reports.ts';
import type { Credentials } from '../../../services/worker/accounts/credentials.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

/** Stores calls of an account, as an api does. @param planted `age`: an interval for which they have been due. */
function plantCalls(
  admin: Sql,
  accountId: string,
  planted: { tenantId?: string; n?: number; bytes?: number; age?: string } = {},
) {
  const { tenantId = randomUUID(), n = 1, bytes = 0, age = '0 s' } = planted;
  return admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body,
      received_at, due_at)
    select ${tenantId}, ${accountId}, 'POST', 1, '', '{}', ${Buffer.alloc(bytes)}, now(), now() - ${age}::interval
    from generate_series(1, ${n})`;
}

/** A body size that no call exceeds. */
const ANY = 10_000_000;
const TAKE = { most: 10, bytesMax: 1_000, bodyMax: ANY, leaseMs: 60_000, readable: ['twilio'] };
const BASE = 'https://hooks.example/despatch';
const KEY = createSecretKey(randomBytes(32));
const TOKEN = 'a'.repeat(32);
const REPLACED = 'b'.repeat(32);

let b: Awaited<ReturnType<typeof setupWorkers>>;

const replaced: Credentials = {
  get: async () => ({ ok: true, secret: { authToken: REPLACED } }),
  invalidate: () => undefined,
  forgetStale: () => undefined,
  autonomySeconds: () => null,
};

beforeAll(async () => {
  b = await setupWorkers(
    {},
    { receipts: { publicBaseUrl: BASE, receiptKey: KEY }, replacedCredentials: replaced },
  );
  // The key with which the ids of planted messages are encoded.
  await b.admin`update despatch.message_id_key set key = ${Buffer.alloc(16)}`;
  b.startWorker();
});
afterAll(() => b?.[Symbol.asyncDispose]());

type Sent = { readonly id: string; readonly seq: number; readonly sid: string; readonly callback: string };

/** Sends a message that the provider accepts. */
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
  readonly minutesAgo?: number;
};

/** Stores a call as the api does. */
async function report({ url, body, secret = TOKEN, version = 1, minutesAgo = 0 }: Call): Promise<void> {
  const text = [...new URLSearchParams(body)]

    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .reduce((all, [name, value]) => all + name + value, url);
  const headers = { 'x-twilio-signature': createHmac('sha1', secret).update(text).digest('base64') };
  await b.admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body,
      received_at, due_at)
    values (${b.tenant.tenantId}, ${b.accountId}, 'POST', ${version}, ${new URL(url).search}, ${b.admin.json(headers)},
      ${Buffer.from(body)}, now() - make_interval(mins => ${minutesAgo}), now())`;
}
const form = (sid: string, status: string, over: Record<string, string> = {}): string =>
  new URLSearchParams({ MessageSid: sid, MessageStatus: status, ...over }).toString();
/** Calls that were not read. */
const callsLeft = async (): Promise<number> =>
  Number((await b.admin`select count(*) as n from despatch.receipt_calls where not refused`)[0]?.['n']);
/** Calls that are kept though their signature was refused. */
const callsKept = async (): Promise<number> =>
  Number((await b.admin`select count(*) as n from despatch.receipt_calls where refused`)[0]?.['n']);
const receiptsLeft = async (): Promise<number> =>
  Number((await b.admin`select count(*) as n from despatch.receipts`)[0]?.['n']);

describe('a receipt', () => {
  test('is requested at a callback URL with a token of the receipt key', async () => {
    const { id, callback } = await sent();
    const token = receiptToken(KEY, b.accountId, 1);
    expect(callback).toBe(`${BASE}/v1/receipts/${b.accountId}/${token}?mid=${id}`);
  });

  test('sets the status of its message and leaves no stored call or receipt', async () => {
    const { seq, sid, callback } = await sent();
    await report({ url: callback, body: form(sid, 'delivered') });
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    expect(await recordOf(seq)).toMatchObject({ final: true, failure: null });
    expect(await eventsOf(seq)).toEqual(['message.delivered true']);
    expect([await callsLeft(), await receiptsLeft()]).toEqual([0, 0]);
  });

  test('of a failed delivery stores the failure', async () => {
    const { seq, sid, callback } = await sent();
    await report({ url: callback, body: form(sid, 'undelivered', { ErrorCode: '30005' }) });
    await expect.poll(() => statusOf(seq)).toBe('undelivered');
    expect(await recordOf(seq)).toMatchObject({
      final: true,
      failure: { class: 'invalid_recipient', code: 'unreachable_number', providerCode: '30005' },
    });
  });

  test('that arrives repeatedly causes one event', async () => {
    const { seq, sid, callback } = await sent();
    const body = form(sid, 'delivered');
    await Promise.all([report({ url: callback, body }), report({ url: callback, body })]);
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    await report({ url: callback, body });
    await expect.poll(async () => [await callsLeft(), await receiptsLeft()]).toEqual([0, 0]);
    expect(await eventsOf(seq)).toEqual(['message.delivered true']);
  });

  test('causes an event beyond 1,000 per message only if it changes the status', async () => {
    const { seq, sid, callback } = await sent();
    await b.admin`
      insert into despatch.event_log (message_seq, purge_on, tenant_id, type, source, applied, at)
      select m.seq, m.purge_on, m.tenant_id, 'message.receipt', 'receipt', false, now()
      from despatch.messages m, generate_series(1, 999) where m.seq = ${seq}`;
    for (const [more, status] of ['sent', 'sending', 'queued'].entries()) {
      await report({ url: callback, body: form(sid, status, { More: String(more) }) });
      await expect.poll(async () => [await callsLeft(), await receiptsLeft()]).toEqual([0, 0]);
    }
    expect(await eventsOf(seq)).toHaveLength(1_000);
    await report({ url: callback, body: form(sid, 'delivered') });
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    await report({ url: callback, body: form(sid, 'read') });
    await expect.poll(async () => [await callsLeft(), await receiptsLeft()]).toEqual([0, 0]);
    expect((await eventsOf(seq)).slice(1_000)).toEqual(['message.delivered true']);
    expect((await recordOf(seq))['engagement']).toEqual({ read: expect.any(Number) });
  });

  test('with the status read makes the message delivered and stores the engagement', async () => {
    const { seq, sid, callback } = await sent();
    await report({ url: callback, body: form(sid, 'read') });
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    expect((await recordOf(seq))['engagement']).toEqual({ read: expect.any(Number) });
  });

  test('signed with the previous secret is judged by its arrival, however late it is read', async () => {
    const before = await sent();
    const after = await sent();
    await b.admin`update despatch.provider_accounts set previous_ciphertext = 'test:{}', version = version + 1,
      previous_until = now() - interval '10 minutes' where id = ${b.accountId}`;
    await report({
      url: before.callback,
      body: form(before.sid, 'delivered'),
      secret: REPLACED,
      minutesAgo: 11,
    });
    await report({
      url: after.callback,
      body: form(after.sid, 'delivered'),
      secret: REPLACED,
      minutesAgo: 9,
    });
    await expect.poll(callsLeft).toBe(0);
    await expect.poll(() => statusOf(before.seq)).toBe('delivered');
    expect(await statusOf(after.seq)).toBe('sent');
  });

  test('signed with the previous secret is accepted only until that secret expires', async () => {
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

  test('waits while its secret is unavailable and is applied later', async () => {
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

describe('an invalid receipt', () => {
  test.each([
    ['signed with an unknown secret', { secret: 'c'.repeat(32) }],
    ['to another version of the URL', { version: 2 }],
  ])('a call %s is not applied, and the account shows signature_mismatch', async (_, over) => {
    const one = await sent();
    await b.admin`update despatch.provider_accounts set receipt_refused_at = null, receipt_refused_reason = null`;
    await report({ url: one.callback, body: form(one.sid, 'delivered'), ...over });
    await expect.poll(callsLeft).toBe(0);
    expect([await statusOf(one.seq), await eventsOf(one.seq)]).toEqual(['sent', []]);
    const [account] = await b.admin`select receipt_refused_reason as reason from despatch.provider_accounts
      where id = ${b.accountId}`;
    expect(account?.['reason']).toBe('signature_mismatch');
  });

  test('a signed but unreadable call causes no event, and the account shows it as unreadable', async () => {
    const one = await sent();
    await b.admin`update despatch.provider_accounts set receipt_refused_at = null, receipt_refused_reason = null`;
    await report({ url: one.callback, body: 'Hello' });
    await expect.poll(callsLeft).toBe(0);
    const [account] = await b.admin`select receipt_refused_reason as reason from despatch.provider_accounts
      where id = ${b.accountId}`;
    expect([account?.['reason'], await eventsOf(one.seq)]).toEqual(['unreadable', []]);
  });

  test('a call refused for another reason is shown at once, and for the same one once a minute', async () => {
    const one = await sent();
    const refusedAt = async (body: string, ago: string) => {
      const [planted] = await b.admin`update despatch.provider_accounts
        set receipt_refused_reason = 'signature_mismatch', receipt_refused_at = now() - ${ago}::interval
        where id = ${b.accountId} returning receipt_refused_at as at`;
      await report({ url: one.callback, body, ...(body === 'Hello' ? {} : { secret: 'c'.repeat(32) }) });
      await expect.poll(callsLeft).toBe(0);
      const [account] = await b.admin`select receipt_refused_reason as reason, receipt_refused_at as at
        from despatch.provider_accounts where id = ${b.accountId}`;
      return [account?.['reason'], account?.['at'] > planted?.['at']];
    };
    expect(await refusedAt('Hello', '10 s')).toEqual(['unreadable', true]);
    expect(await refusedAt(form(one.sid, 'delivered'), '10 s')).toEqual(['signature_mismatch', false]);
    expect(await refusedAt(form(one.sid, 'delivered'), '70 s')).toEqual(['signature_mismatch', true]);
  });

  test('a report on an unknown message changes nothing and is dropped after a day', async () => {
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

  test('an HTML page is discarded', async () => {
    const { callback } = await sent();
    await report({ url: callback, body: '<html></html>' });
    await expect.poll(callsLeft).toBe(0);
    expect(await receiptsLeft()).toBe(0);
  });
});

describe('a call with a refused signature', () => {
  test('is applied once the secret of its account is mended and the account was checked', async () => {
    const one = await sent();
    await b.admin`delete from despatch.receipt_calls`;
    await b.admin`update despatch.provider_accounts set receipt_refused_at = null, receipt_refused_reason = null`;
    await report({ url: one.callback, body: form(one.sid, 'delivered'), secret: REPLACED });
    await expect.poll(callsKept).toBe(1);
    const refusedAt = async () =>
      (
        await b.admin`select receipt_refused_at as at from despatch.provider_accounts where id = ${b.accountId}`
      )[0]?.['at'];
    const shown = await refusedAt();
    expect([await statusOf(one.seq), shown]).toEqual(['sent', expect.any(Date)]);
    // Read once more in vain, which is not shown again.
    await b.admin`update despatch.provider_accounts set receipt_refused_at = receipt_refused_at - interval '1 hour'`;
    await b.admin`update despatch.receipt_calls set due_at = now()`;
    await expect
      .poll(async () => (await b.admin`select max(tries) as n from despatch.receipt_calls`)[0]?.['n'])
      .toBe(2);
    expect((await refusedAt()) < shown).toBe(true);
    const [account] = await b.admin`update despatch.provider_accounts set previous_ciphertext = ciphertext,
      previous_until = now() + interval '1 hour', version = version + 1 where id = ${b.accountId} returning version`;
    await b.admin`select despatch.note_verification(${b.accountId}, ${account?.['version']}, 'valid', null)`;
    await expect.poll(() => statusOf(one.seq)).toBe('delivered');
    expect([await callsKept(), await eventsOf(one.seq)]).toEqual([0, ['message.delivered true']]);
    await b.admin`update despatch.provider_accounts set previous_ciphertext = null, previous_until = null,
      version = version + 1 where id = ${b.accountId}`;
  });

  test('is given up when it is a day old', async () => {
    const one = await sent();
    await b.admin`delete from despatch.receipt_calls`;
    await report({
      url: one.callback,
      body: form(one.sid, 'delivered'),
      secret: REPLACED,
      minutesAgo: 24 * 60,
    });
    await expect.poll(async () => (await callsLeft()) + (await callsKept())).toBe(0);
    expect(await statusOf(one.seq)).toBe('sent');
  });

  test.each([
    ['1,000 of an account', 1_003, 1, 1_000],
    ['8 MiB of an account', 20, 1024 * 1024, 8],
  ])('is kept among %s at most', async (_, n, bytes, most) => {
    await using stores = await setupStores();
    const { tenantId } = await seedTenant(stores.admin);
    const [loud, other] = [
      await seedAccount(stores.admin, tenantId, { provider: 'twilio' }),
      await seedAccount(stores.admin, tenantId, { provider: 'twilio' }),
    ];
    await plantCalls(stores.admin, loud, { tenantId, n, bytes });
    await plantCalls(stores.admin, other, { tenantId, n: 2 });
    const kept = async (): Promise<Record<string, number>> => {
      const rows = await stores.admin<{ id: string; n: string }[]>`
        select account_id as id, count(*) as n from despatch.receipt_calls group by account_id`;
      return Object.fromEntries(rows.map((row) => [row.id, Number(row.n)]));
    };
    const none = { reports: [], begun: [], done: [], genuine: [], refused: [] };
    const refuse = async (ids: readonly number[]) =>
      stores.store.settleReceiptCalls({
        ...none,
        again: ids.map((id) => ({ id, ms: 60_000, misconfigured: false, refused: true })),
      });
    const idsLeft = async () =>
      (await stores.admin<{ id: number }[]>`select id from despatch.receipt_calls order by id`).map(
        ({ id }) => id,
      );
    const ids = await idsLeft();
    // In two commits: those that were kept before count too.
    await refuse(ids.slice(0, 5));
    await refuse(ids.slice(5));
    expect(await kept()).toEqual({ [loud]: most, [other]: 2 });
    // Calls that are refused again keep their place.
    await stores.admin`update despatch.receipt_calls set due_at = now()`;
    await refuse(await idsLeft());
    expect(await kept()).toEqual({ [loud]: most, [other]: 2 });
  });

  test('does not keep the replaced secret of its account', async () => {
    await using stores = await setupStores();
    const { tenantId } = await seedTenant(stores.admin);
    const accountId = await seedAccount(stores.admin, tenantId, { provider: 'twilio' });
    await plantCalls(stores.admin, accountId, { tenantId });
    await stores.admin`update despatch.receipt_calls set received_at = now() - interval '2 hours'`;
    await stores.admin`update despatch.provider_accounts set previous_ciphertext = 'x', previous_until = now() - interval '1 hour'
      where id = ${accountId}`;
    const forget = () => stores.admin`select despatch.forget_replaced_secrets() as n`;
    expect((await forget())[0]?.['n']).toBe(0);
    await stores.admin`update despatch.receipt_calls set refused = true`;
    expect((await forget())[0]?.['n']).toBe(1);
  });
});

describe("the vendor's message id", () => {
  type Named = { readonly found: boolean; readonly by?: string };

  /**
   * Applies a receipt that has only an id to a message that the vendor knows as `X-1`. @returns the message's status and the
   * number of remaining receipts.
   */
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
    const completion = completionOf(message, outcome, { receiptsExpected: true });
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

  test('matches a receipt without our id to its message, within the account that sent it', async () => {
    expect(await afterReport({ found: true })).toEqual({ status: 'delivered', left: 1 });
  });

  test.each<Named>([{ found: false }, { found: true, by: 'X-2' }])(
    'matches no receipt otherwise: %o',
    async (named) => {
      expect(await afterReport(named)).toEqual({ status: 'sent', left: 2 });
    },
  );
});

test('a receipt that the database refuses does not delay others and is applied on a retry', async () => {
  const [bad, good] = [await sent(), await sent()];
  await b.admin.unsafe(`create function despatch.refuse_event() returns trigger language plpgsql as
    $$ begin raise exception 'refused'; end $$;
    create trigger refuse_event before insert on despatch.event_log for each row when (new.message_seq = ${bad.seq})
    execute function despatch.refuse_event()`);
  try {
    await report({ url: bad.callback, body: form(bad.sid, 'delivered') });
    await expect.poll(async () => [await callsLeft(), await receiptsLeft()]).toEqual([0, 1]);
    await report({ url: good.callback, body: form(good.sid, 'delivered') });
    await expect.poll(() => statusOf(good.seq)).toBe('delivered');
    const isPutOff = async () => (await b.admin`select waiting from despatch.receipts`)[0]?.['waiting'];
    await expect.poll(isPutOff).toBe(true);
    expect(await statusOf(bad.seq)).toBe('sent');
  } finally {
    await b.admin.unsafe('drop function despatch.refuse_event() cascade');
  }
  await expect.poll(() => statusOf(bad.seq)).toBe('delivered');
  await expect.poll(receiptsLeft).toBe(0);
});

test('while the database refuses every receipt, calls wait, and are applied once it is repaired', async () => {
  const [one, other] = [await sent(), await sent()];
  await b.admin.unsafe(`create function despatch.refuse_receipt() returns trigger language plpgsql as
    $$ begin raise exception 'refused'; end $$;
    create trigger refuse_receipt before insert on despatch.receipts for each row execute function despatch.refuse_receipt()`);
  try {
    for (const { callback, sid } of [one, other])
      await report({ url: callback, body: form(sid, 'delivered') });
    const tries = async () =>
      (await b.admin`select tries from despatch.receipt_calls`).map((row) => row['tries']);
    await expect.poll(tries).toEqual([2, 2]);
  } finally {
    await b.admin.unsafe('drop function despatch.refuse_receipt() cascade');
  }
  await expect.poll(() => statusOf(one.seq)).toBe('delivered');
  await expect.poll(() => statusOf(other.seq)).toBe('delivered');
});

test('a flood of receipt calls to one account does not delay those to another', async () => {
  await using stores = await setupStores();
  const [loud, quiet] = [randomUUID(), randomUUID()];
  const store = (accountId: string, calls: number, age: string) =>
    plantCalls(stores.admin, accountId, { n: calls, bytes: 1_000, age });
  await store(loud, 5_000, '1 hour');
  await store(quiet, 3, '1 second');
  const accountsOf = async (most: number, bytesMax: number) =>
    (await stores.store.claimReceiptCalls({ ...TAKE, most, bytesMax, readable: [] })).map(
      ({ accountId }) => accountId,
    );
  const first = await accountsOf(10, 1_000_000);
  expect([first.length, first.filter((one) => one === quiet).length]).toEqual([10, 3]);
  // A batch contains one call in any case, and further ones as the bytes allow.
  expect(await accountsOf(10, 4_500)).toHaveLength(5);
  expect(await accountsOf(10, 1)).toHaveLength(1);
  // Taken calls belong to the worker that took them until the lease expires.
  expect(first).not.toEqual([]);
  const [left] =
    await stores.admin`select count(*) as n from despatch.receipt_calls where leased_until <= now()`;
  expect(left?.['n']).toBe(5_003 - 16);
});

test('a batch takes the small receipt call of one account beside large calls of others', async () => {
  await using stores = await setupStores();
  const quiet = randomUUID();
  const store = (accountId: string, calls: number, bytes: number) =>
    plantCalls(stores.admin, accountId, { n: calls, bytes });
  for (let account = 0; account < 3; account++) await store(randomUUID(), 3, 100_000);
  await store(quiet, 1, 100);
  const [first, ...rest] = await stores.store.claimReceiptCalls({ ...TAKE, bytesMax: 150_000, readable: [] });
  const taken = [first, ...rest].map(
    (call) => `${call?.accountId === quiet ? 'quiet' : 'other'} ${call?.body.length}`,
  );
  expect(taken.toSorted((a, b) => a.localeCompare(b))).toEqual(['other 100000', 'other 100000', 'quiet 100']);
  // The batch always contains the longest waiting call.
  const [{ id: oldest } = {}] = await stores.admin`select min(id) as id from despatch.receipt_calls`;
  expect(Math.min(...[first, ...rest].map((call) => call?.id ?? 0))).toBe(oldest);
});

test('a batch reads few rows of a flooded account, even with a plan made on an empty table', async () => {
  await using stores = await setupStores();
  const flooded = randomUUID();
  // A connection keeps the plan that it made while the table was empty.
  const session = await stores.admin.reserve();
  const look = `select * from despatch.lock_receipts(10, 10, '{}')`;
  await session.unsafe(look);
  await stores.admin`insert into despatch.receipts (tenant_id, account_id, apply_at, report_key)
    select ${flooded}, ${flooded}, now() - make_interval(secs => n), n::text from generate_series(1, 20000) n`;
  await session.unsafe(look);
  const plan = JSON.stringify(await session.unsafe(`explain (analyze, buffers) ${look}`));
  session.release();
  const pages = Number(/shared hit=(\d+)/.exec(plan)?.[1] ?? 0);
  expect([pages > 0, pages < 1_000, pages]).toEqual([true, true, pages]);
});

describe('a batch of receipts', () => {
  type Planted = {
    tenantId?: string;
    accountId?: string | null;
    n?: number;
    waiting?: boolean;
    age?: string;
  };

  async function setup() {
    const stores = await setupStores();
    return {
      ...stores,
      plant: ({
        tenantId = randomUUID(),
        accountId = randomUUID(),
        n = 1,
        waiting = false,
        age = '1 s',
      }: Planted) =>
        stores.admin`insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, message_id, receipt,
            report_key, received_at, apply_at, waiting)
          select ${tenantId}, ${accountId}, 1, '2031-01-06', gen_random_uuid(), 'delivered', gen_random_uuid(),
            now() - ${age}::interval, now() - ${age}::interval, ${waiting} from generate_series(1, ${n})`,
      /** Takes a batch. @returns the number of receipts of each tenant in it. */
      async take(most: number, without: readonly string[] = []): Promise<Record<string, number>> {
        let owners: (string | null)[] = [];
        const decide = (due: readonly DueReceipt[]) => {
          owners = due.map(({ tenantId }) => tenantId);
          return decideReceipts(due);
        };
        await stores.store.applyReceipts(most, decide, without);
        return Object.fromEntries(
          [...Map.groupBy(owners, String)].map(([owner, all]) => [owner, all.length]),
        );
      },
    };
  }

  test('contains receipts of other tenants beside 20,000 of one tenant', async () => {
    await using b = await setup();
    const [loud, quiet, other] = [randomUUID(), randomUUID(), randomUUID()];
    await b.plant({ tenantId: loud, n: 20_000, age: '1 hour' });
    await b.plant({ tenantId: quiet });
    await b.plant({ tenantId: other, n: 50, accountId: null });
    expect(await b.take(100)).toEqual({ [loud]: 50, [quiet]: 1, [other]: 49 });
    expect(await b.take(100)).toEqual({ [loud]: 99, [other]: 1 });
  });

  test('takes a receipt that waited for its message first, even if ten others are new', async () => {
    await using b = await setup();
    const [come, waited] = [randomUUID(), randomUUID()];
    await b.plant({ tenantId: come, n: 10 });
    await b.plant({ tenantId: waited, waiting: true });
    expect(await b.take(1)).toEqual({ [waited]: 1 });
    expect(await b.take(1)).toEqual({ [come]: 1 });
  });

  test('contains a receipt of a small tenant beside those of a tenant with many accounts', async () => {
    await using b = await setup();
    const [loud, quiet] = [randomUUID(), randomUUID()];
    for (let account = 0; account < 12; account++) await b.plant({ tenantId: loud, n: 20, age: '1 hour' });
    await b.plant({ tenantId: quiet });
    expect(await b.take(8)).toEqual({ [loud]: 7, [quiet]: 1 });
  });

  test('a tenant with many accounts takes no more of a batch than one with few', async () => {
    await using b = await setup();
    const [loud, quiet] = [await seedTenant(b.admin), await seedTenant(b.admin)];
    for (const { tenantId } of [...Array.from({ length: 20 }, () => loud), quiet])
      await b.plant({
        tenantId,
        accountId: await seedAccount(b.admin, tenantId, { provider: 'twilio' }),
        n: 20,
      });
    expect(await b.take(20)).toEqual({ [loud.tenantId]: 10, [quiet.tenantId]: 10 });
  });

  test('gives each tenant a turn, even with more tenants than a batch holds', async () => {
    await using b = await setup();
    const tenants = Array.from({ length: 30 }, () => randomUUID());
    for (const tenantId of tenants) await b.plant({ tenantId, n: 2 });
    const met = new Set<string>();
    for (let turn = 0; turn < 60; turn++) for (const owner of Object.keys(await b.take(3))) met.add(owner);
    expect(met).toEqual(new Set(tenants));
  });

  test('is half filled by receipts that wait for their message, or fully if no others are due', async () => {
    await using b = await setup();
    const [waits, comes] = [randomUUID(), randomUUID()];
    await b.plant({ tenantId: waits, n: 30, waiting: true });
    await b.plant({ tenantId: comes, n: 8 });
    expect(await b.take(10)).toEqual({ [waits]: 5, [comes]: 5 });
    expect(await b.take(10)).toEqual({ [waits]: 7, [comes]: 3 });
    expect(await b.take(10)).toEqual({ [waits]: 10 });
  });

  test('shares the room of waiting receipts between the tenants, whoever waits longest', async () => {
    await using b = await setup();
    const [loud, quiet] = [randomUUID(), randomUUID()];
    for (let account = 0; account < 5; account++)
      await b.plant({ tenantId: loud, n: 20, waiting: true, age: '1 hour' });
    await b.plant({ tenantId: quiet, n: 2, waiting: true });
    expect(await b.take(10)).toEqual({ [loud]: 8, [quiet]: 2 });
  });

  test('contains waiting receipts of other tenants beside thousands of one tenant that are due for longer', async () => {
    await using b = await setup();
    const [loud, quiet, early] = [randomUUID(), randomUUID(), randomUUID()];
    await b.plant({ tenantId: loud, n: 3_000, waiting: true, age: '1 hour' });
    await b.plant({ tenantId: quiet, n: 2, waiting: true });
    await b.plant({ tenantId: early, n: 30, waiting: true });
    for (let other = 0; other < 10; other++) await b.plant({ waiting: true, age: '-1 hour' });
    expect(await b.take(12)).toEqual({ [loud]: 5, [quiet]: 2, [early]: 5 });
    expect(await b.take(12, [loud])).toEqual({ [early]: 12 });
    expect(await b.take(12, [loud, early])).toEqual({});
  });

  test('gives each tenant with waiting receipts a turn, even with more tenants than a batch tries', async () => {
    await using b = await setup();
    const loud = randomUUID();
    const tenants = Array.from({ length: 30 }, () => randomUUID());
    await b.plant({ tenantId: loud, n: 1_000, waiting: true, age: '1 hour' });
    for (const tenantId of tenants) await b.plant({ tenantId, n: 2, waiting: true });
    const all = new Set([loud, ...tenants]);
    const met = new Set<string>();
    // Each turn begins with a random tenant, so that one is passed over now and then, but not for long.
    for (let turn = 0; turn < 400 && met.size < all.size; turn++)
      for (const owner of Object.keys(await b.take(4))) met.add(owner);
    expect(met).toEqual(all);
  });

  test('contains receipts that other transactions leave, where these hold the next ones', async () => {
    await using b = await setup();
    const waits = randomUUID();
    await b.plant({ tenantId: waits, n: 15, waiting: true });
    await b.admin.begin(async (tx) => {
      await tx`select from despatch.lock_receipts(10, 10, '{}')`;
      expect(await b.take(10)).toEqual({ [waits]: 5 });
    });
  });

  test('skips excluded tenants with all their accounts, and their waiting receipts', async () => {
    await using b = await setup();
    const [loud, quiet] = [randomUUID(), randomUUID()];
    const { tenantId: known } = await seedTenant(b.admin);
    const accountId = await seedAccount(b.admin, known, { provider: 'twilio' });
    await b.plant({ tenantId: known, accountId, n: 5 });
    await b.plant({ tenantId: loud, accountId: null, n: 5 });
    await b.plant({ tenantId: quiet, accountId: null, n: 2 });
    await b.plant({ tenantId: quiet, n: 3, waiting: true });
    await b.plant({ tenantId: loud, n: 4, waiting: true, age: '1 hour' });
    expect(await b.take(20, [loud, known])).toEqual({ [quiet]: 5 });
    expect(await b.take(20, [loud])).toEqual({ [known]: 5 });
    expect(await b.take(20)).toEqual({ [loud]: 9 });
  });
});

describe('receipts that match no message', () => {
  async function setup(waiting: number, age: string) {
    const stores = await setupStores();
    const tenant = await seedTenant(stores.admin);
    const accountId = await seedAccount(stores.admin, tenant.tenantId, { provider: 'twilio' });
    const plant = (n: number, isWaiting: boolean, applyIn: string, received: string) =>
      stores.admin`insert into despatch.receipts (tenant_id, account_id, provider_message_id, receipt, report_key,
          received_at, apply_at, waiting)
        select ${tenant.tenantId}, ${accountId}, 'SM' || n, 'delivered', gen_random_uuid(),
          now() - ${received}::interval, now() + ${applyIn}::interval, ${isWaiting} from generate_series(1, ${n}) as n`;
    await plant(waiting, true, '1 hour', age);
    return { ...stores, accountId, plant };
  }
  const resultsOf = async (store: WorkerStore): Promise<string[]> =>
    (await store.applyReceipts(100, decideReceipts)).results.map(({ result }) => result).toSorted();

  test('wait up to a limit per account; the account shows too_many_waiting for the rest', async () => {
    await using b = await setup(9_998, '1 minute');
    await b.plant(5, false, '0', '0');
    expect(await resultsOf(b.store)).toEqual(['full', 'full', 'full', 'waiting', 'waiting']);
    const [left] = await b.admin`select count(*) as n from despatch.receipts`;
    expect(left?.['n']).toBe(10_000);
    const [account] =
      await b.admin`select receipt_refused_reason as reason, receipt_refused_at > now() - interval '1 minute'
      as recent from despatch.provider_accounts where id = ${b.accountId}`;
    expect(account).toEqual({ reason: 'too_many_waiting', recent: true });
  });

  test('leave half of the limit to new receipts and are dropped beyond it', async () => {
    await using b = await setup(4_999, '1 hour');
    await b.plant(3, true, '-1 s', '1 hour');
    await b.plant(1, false, '0', '0');
    expect(await resultsOf(b.store)).toEqual(['full', 'full', 'full', 'waiting']);
  });
});

test('a receipt call settled in several commits stores each report once and ends with the last', async () => {
  await using stores = await setupStores();
  const { tenantId } = await seedTenant(stores.admin);
  const accountId = await seedAccount(stores.admin, tenantId, { provider: 'twilio' });
  await plantCalls(stores.admin, accountId, { tenantId });
  const [call] = await stores.store.claimReceiptCalls(TAKE);
  const id = call?.id ?? 0;
  const report = { call_id: id, happened_ms: 0 } as CallReportRow;
  const none = { begun: [], done: [], again: [], genuine: [], refused: [] };
  const left = async () => {
    const [row] = await stores.admin`select (select count(*) from despatch.receipts) as receipts,
      (select count(*) from despatch.receipt_calls) as calls`;
    return [Number(row?.['receipts']), Number(row?.['calls'])];
  };
  await stores.store.settleReceiptCalls({ ...none, reports: [report, report], begun: [id] });
  expect(await left()).toEqual([2, 1]);
  await stores.store.settleReceiptCalls({ ...none, reports: [report], done: [id] });
  expect(await left()).toEqual([3, 0]);
  // Another worker settles the call after its own lease expired.
  await stores.store.settleReceiptCalls({ ...none, reports: [report], begun: [id] });
  await stores.store.settleReceiptCalls({ ...none, reports: [report], done: [id] });
  expect(await left()).toEqual([3, 0]);
});

test('a receipt call counts its undecided readings, and not the times that a lease ended', async () => {
  await using stores = await setupStores();
  const { tenantId } = await seedTenant(stores.admin);
  const accountId = await seedAccount(stores.admin, tenantId, { provider: 'twilio' });
  await plantCalls(stores.admin, accountId, { tenantId });
  const take = async () => {
    const [call] = await stores.store.claimReceiptCalls({
      most: 10,
      bytesMax: 1_000,
      bodyMax: ANY,
      leaseMs: 60_000,
      readable: ['twilio'],
    });
    return { id: call?.id ?? 0, tries: call?.tries };
  };
  const { id, tries } = await take();
  expect(tries).toBe(1);
  await stores.admin`update despatch.receipt_calls set leased_until = now() - interval '1 s'`;
  expect(await take()).toEqual({ id, tries: 1 });
  const none = { reports: [], begun: [], done: [], genuine: [], refused: [] };
  await stores.store.settleReceiptCalls({ ...none, again: [{ id, ms: 0, misconfigured: false }] });
  expect(await take()).toEqual({ id, tries: 2 });
});

test('reports are due in the order in which their receipt calls arrived, in any settling order', async () => {
  await using stores = await setupStores();
  const { tenantId } = await seedTenant(stores.admin);
  const accountId = await seedAccount(stores.admin, tenantId, { provider: 'twilio' });
  await plantCalls(stores.admin, accountId, { tenantId, n: 20 });
  const calls = await stores.store.claimReceiptCalls({ ...TAKE, most: 20 });
  const ids = calls.map(({ id }) => id).toSorted((a, b) => b - a);
  const reports = ids.flatMap((id) =>
    ['first', 'second'].map((nth) => ({ call_id: id, happened_ms: 0, report_key: `${id} ${nth}` })),
  ) as CallReportRow[];
  const none = { begun: [], done: [], again: [], genuine: [], refused: [] };
  await stores.store.settleReceiptCalls({ ...none, reports, done: ids });
  const came = ids.toReversed().flatMap((id) => [`${id} first`, `${id} second`]);
  const stored = await stores.admin<{ report_key: string; is_due: boolean }[]>`
    select report_key, apply_at <= clock_timestamp() as is_due from despatch.receipts order by apply_at`;
  expect(stored.map((row) => row.report_key)).toEqual(came);
  expect(stored.every((row) => row.is_due)).toBe(true);
});

test('receipt calls of a provider unknown to a worker are left to other workers for a day', async () => {
  await using stores = await setupStores();
  const { tenantId } = await seedTenant(stores.admin);
  const accounts = new Map<string, string>();
  for (const provider of ['twilio', 'brand-new', 'gone'])
    accounts.set(provider, await seedAccount(stores.admin, tenantId, { provider }));
  await stores.admin`update despatch.provider_accounts set status = 'deleted' where id = ${accounts.get('gone') ?? ''}`;
  for (const accountId of accounts.values()) await plantCalls(stores.admin, accountId, { tenantId });
  const nameOf = (id: string) => [...accounts].find(([, one]) => one === id)?.[0];
  const take = async (...readable: string[]) =>
    (await stores.store.claimReceiptCalls({ ...TAKE, readable }))
      .map(({ accountId }) => nameOf(accountId) ?? '')
      .toSorted((a, b) => a.localeCompare(b));
  expect(await take('twilio')).toEqual(['gone', 'twilio']);
  expect(await take('twilio')).toEqual([]);
  expect(await take('twilio', 'brand-new')).toEqual(['brand-new']);
  await stores.admin`update despatch.receipt_calls set received_at = now() - interval '25 hours',
    due_at = now() - interval '25 hours', leased_until = now() - interval '25 hours'
    where account_id = ${accounts.get('brand-new') ?? ''}`;
  expect(await take('twilio')).toEqual(['brand-new']);
  // It is then taken as a call that nobody can read.
  await stores.admin`update despatch.receipt_calls set leased_until = '-infinity'`;
  const versions = Object.fromEntries(
    (await stores.store.claimReceiptCalls(TAKE)).map((call) => [
      nameOf(call.accountId) ?? '',
      call.accountVersion,
    ]),
  );
  expect(versions).toEqual({ 'brand-new': null, gone: null, twilio: 1 });
});

test('a tenant with many accounts takes no more of a batch than one with few', async () => {
  await using stores = await setupStores();
  const [loud, quiet] = [await seedTenant(stores.admin), await seedTenant(stores.admin)];
  for (const { tenantId } of [...Array.from({ length: 20 }, () => loud), quiet])
    await plantCalls(stores.admin, await seedAccount(stores.admin, tenantId, { provider: 'twilio' }), {
      tenantId,
      n: 12,
      age: '1 hour',
    });
  const taken = await stores.store.claimReceiptCalls({ ...TAKE, most: 20 });
  const ofLoud = taken.filter(({ tenantId }) => tenantId === loud.tenantId);
  expect([taken.length, ofLoud.length]).toEqual([20, 10]);
  expect(new Set(ofLoud.map(({ accountId }) => accountId)).size).toBe(10);
});

test('a batch with a maximum body size leaves larger receipt calls', async () => {
  await using stores = await setupStores();
  const { tenantId } = await seedTenant(stores.admin);
  const accountId = await seedAccount(stores.admin, tenantId, { provider: 'twilio' });
  for (const bytes of [2_000, 100, 3_000, 200])
    await plantCalls(stores.admin, accountId, { tenantId, bytes });
  const sizesOf = async (bodyMax: number) =>
    (await stores.store.claimReceiptCalls({ ...TAKE, bytesMax: 10_000, bodyMax }))
      .map(({ body }) => body.length)
      .toSorted((a, b) => a - b);
  expect(await sizesOf(1_000)).toEqual([100, 200]);
  expect(await sizesOf(ANY)).toEqual([2_000, 3_000]);
});

test('a batch leaves the receipt calls of excluded tenants for later', async () => {
  await using stores = await setupStores();
  const [loud, quiet] = [await seedTenant(stores.admin), await seedTenant(stores.admin)];
  for (const { tenantId } of [loud, loud, quiet])
    await plantCalls(stores.admin, await seedAccount(stores.admin, tenantId, { provider: 'twilio' }), {
      tenantId,
      n: 2,
      age: '1 hour',
    });
  const take = async (without: readonly string[]) =>
    (await stores.store.claimReceiptCalls({ ...TAKE, without })).map(({ tenantId }) => tenantId);
  expect(await take([loud.tenantId])).toEqual([quiet.tenantId, quiet.tenantId]);
  expect(await take([])).toEqual(Array.from({ length: 4 }, () => loud.tenantId));
});

test('a storm of receipt calls of one tenant does not delay the receipt of another tenant', async () => {
  const one = await sent();
  const loud = await seedTenant(b.admin);
  const config = { accountSid: `AC${'1'.repeat(32)}`, from: '+15005550006' };
  const accountId = await seedAccount(b.admin, loud.tenantId, { provider: 'twilio', config });
  const stormLeft = async (): Promise<number> =>
    Number(
      (
        await b.admin`select count(*) as n from despatch.receipt_calls
        where account_id = ${accountId} and not refused`
      )[0]?.['n'],
    );
  const stop = new AbortController();
  const sending = (async () => {
    while (!stop.signal.aborted) await sent();
  })();
  const calls = 6_000;
  await plantCalls(b.admin, accountId, { tenantId: loud.tenantId, n: calls });
  await expect.poll(stormLeft).toBeLessThan(calls);
  await report({ url: one.callback, body: form(one.sid, 'delivered') });
  await expect.poll(() => statusOf(one.seq)).toBe('delivered');
  expect(await stormLeft()).toBeGreaterThan(calls / 4);
  stop.abort();
  await sending;
  await expect.poll(stormLeft, { timeout: 20_000 }).toBe(0);
});

test('two workers that take receipt calls concurrently take different ones', async () => {
  await using stores = await setupStores();
  for (let account = 0; account < 3; account++) await plantCalls(stores.admin, randomUUID(), { n: 4 });
  const taken = await stores.admin.begin(async (tx) => {
    const first = await tx<
      { id: number }[]
    >`select id from despatch.claim_receipt_calls(6, 1000, ${ANY}, 60000, '{}', '{}')`;
    const second = await stores.store.claimReceiptCalls({ ...TAKE, most: 6, readable: [] });
    return [...first, ...second].map(({ id }) => id);
  });
  expect([taken.length, new Set(taken).size]).toEqual([12, 12]);
});
