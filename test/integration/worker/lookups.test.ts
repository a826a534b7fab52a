import { createSecretKey, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import { RECEIPT_TIMEOUT_MS } from '#core/domain/sending/settle.ts';
import { startSinchStandIn } from '#providers/sinch/stand-in.ts';
import type { Fault, StandIn } from '#providers/stand-in.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';
import type { Worker } from '../../../services/worker/build-worker.ts';

/** The path of a lookup at Twilio. No other call matches it. */
const ASKED = /\/Messages\/[^/]+\.json$/;
const TERMS = {
  accountsMax: 8,
  failingMax: 1,
  paces: [{ provider: 'twilio', most: 4 }],
  leaseMs: 60_000,
} as const;

let b: Awaited<ReturnType<typeof setupWorkers>> & { asking: Worker };
let sinch: StandIn;

beforeAll(async () => {
  const receipts = { publicBaseUrl: 'https://hooks.example', receiptKey: createSecretKey(randomBytes(32)) };
  sinch = await startSinchStandIn();
  const delivery = await setupWorkers({}, { receipts, origins: { sinch: sinch.origin } });
  b = { ...delivery, asking: delivery.startWorker() };
});
afterAll(async () => {
  await b?.[Symbol.asyncDispose]();
  await sinch?.[Symbol.asyncDispose]();
});

async function recordOf(seq: number) {
  const [row] = await b.admin`select * from despatch.message_states where seq = ${seq}`;
  return row ?? {};
}
const statusOf = async (seq: number) => (await recordOf(seq))['status'] as string;
const eventsOf = async (seq: number): Promise<string[]> =>
  (
    await b.admin<{ type: string; applied: boolean }[]>`select type, applied from despatch.events
      where message_seq = ${seq} and type <> 'message.sent' and source <> 'attempt' order by event_seq`
  ).map(({ type, applied }) => `${type} ${applied}`);
const lookupOf = async (seq: number) =>
  (
    await b.admin`select *, ask_at > now() + interval '61 seconds' as is_later from despatch.lookups where seq = ${seq}`
  )[0];
const sidOf = async (seq: number) => (await recordOf(seq))['provider_message_id'] as string;
const askedAbout = (sid: string): number =>
  b.twilio.received.filter(({ path }) => path.endsWith(`/Messages/${sid}.json`)).length;

/** Sends a message that the provider accepted an hour ago and has not reported on. */
async function silent(faults: readonly Fault[] = [], meanwhile?: () => Promise<void>): Promise<number> {
  const seq = (await b.send(1))[0]?.seq ?? 0;
  await expect.poll(() => statusOf(seq)).toBe('sent');
  for (const fault of faults) b.twilio.fail(fault, ASKED);
  await b.admin`update despatch.lookup_turns set next_at = now(), open_at = now(), failures = 0`;
  await b.admin`update despatch.message_results set sent_at = now() - interval '1 hour' where seq = ${seq}`;
  await b.admin`update despatch.awaited_receipts set due_at = now() where seq = ${seq}`;
  await meanwhile?.();
  // Workers do this every ten seconds.
  await b.store.expireReceipts(100, ['twilio'], RECEIPT_TIMEOUT_MS);
  return seq;
}
const says = (body: unknown): Fault => ({ kind: 'reply', status: 200, body });
const notFound: Fault = { kind: 'reply', status: 404, body: { code: 20404, message: 'Not found' } };

describe('a message without a receipt', () => {
  test('is due for a status lookup an hour after the provider accepted it, and not before', async () => {
    const seq = (await b.send(1))[0]?.seq ?? 0;
    await expect.poll(() => statusOf(seq)).toBe('sent');
    const [due] = await b.admin`select round(extract(epoch from due_at - now()) / 60)::int as minutes
      from despatch.awaited_receipts where seq = ${seq}`;
    expect(due?.['minutes']).toBe(60);
    expect(askedAbout(await sidOf(seq))).toBe(0);
  });

  test('becomes delivered if the status lookup returns that, and is not looked up again', async () => {
    const seq = await silent();
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    expect(await recordOf(seq)).toMatchObject({ final: true, failure: null });
    expect(await eventsOf(seq)).toEqual(['message.delivered true']);
    expect(askedAbout(await sidOf(seq))).toBe(1);
    expect(await lookupOf(seq)).toBeUndefined();
  });

  test('becomes undelivered with its failure if the status lookup returns that', async () => {
    const seq = await silent([says({ status: 'undelivered', error_code: 30005 })]);
    await expect.poll(() => statusOf(seq)).toBe('undelivered');
    expect(await recordOf(seq)).toMatchObject({
      final: true,
      failure: { class: 'invalid_recipient', code: 'unreachable_number', providerCode: '30005' },
    });
  });

  test('is looked up again without an event while its provider has it queued', async () => {
    const seq = await silent([says({ status: 'queued' })]);
    await expect.poll(async () => (await lookupOf(seq))?.['is_later']).toBe(true);
    await expect.poll(async () => askedAbout(await sidOf(seq))).toBe(1);
    expect([await statusOf(seq), await eventsOf(seq)]).toEqual(['sent', []]);
    await b.admin`update despatch.lookups set ask_at = now() where seq = ${seq}`;
    await b.admin`update despatch.lookup_turns set next_at = now()`;
    await expect.poll(() => statusOf(seq)).toBe('delivered');
  });

  test('is not given up while its provider is being asked, though its wait is over once more', async () => {
    const seq = await silent([says({ status: 'queued' })]);
    await expect.poll(async () => (await lookupOf(seq))?.['is_later']).toBe(true);
    await b.admin`insert into despatch.awaited_receipts (seq, purge_on, tenant_id, due_at)
      select seq, purge_on, tenant_id, now() from despatch.message_results where seq = ${seq}`;
    await b.store.expireReceipts(100, ['twilio'], RECEIPT_TIMEOUT_MS);
    expect([await statusOf(seq), await eventsOf(seq)]).toEqual(['sent', []]);
    expect(await lookupOf(seq)).toBeDefined();
  });

  test('stays sent if its provider does not know it, then unknown after the receipt timeout', async () => {
    const seq = await silent([notFound]);
    await expect.poll(async () => askedAbout(await sidOf(seq))).toBe(1);
    expect([await statusOf(seq), await eventsOf(seq)]).toEqual(['sent', []]);
    const [until] = await b.admin`select round(extract(epoch from until_at - since) / 3600)::int as hours
      from despatch.lookups where seq = ${seq}`;
    expect(until?.['hours']).toBe(72);
    await b.admin`update despatch.lookups set until_at = now() where seq = ${seq}`;
    await b.store.expireReceipts(100, ['twilio'], RECEIPT_TIMEOUT_MS);
    await expect.poll(() => statusOf(seq)).toBe('unknown');
    expect(await recordOf(seq)).toMatchObject({ reason: 'receipt_timeout' });
    expect(await lookupOf(seq)).toBeUndefined();
  });

  test('is not looked up again once a receipt has arrived', async () => {
    const seq = await silent([says({ status: 'queued' })]);
    await expect.poll(async () => (await lookupOf(seq))?.['is_later']).toBe(true);
    await b.admin`insert into despatch.receipts (tenant_id, message_seq, purge_on, attempt, receipt, apply_at)
      select tenant_id, seq, purge_on, 1, 'delivered', now() from despatch.message_results where seq = ${seq}`;
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    await b.admin`update despatch.lookups set ask_at = now() where seq = ${seq}`;
    await b.admin`update despatch.lookup_turns set next_at = now()`;
    await expect.poll(() => lookupOf(seq)).toBeUndefined();
    expect(askedAbout(await sidOf(seq))).toBe(1);
  });

  test('is looked up later if its provider fails, with a backoff for the whole account', async () => {
    const seq = await silent([{ kind: 'reply', status: 503, body: {} }]);
    await expect.poll(async () => askedAbout(await sidOf(seq))).toBe(1);
    await expect
      .poll(
        async () =>
          await b.admin`select failures, round(extract(epoch from open_at - now()) / 10)::int as pause
        from despatch.lookup_turns where account_id = ${b.accountId}`,
      )
      .toMatchObject([{ failures: 1, pause: 6 }]);
    expect(await statusOf(seq)).toBe('sent');
    await b.admin`update despatch.lookups set ask_at = now() where seq = ${seq}`;
    await b.admin`update despatch.lookup_turns set next_at = now(), open_at = now()`;
    await expect.poll(() => statusOf(seq)).toBe('delivered');
  });

  test('waits if the credential is refused for lookups, while its account continues to send', async () => {
    const seq = await silent([
      { kind: 'reply', status: 401, body: { code: 20003, message: 'Authenticate' } },
    ]);
    const turn = async () =>
      (
        await b.admin`select failures, round(extract(epoch from open_at - now()) / 60)::int as minutes
          from despatch.lookup_turns where account_id = ${b.accountId}`
      )[0];
    await expect.poll(turn).toMatchObject({ failures: 1, minutes: 60 });
    expect([await statusOf(seq), await eventsOf(seq)]).toEqual(['sent', []]);
    const [account] =
      await b.admin`select status, health from despatch.provider_accounts where id = ${b.accountId}`;
    expect(account).toEqual({ status: 'active', health: 'healthy' });
    const other = (await b.send(1))[0]?.seq ?? 0;
    await expect.poll(() => statusOf(other)).toBe('sent');
    // The account's key was replaced.
    b.asking.notice('account', { tenantId: b.tenant.tenantId, id: b.accountId });
    await expect.poll(() => statusOf(seq)).toBe('delivered');
  });

  test('is looked up by another worker if its own stops, which does not wait for the answer', async () => {
    const stopped = b.startWorker({ name: 'stopped', deadlineMs: 20_000, sweepMs: 20 });
    await b.asking.stop();
    const seq = await silent([{ kind: 'hang' }]);
    await expect.poll(async () => askedAbout(await sidOf(seq))).toBe(1);
    const begun = performance.now();
    await stopped.stop();
    expect(performance.now() - begun).toBeLessThan(15_000);
    expect((await b.admin`select failures from despatch.lookup_turns`)[0]).toEqual({ failures: 0 });
    b.asking = b.startWorker();
    await expect.poll(() => statusOf(seq)).toBe('delivered');
  });

  test('is not looked up while its account is disabled', async () => {
    const seq = await silent([], async () => {
      await b.admin`update despatch.provider_accounts set status = 'disabled', version = version + 1
        where id = ${b.accountId}`;
    });
    await expect
      .poll(async () => (await b.admin`select max(failures) as n from despatch.lookup_turns`)[0]?.['n'])
      .toBeGreaterThan(0);
    expect(askedAbout(await sidOf(seq))).toBe(0);
    await b.admin`update despatch.provider_accounts set status = 'active', version = version + 1
      where id = ${b.accountId}`;
    await b.admin`update despatch.lookups set ask_at = now() where seq = ${seq}`;
    await b.admin`update despatch.lookup_turns set next_at = now(), open_at = now()`;
    await expect.poll(() => statusOf(seq)).toBe('delivered');
  });
});

describe('an unanswered call to a provider with lookups by our reference', () => {
  const BATCHES = /\/batches$/;
  const sends = (id: string) =>
    sinch.received.filter((one) => one.method === 'POST' && one.body.includes(id));

  /** Sends a message whose first call breaks off. @returns it with its id. */
  async function broken(overrides: Record<string, unknown> = {}): Promise<{ seq: number; id: string }> {
    const accountId = await seedAccount(b.admin, b.tenant.tenantId, {
      provider: 'sinch',
      config: { servicePlanId: 'plan' },
    });
    sinch.fail({ kind: 'reset' }, BATCHES);
    const [sent] = await b.send(1, { account_id: accountId, ...overrides });
    const seq = sent?.seq ?? 0;
    const [row] = await b.admin`select id from despatch.messages where seq = ${seq}`;
    await expect.poll(async () => (await recordOf(seq))['reason']).toBe('ambiguous_attempt');
    return { seq, id: String(row?.['id']) };
  }

  /** Repeats the broken call to the provider, as if it had arrived. */
  async function taken(id: string): Promise<void> {
    const [call] = sends(id);
    await fetch(sinch.origin + (call?.path ?? ''), {
      method: 'POST',
      headers: { authorization: 'Bearer x' },
      body: call?.body ?? '',
    });
  }
  const retryNow = (seq: number) =>
    b.admin`update despatch.live_messages set next_attempt_at = now(), due_at = now() where seq = ${seq}`;

  test('is not repeated if the lookup finds the message', async () => {
    const { seq, id } = await broken();
    await taken(id);
    await retryNow(seq);
    await expect.poll(() => statusOf(seq)).toBe('sent');
    expect(await recordOf(seq)).toMatchObject({ duplicate_risk: false, attempt: 2 });
    expect(await sidOf(seq)).toMatch(/^01[0-9A-F]{24}$/);
    // The broken call and the one with which the test repeated it.
    expect(sends(id)).toHaveLength(2);
  });

  test('is repeated if the lookup does not find the message', async () => {
    const { seq, id } = await broken();
    await retryNow(seq);
    await expect.poll(() => statusOf(seq)).toBe('sent');
    expect(sends(id)).toHaveLength(2);
  });

  test('is not repeated while the lookup fails', async () => {
    const { seq, id } = await broken();
    sinch.fail({ kind: 'reply', status: 500, body: {} }, /client_reference/);
    await retryNow(seq);
    await expect.poll(async () => (await recordOf(seq))['attempt']).toBe(2);
    await expect.poll(() => statusOf(seq)).toBe('deferred');
    expect(sends(id)).toHaveLength(1);
  });

  test('of a message that may not be sent again is resolved by a lookup', async () => {
    const { seq, id } = await broken({ expires_at: new Date(Date.now() + 30_000) });
    await expect.poll(() => statusOf(seq)).toBe('unknown');
    await taken(id);
    await b.admin`update despatch.awaited_receipts set due_at = now() where seq = ${seq}`;
    await b.store.expireReceipts(100, ['sinch'], RECEIPT_TIMEOUT_MS);
    await expect.poll(() => statusOf(seq)).toBe('delivered');
    expect(await recordOf(seq)).toMatchObject({ reason: null, final: true });
    expect(sends(id)).toHaveLength(2);
  });

  test('makes the message sent if it is queued at the provider, whose id then matches receipts', async () => {
    const { seq, id } = await broken({ expires_at: new Date(Date.now() + 30_000) });
    await expect.poll(() => statusOf(seq)).toBe('unknown');
    await taken(id);
    sinch.fail(says({ statuses: [{ status: 'Queued', code: 400 }] }), /delivery_report/);
    await b.admin`update despatch.awaited_receipts set due_at = now() where seq = ${seq}`;
    await b.store.expireReceipts(100, ['sinch'], RECEIPT_TIMEOUT_MS);
    await expect.poll(() => statusOf(seq)).toBe('sent');
    const vendorId = await sidOf(seq);
    expect(vendorId).toMatch(/^01[0-9A-F]{24}$/);
    const [event] = await b.admin`select type, details from despatch.events
      where message_seq = ${seq} and source = 'receipt'`;
    expect(event).toMatchObject({
      type: 'message.sent',
      details: { providerStatus: 'Queued', verified: true },
    });
    await expect.poll(async () => (await lookupOf(seq))?.['asks']).toBe(1);
    // A receipt that identifies the message only by the provider's id.
    await b.admin`insert into despatch.receipts (tenant_id, account_id, provider_message_id, receipt, apply_at)
      select tenant_id, account_id, provider_message_id, 'delivered', now() from despatch.message_results
      where seq = ${seq}`;
    await expect.poll(() => statusOf(seq)).toBe('delivered');
  });
});

/** Inserts messages to look up, each accepted as `S<n>`, without a worker that does lookups. */
async function planted(stores: Awaited<ReturnType<typeof setupStores>>, messages: number, accounts = 1) {
  const tenant = await seedTenant(stores.admin);
  const ids: string[] = [];
  for (let n = 0; n < accounts; n++) {
    const accountId = await seedAccount(stores.admin, tenant.tenantId, { provider: 'twilio' });
    ids.push(accountId);
    await acceptBatch(
      stores.api,
      Array.from({ length: messages }, () => acceptRow(tenant, { account_id: accountId })),
    );
  }
  await stores.admin`with l as (delete from despatch.live_messages returning *)
    insert into despatch.message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, account_id,
      provider, provider_message_id, final, expires_at, sent_at, updated_at)
    select l.seq, l.purge_on, l.tenant_id, 'sent', 1, false, l.account_id, 'twilio', 'S' || l.seq, false, now(),
      now() - interval '1 hour', now() from l`;
  await stores.admin`insert into despatch.awaited_receipts (seq, purge_on, tenant_id, due_at)
    select seq, purge_on, tenant_id, now() from despatch.message_results`;
  await stores.store.expireReceipts(100_000, ['twilio'], RECEIPT_TIMEOUT_MS);
  return { ...tenant, accounts: ids };
}

const turnOf = (account_id: string, turn: number, failures: number, pause_ms: number) => ({
  account_id,
  turn,
  failures,
  pause_ms,
});

/** Returns in how many seconds each account's next lookup is allowed, the earliest first. */
async function turnsOf({ admin }: Awaited<ReturnType<typeof setupStores>>): Promise<number[]> {
  const rows = await admin<{ s: number }[]>`
    select ceil(extract(epoch from next_at - now()))::int as s from despatch.lookup_turns order by next_at`;
  return rows.map(({ s }) => s);
}

describe('status lookups', () => {
  test('of an account are taken by one worker, up to a limit, and do not delay other accounts', async () => {
    await using stores = await setupStores();
    const { accounts } = await planted(stores, 50, 2);
    const taken = (await Promise.all([1, 2, 3].map(() => stores.store.takeLookups(TERMS)))).flat();
    const counts = accounts.map((one) => taken.filter(({ accountId }) => accountId === one).length);
    expect(counts).toEqual([4, 4]);
    expect(new Set(taken.map(({ seq }) => seq)).size).toBe(8);
    expect(await stores.store.takeLookups(TERMS)).toEqual([]);
    // The turns are leased until they are settled or the worker's lease expires.
    expect(await turnsOf(stores)).toEqual([60, 60]);
    const turns = taken.slice(0, 1).map(({ accountId, turn }) => turnOf(accountId, turn, 0, 4_000));
    await stores.store.settleLookups({ reports: [], found: [], done: [], again: [], turns });
    expect(await turnsOf(stores)).toEqual([4, 60]);
    await stores.admin`update despatch.lookup_turns set next_at = now()`;
    expect(await stores.store.takeLookups(TERMS)).toHaveLength(8);
  });

  test('skip messages that have been reported meanwhile, however many there are', async () => {
    await using stores = await setupStores();
    await planted(stores, 400);
    await stores.admin`
      update despatch.message_results set status = 'delivered', final = true
      where seq < (select max(seq) from despatch.lookups)`;
    const [last] = await stores.admin<
      { seq: number }[]
    >`select max(seq)::float8 as seq from despatch.lookups`;
    expect((await stores.store.takeLookups(TERMS)).map(({ seq }) => seq)).toEqual([last?.seq]);
    expect(await stores.admin`select from despatch.lookups`).toHaveLength(1);
  });

  test('of failing accounts are taken one at a time, and for one such account at a time', async () => {
    await using stores = await setupStores();
    const { accounts } = await planted(stores, 5, 3);
    await stores.admin`update despatch.lookup_turns set failures = 3 where account_id <> ${accounts[0] ?? ''}`;
    const taken = await stores.store.takeLookups(TERMS);
    expect(taken.filter(({ accountId }) => accountId === accounts[0])).toHaveLength(4);
    expect(taken.filter(({ failures }) => failures === 3)).toHaveLength(1);
    expect(await stores.store.takeLookups({ ...TERMS, accountsMax: 0, failingMax: 0 })).toEqual([]);
  });

  test('of providers that this build does not know are left to other workers', async () => {
    await using stores = await setupStores();
    await planted(stores, 1);
    expect(await stores.store.takeLookups({ ...TERMS, paces: [{ provider: 'sinch', most: 4 }] })).toEqual([]);
    expect(await stores.store.takeLookups(TERMS)).toHaveLength(1);
  });

  test('of a worker with an outdated turn do not change the turn of the account', async () => {
    await using stores = await setupStores();
    await planted(stores, 1);
    const take = async () => (await stores.store.takeLookups(TERMS))[0];
    const slow = await take();
    await stores.admin`update despatch.lookup_turns set next_at = now()`;
    await stores.admin`update despatch.lookups set ask_at = now()`;
    const other = await take();
    expect([slow?.turn, other?.turn]).toEqual([1, 2]);
    const turns = [turnOf(slow?.accountId ?? '', 1, 9, 3_600_000)];
    await stores.store.settleLookups({ reports: [], found: [], done: [], again: [], turns });
    expect(await turnsOf(stores)).toEqual([60]);
  });

  test('that are returned without a call do not count as tries', async () => {
    await using stores = await setupStores();
    await planted(stores, 1);
    for (const unasked of [true, true, false]) {
      await stores.admin`update despatch.lookups set ask_at = now()`;
      await stores.admin`update despatch.lookup_turns set next_at = now()`;
      const [due] = await stores.store.takeLookups(TERMS);
      if (due === undefined) throw new Error('nothing to ask about');
      expect(due.asks).toBe(1);
      const again = [{ seq: due.seq, asks: due.asks, ms: 0, unasked }];
      await stores.store.settleLookups({ reports: [], found: [], done: [], again, turns: [] });
    }
    expect(await stores.admin`select asks from despatch.lookups`).toEqual([{ asks: 1 }]);
  });

  test('resume at once for an account in backoff with new credentials, not for others', async () => {
    await using stores = await setupStores();
    const { accounts } = await planted(stores, 2, 2);
    await stores.store.takeLookups(TERMS);
    const [changed = '', other = ''] = accounts;
    await stores.admin`update despatch.lookups set ask_at = now() + interval '3 hours'`;
    await stores.admin`update despatch.lookup_turns set next_at = now() + interval '2 hours',
      open_at = now() + interval '2 hours', failures = 2 where account_id = ${changed}`;
    await stores.store.resumeLookups(changed);
    await stores.store.resumeLookups(other);
    expect(await stores.store.takeLookups(TERMS)).toMatchObject([{ accountId: changed, failures: 2 }]);
  });

  test('that were made but not recorded are repeated and cause one event only', async () => {
    await using stores = await setupStores();
    const { tenantId, accounts } = await planted(stores, 1);
    const again = async () => {
      await stores.admin`update despatch.lookups set ask_at = now()`;
      await stores.admin`update despatch.lookup_turns set next_at = now()`;
      const [due] = await stores.store.takeLookups(TERMS);
      if (due === undefined) throw new Error('nothing to ask about');
      return due;
    };
    // The first worker dies, the second one answers late, and the third one in time.
    const first = await again();
    const second = await again();
    const third = await again();
    expect([first.asks, second.asks, third.asks]).toEqual([1, 2, 3]);
    const settle = ({ seq, purgeOn, messageId, asks }: typeof first) =>
      stores.store.settleLookups({
        reports: [
          {
            tenant_id: tenantId,
            account_id: accounts[0] ?? '',
            message_seq: seq,
            purge_on: purgeOn,
            message_id: messageId,
            provider_message_id: undefined,
            receipt: 'delivered',
            temporary: undefined,
            failure: undefined,
            segment: undefined,
            engagement: undefined,
            provider_status: 'delivered',
            verified: true,
            happened_ms: Date.now(),
            report_key: 'same',
            received_ms: Date.now(),
          },
        ],
        found: [],
        done: [{ seq, asks }],
        again: [],
        turns: [],
      });
    await settle(second);
    expect((await stores.admin`select * from despatch.lookups`).length).toBe(1);
    await settle(third);
    expect((await stores.admin`select * from despatch.lookups`).length).toBe(0);
    await stores.store.applyReceipts(100, decideReceipts);
    const events = await stores.admin`select type, applied from despatch.event_log`;
    expect(events).toMatchObject([{ type: 'message.delivered', applied: true }]);
  });

  test('store no receipt for another tenant than that of the message', async () => {
    await using stores = await setupStores();
    await planted(stores, 1);
    const other = await seedTenant(stores.admin);
    const [due] = await stores.store.takeLookups(TERMS);
    const report = {
      tenant_id: other.tenantId,
      account_id: due?.accountId,
      message_seq: due?.seq,
      purge_on: due?.purgeOn,
      receipt: 'delivered',
      provider_status: 'delivered',
      happened_ms: Date.now(),
      report_key: 'x',
      received_ms: Date.now(),
    };
    await stores.store.settleLookups({
      reports: [report as never],
      found: [],
      done: [],
      again: [],
      turns: [],
    });
    expect((await stores.admin`select * from despatch.receipts`).length).toBe(0);
  });

  test('are not made at unsupported providers, whose messages become unknown when due', async () => {
    await using stores = await setupStores();
    await planted(stores, 2);
    await stores.admin`delete from despatch.lookups`;
    await stores.admin`insert into despatch.awaited_receipts (seq, purge_on, tenant_id, due_at)
      select seq, purge_on, tenant_id, now() from despatch.message_results`;
    expect(await stores.store.expireReceipts(100, ['telnyx'], RECEIPT_TIMEOUT_MS)).toMatchObject({
      seen: 2,
      silent: [{ messages: 2 }],
    });
    const states = await stores.admin`select distinct status, reason from despatch.message_results`;
    expect(states).toMatchObject([{ status: 'unknown', reason: 'receipt_timeout' }]);
  });
});
