import { createHmac, createSecretKey, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { decideSilence } from '#core/domain/receipts/decide-silence.ts';
import { RECEIPT_TIMEOUT_MS } from '#core/domain/sending/settle.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { orderOf, type Route } from '#core/domain/routing/route.ts';
import { createSimulator, type Simulation } from '#core/domain/routing/simulate-route.ts';
import { cancelMessages } from '#core/store/messages/cancellation.ts';
import { eraseContent } from '#core/store/messages/erasure.ts';
import { toEnvelope } from '#core/domain/webhooks/event-envelope.ts';
import { createEventIds } from '#core/domain/webhooks/event-id.ts';
import { scanFeed } from '#core/store/webhooks/feed.ts';
import { findMessage, type MessageAddress } from '#core/store/messages/messages.ts';
import { scanPastMessages } from '#core/store/messages/past-messages.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { Fault } from '#providers/stand-in.ts';
import { SILENT_MESSAGE } from '#test/support/silent-message.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import { miscounts } from '#test/support/usage-recount.ts';
import { toMessage } from '../../../services/api/messages/message-view.ts';

/** Tests sent messages that go on to the next account of their route, with running workers and with single calls of the store. */
const BASE = 'https://hooks.example/despatch';
const KEY = createSecretKey(randomBytes(32));
const POLL = { interval: 20, timeout: 15_000 };
const TIMEOUT_MS = 10_000;
const down: Fault = { kind: 'reply', status: 503, body: 'down' };
const badSender: Fault = {
  kind: 'reply',
  status: 400,
  body: { code: 21_606, message: 'Refused', status: 400 },
};

let b: Awaited<ReturnType<typeof setupWorkers>>;
let tenant: SeededTenant;
let accounts: Record<'first' | 'second' | 'third', { readonly id: string; readonly path: RegExp }>;
let names: Map<string | null, string>;

beforeAll(async () => {
  b = await setupWorkers({}, { receipts: { publicBaseUrl: BASE, receiptKey: KEY } });
  await b.admin`update despatch.message_id_key set key = ${Buffer.alloc(16)}`;
  b.startWorker();
});
afterAll(() => b?.[Symbol.asyncDispose]());

let sids = 0;
beforeEach(async () => {
  tenant = await seedTenant(b.admin, { inFlightMax: 50 });
  const account = async () => {
    const accountSid = `AC${String(++sids).padStart(32, '0')}`;
    const config = { accountSid, from: '+15005550006' };
    const id = await seedAccount(b.admin, tenant.tenantId, { provider: 'twilio', config });
    return { id, path: new RegExp(`${accountSid}/Messages`) };
  };
  accounts = { first: await account(), second: await account(), third: await account() };
  names = new Map(Object.entries(accounts).map(([name, { id }]) => [id, name]));
});
const setRoute = async (
  steps: readonly (keyof typeof accounts)[] = ['first', 'second'],
  timeoutMs: number | null = TIMEOUT_MS,
  version = 1,
) => {
  const told = steps.map((name) => ({ accountId: accounts[name].id, weight: 1 }));
  await b.admin`update despatch.routes set replaced_at = now() where tenant_id = ${tenant.tenantId} and replaced_at is null`;
  await b.admin`insert into despatch.routes (tenant_id, channel, version, strategy, steps, failover_on, receipt_timeout_ms)
    values (${tenant.tenantId}, 'sms', ${version}, 'priority', ${b.admin.json(told)}, ${['provider_unavailable', 'sender_rejected']},
      ${timeoutMs})`;
};

/** Sends a message that the first account accepts. */
async function sent(overrides: Record<string, unknown> = {}): Promise<number> {
  const of = { account_id: accounts.first.id, ...overrides };
  const [one] = await b.send(1, of, { of: tenant });
  const seq = one?.seq ?? 0;
  await expect.poll(() => statusOf(seq), POLL).toBe('sent');
  return seq;
}
/** Moves the message's times into the past, as if this long had passed without a report. */
async function pass(seq: number, ms = TIMEOUT_MS): Promise<void> {
  await b.admin`
    update despatch.message_results set sent_at = sent_at - make_interval(secs => ${ms / 1_000}),
      started_at = started_at - make_interval(secs => ${ms / 1_000}) where seq = ${seq}`;
  await b.admin`update despatch.failover_waits set due_at = due_at - make_interval(secs => ${ms / 1_000}) where seq = ${seq}`;
}
async function stateOf(seq: number) {
  const [row] = await b.admin<
    {
      status: string;
      reason: string | null;
      account_id: string | null;
      attempt: number;
      duplicate_risk: boolean;
      final: boolean;
    }[]
  >`select * from despatch.message_states where seq = ${seq}`;
  return { ...row, account: names.get(row?.account_id ?? null) };
}
const statusOf = async (seq: number) => (await stateOf(seq)).status;
const attemptsOf = async (seq: number): Promise<string[]> =>
  (
    await b.admin<{ account_id: string; outcome: string }[]>`
      select account_id, outcome from despatch.attempts where message_seq = ${seq} order by number`
  ).map(({ account_id, outcome }) => `${names.get(account_id)} ${outcome}`);
const eventsOf = async (seq: number): Promise<string[]> =>
  (
    await b.admin<{ type: string }[]>`
      select type from despatch.events where message_seq = ${seq} and applied order by event_seq`
  ).map(({ type }) => type);
async function recordOf(seq: number) {
  const [place] = await b.admin<MessageAddress[]>`
    select id, seq, purge_on::text as "purgeOn" from despatch.messages where seq = ${seq}`;
  const id = tenant.tenantId as TenantId;
  const row = place && (await withTenant(b.api, id, (tx) => findMessage(id, tx, place)));
  if (row === undefined) throw new Error('no such message');
  return toMessage(row);
}
const routeOf = async (seq: number): Promise<string[]> =>
  (await recordOf(seq)).route.map(
    ({ providerId, verdict, reason, attempt }) =>
      `${names.get(providerId)} ${verdict} ${reason} ${attempt ?? '-'}`,
  );
/** Simulates the route in force on the tenant's messages. */
async function simulated(): Promise<Simulation> {
  const id = tenant.tenantId as TenantId;
  const [route] = await b.admin<Omit<Route, 'channel'>[]>`
    select version, strategy, steps, failover_on as "failoverOn", receipt_timeout_ms as "receiptTimeoutMs" from despatch.routes
    where tenant_id = ${id} and replaced_at is null`;
  const usable = Object.values(accounts).map((account) => ({ id: account.id, channel: 'sms' }));
  const simulator = createSimulator({ channel: 'sms', ...(route as Omit<Route, 'channel'>) }, usable);
  const range = { before: undefined, rows: 100, most: 100 };
  const { found } = await withTenant(b.api, id, (tx) => scanPastMessages(id, tx, 'sms', range));
  for (const message of found) simulator.add(message);
  return simulator.result();
}
const waitsLeft = async (seq: number) =>
  (await b.admin`select from despatch.failover_waits where seq = ${seq}`).length;

/** Sends a vendor's report on the message of the account's last call. */
async function report(
  name: keyof typeof accounts,
  status: string,
  over: { hold?: boolean } = {},
): Promise<void> {
  const { id, path } = accounts[name];
  const call = b.twilio.received.findLast((one) => path.test(one.path));
  const url = new URLSearchParams(call?.body).get('StatusCallback') ?? '';
  const [row] = await b.admin<{ sid: string }[]>`
    select provider_message_id as sid from despatch.message_results where account_id = ${id}
    union all select provider_message_id from despatch.attempt_log where account_id = ${id} and outcome = 'accepted'`;
  const body = new URLSearchParams({ MessageSid: row?.sid ?? '', MessageStatus: status }).toString();
  const text = [...new URLSearchParams(body)]
    .toSorted(([x], [y]) => (x < y ? -1 : 1))
    .reduce((all, [key, value]) => all + key + value, url);
  const headers = {
    'x-twilio-signature': createHmac('sha1', 'a'.repeat(32)).update(text).digest('base64'),
  };
  await b.admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body,
      received_at, due_at)
    values (${tenant.tenantId}, ${id}, 'POST', 1, ${new URL(url).search}, ${b.admin.json(headers)}, ${Buffer.from(body)},
      now() - interval '1 second', ${over.hold === true ? b.admin`now() + interval '4 seconds'` : b.admin`now()`})`;
}

describe('a message without a receipt within the receipt timeout of its route', () => {
  test('is also sent through the next account and shows the failover and the duplicate risk', async () => {
    await setRoute();
    const seq = await sent();
    expect(await waitsLeft(seq)).toBe(1);
    await pass(seq);
    await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'second accepted']);
    expect(await stateOf(seq)).toMatchObject({
      status: 'sent',
      account: 'second',
      attempt: 2,
      duplicate_risk: true,
      final: false,
    });
    expect(await eventsOf(seq)).toEqual(['message.sent', 'message.failed_over', 'message.sent']);
    expect(await routeOf(seq)).toEqual(['first failed receipt_timeout 1', 'second chosen next_in_route 2']);
    expect(await recordOf(seq)).toMatchObject({ attemptCount: 2, duplicateRisk: true, routeVersion: 1 });
    const awaited = await b.admin`select from despatch.awaited_receipts where seq = ${seq}`;
    expect([awaited.length, await waitsLeft(seq)]).toEqual([1, 0]);
    expect((await b.gauges.messageTotals()).backlog).toBe(0);
    await expect.poll(async () => (await b.store.countUsage(500, 0), miscounts(b.admin)), POLL).toEqual([]);
  });

  test('fails over although unread receipts from before its call or after its timeout wait', async () => {
    await setRoute();
    const seq = await sent();
    const [call] = await b.admin<{ at: Date }[]>`
      select started_at as at from despatch.message_results where seq = ${seq}`;
    await report('first', 'sent', { hold: true });
    await pass(seq);
    const [due] = await b.admin<{ at: Date }[]>`
      select due_at as at from despatch.failover_waits where seq = ${seq}`;
    const putOff = async () =>
      (await b.admin`select from despatch.failover_waits where seq = ${seq} and due_at > ${due?.at ?? ''}`)
        .length;
    await expect.poll(putOff, POLL).toBe(1);
    const waiting = b.admin`select account_id from despatch.receipt_calls where due_at = 'infinity'`;
    await b.admin`
      insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body, received_at, due_at)
      select ${tenant.tenantId}, ${accounts.first.id}, 'POST', 1, '', '{}', ''::bytea, t.at, 'infinity'
      from (values (now()), (${call?.at ?? ''}::timestamptz - interval '1 minute')) t (at)`;
    await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'second accepted']);
    expect((await waiting).length).toBe(2);
    await b.admin`delete from despatch.receipt_calls where due_at = 'infinity'`;
  });

  test('does not fail over while a hundred older receipts of its account are unread', async () => {
    await setRoute();
    const seq = await sent();
    await b.admin`
      insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body, received_at, due_at)
      select ${tenant.tenantId}, ${accounts.first.id}, 'POST', 1, '', '{}', ''::bytea, now() - interval '1 minute', 'infinity'
      from generate_series(1, 100)`;
    await pass(seq);
    const [due] = await b.admin<{ at: Date }[]>`
      select due_at as at from despatch.failover_waits where seq = ${seq}`;
    const putOff = async () =>
      (await b.admin`select from despatch.failover_waits where seq = ${seq} and due_at > ${due?.at ?? ''}`)
        .length;
    await expect.poll(putOff, POLL).toBe(1);
    expect(await attemptsOf(seq)).toEqual(['first accepted']);
    await b.admin`delete from despatch.receipt_calls where due_at = 'infinity'`;
    await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'second accepted']);
  });

  test('fails over beside calls whose signature was refused, and which are kept', async () => {
    await setRoute();
    const seq = await sent();
    await b.admin`
      insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body, received_at, due_at,
        refused)
      values (${tenant.tenantId}, ${accounts.first.id}, 'POST', 1, '', '{}', '', now(), 'infinity', true)`;
    await pass(seq);
    await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'second accepted']);
    await b.admin`delete from despatch.receipt_calls where due_at = 'infinity'`;
  });

  test('has a failover event in log and feed that stores what decided it', async () => {
    await setRoute(['first', 'second', 'third'], TIMEOUT_MS, 7);
    await b.admin`update despatch.provider_accounts set status = 'invalid' where id = ${accounts.second.id}`;
    const seq = await sent();
    await pass(seq);
    await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'third accepted']);
    const [event] = await b.admin<{ details: Record<string, unknown> }[]>`
      select details from despatch.event_log where message_seq = ${seq} and type = 'message.failed_over'`;
    const rerouted = {
      accountId: accounts.third.id,
      version: 7,
      skipped: [{ accountId: accounts.second.id, reason: 'invalid' }],
    };
    expect(event?.details).toMatchObject({ why: 'receipt_timeout', from: accounts.first.id, rerouted });
    const id = tenant.tenantId as TenantId;
    const ids = createEventIds(Buffer.alloc(16));
    const range = { before: undefined, rows: 50, most: 50 };
    const told = await vi.waitFor(async () => {
      const page = await withTenant(b.api, id, (tx) => scanFeed(id, tx, ids, { type: 'message.*' }, range));
      expect(page.found.length).toBe(4);
      return page.found.map(toEnvelope);
    }, POLL);
    expect(told.map(({ type }) => type)).toEqual([
      'message.queued',
      'message.sent',
      'message.failed_over',
      'message.sent',
    ]);
    expect(told[2]?.data).toMatchObject({
      why: 'receipt_timeout',
      fromProviderId: accounts.first.id,
      toProviderId: accounts.third.id,
      routeVersion: 7,
      attempt: 1,
    });
  });

  test('remembers earlier refusals, and waits for a retry after all accounts have been called', async () => {
    await setRoute(['first', 'second', 'third']);
    b.twilio.fail(down, accounts.first.path);
    const seq = await sent();
    b.twilio.fail(down, accounts.third.path);
    await pass(seq);
    await expect
      .poll(() => attemptsOf(seq), POLL)
      .toEqual(['first rejected_transient', 'second accepted', 'third rejected_transient', 'first accepted']);
    const reasons = await b.admin<{ reason: string | null }[]>`
      select message_reason as reason from despatch.attempt_log where message_seq = ${seq} order by number`;
    // After the last refusal all accounts have been tried.
    expect(reasons.map(({ reason }) => reason)).toEqual(['failed_over', null, 'retry']);
  });

  test('fails over until no account is left, and then becomes unknown', async () => {
    await setRoute(['third', 'first', 'second']);
    const seq = await sent();
    await pass(seq);
    await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'third accepted']);
    await pass(seq);
    await expect
      .poll(() => attemptsOf(seq), POLL)
      .toEqual(['first accepted', 'third accepted', 'second accepted']);
    await pass(seq);
    await expect.poll(() => waitsLeft(seq), POLL).toBe(0);
    expect(await stateOf(seq)).toMatchObject({ status: 'sent', account: 'second', attempt: 3 });
    await b.admin`update despatch.awaited_receipts set due_at = now() where seq = ${seq}`;
    await b.store.expireReceipts(100, [], RECEIPT_TIMEOUT_MS);
    expect(await stateOf(seq)).toMatchObject({ status: 'unknown', reason: 'receipt_timeout' });
  });
});

describe('no failover happens after the receipt timeout for', () => {
  const stays = async (seq: number) => {
    await pass(seq);
    await expect.poll(() => waitsLeft(seq), POLL).toBe(0);
    expect(await attemptsOf(seq)).toEqual(['first accepted']);
    expect(await stateOf(seq)).toMatchObject({ duplicate_risk: false, account: 'first' });
  };

  test.each([
    ['with the delivery guarantee at_most_once', { delivery_guarantee: 'at_most_once' }],
    ['with the content retention discard', { content_retention: 'discard' }],
  ])('a message %s', async (_name, overrides) => {
    await setRoute();
    const seq = await sent(overrides);
    expect(await waitsLeft(seq)).toBe(0);
    await stays(seq);
  });

  test('a message with a pinned account', async () => {
    await setRoute();
    const seq = await sent({ pinned_account_id: accounts.first.id });
    expect(await waitsLeft(seq)).toBe(0);
    await stays(seq);
  });

  test('a message of a route without a receipt timeout', async () => {
    await setRoute(['first', 'second'], null);
    const seq = await sent();
    expect(await waitsLeft(seq)).toBe(0);
    await stays(seq);
  });

  test('a message whose receipt arrived in time', async () => {
    await setRoute();
    const seq = await sent();
    await report('first', 'delivered');
    await expect.poll(() => statusOf(seq), POLL).toBe('delivered');
    await stays(seq);
  });

  test('a message whose receipt arrived in time but is read later', async () => {
    await setRoute();
    const seq = await sent();
    await report('first', 'delivered', { hold: true });
    await pass(seq);
    await expect.poll(() => statusOf(seq), POLL).toBe('delivered');
    await stays(seq);
  });

  test('a message that has expired or whose content was erased', async () => {
    await setRoute();
    const [expired, erased] = [await sent(), await sent()];
    await b.admin`update despatch.message_results set expires_at = now() where seq = ${expired}`;
    const [place] = await b.admin<{ purge_on: string }[]>`
      select purge_on::text from despatch.messages where seq = ${erased}`;
    const erasure = await withTenant(b.api, tenant.tenantId as TenantId, (tx) =>
      eraseContent(tx, { seq: erased, purge_on: place?.purge_on ?? '' }),
    );
    expect(erasure).toBe('erased');
    await stays(expired);
    await stays(erased);
  });

  test('a message whose route now has a longer receipt timeout, until it is over, or none', async () => {
    await setRoute();
    const [seq, other] = [await sent(), await sent()];
    await setRoute(['first', 'second'], 3 * TIMEOUT_MS, 2);
    await pass(seq);
    await expect
      .poll(
        async () =>
          Number(
            (
              await b.admin`select extract(epoch from due_at - now()) as s from despatch.failover_waits
              where seq = ${seq}`
            )[0]?.['s'],
          ),
        POLL,
      )
      .toBeGreaterThan(10);
    await setRoute(['first', 'second'], null, 3);
    await stays(other);
  });

  test('a message of a tenant that is being purged, which leaves no rows', async () => {
    await setRoute();
    const seq = await sent();
    await b.admin`update despatch.tenants set status = 'deleting', owner_uid = 'uid' where id = ${tenant.tenantId}`;
    await pass(seq);
    await expect.poll(() => waitsLeft(seq), POLL).toBe(0);
    expect(await attemptsOf(seq)).toEqual(['first accepted']);
    await b.admin`insert into despatch.failover_waits (seq, purge_on, tenant_id, due_at)
      select seq, purge_on, tenant_id, now() + interval '1 hour' from despatch.messages where seq = ${seq}`;
    await b.admin`select * from despatch.purge_some(${tenant.slug}, 'uid', 100)`;
    expect(await waitsLeft(seq)).toBe(0);
    expect(await stateOf(seq)).toEqual({ account: undefined });
  });
});

/** Sends a message that waits for the second account, which fails. */
const waiting = async (): Promise<number> => {
  await setRoute();
  const seq = await sent();
  // The first retry follows at once, so two calls fail.
  for (let i = 0; i < 2; i++) b.twilio.fail(down, accounts.second.path);
  await pass(seq);
  await expect.poll(async () => (await attemptsOf(seq)).length, POLL).toBe(3);
  await expect.poll(() => statusOf(seq), POLL).toBe('deferred');
  return seq;
};

describe('a receipt of the first account still counts', () => {
  test('while the message waits for the second account', async () => {
    const seq = await waiting();
    await report('first', 'delivered');
    await expect.poll(() => statusOf(seq), POLL).toBe('delivered');
    expect(await stateOf(seq)).toMatchObject({ account: 'first', final: true, duplicate_risk: true });
    expect(await routeOf(seq)).toEqual([
      'first failed receipt_timeout 1',
      'second failed provider_unavailable 3',
      'first chosen sent_before 1',
    ]);
    expect(await simulated()).toMatchObject({ considered: 1, moved: 0 });
    expect((await b.gauges.messageTotals()).backlog).toBe(0);
    await expect.poll(async () => (await b.store.countUsage(500, 0), miscounts(b.admin)), POLL).toEqual([]);
  });

  test('while a brake holds the channel, which prevents the failover', async () => {
    await setRoute();
    const seq = await sent();
    await b.admin`insert into despatch.brakes (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at)
      values (${tenant.tenantId}, 'sms', 'held', 'complaint_rate', 0.005, 0.003, now(), 100, now())`;
    await pass(seq);
    const putOff = async () => {
      const [row] =
        await b.admin`select due_at > now() as later from despatch.failover_waits where seq = ${seq}`;
      return row?.['later'];
    };
    await expect.poll(putOff, POLL).toBe(true);
    expect(await statusOf(seq)).toBe('sent');
    await report('first', 'delivered');
    await expect.poll(() => statusOf(seq), POLL).toBe('delivered');
  });

  test('while its tenant is suspended', async () => {
    const seq = await waiting();
    await b.admin`update despatch.tenants set status = 'suspended', suspension_reason = 'billing' where id = ${tenant.tenantId}`;
    await b.store.holdTenant(tenant.tenantId, 10);
    expect(await statusOf(seq)).toBe('held');
    await report('first', 'delivered');
    await expect.poll(() => statusOf(seq), POLL).toBe('delivered');
  });

  test('after the open call to the second account has ended', async () => {
    await setRoute();
    const seq = await sent();
    b.twilio.fail({ kind: 'hang' }, accounts.second.path);
    await pass(seq);
    await expect.poll(() => statusOf(seq), POLL).toBe('sending');
    await report('first', 'delivered');
    // The receipt is applied only after the open call has ended.
    await expect.poll(() => statusOf(seq), { ...POLL, timeout: 45_000 }).toBe('delivered');
    expect((await attemptsOf(seq)).slice(0, 2)).toEqual(['first accepted', 'second ambiguous']);
  });

  test.each([
    ['accepted', []],
    ['could not deliver', ['undelivered']],
  ])('after a failover to a second account that %s the message', async (_name, before) => {
    await setRoute();
    const seq = await sent();
    await pass(seq);
    await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'second accepted']);
    for (const status of before) {
      await report('second', status);
      await expect.poll(() => statusOf(seq), POLL).toBe('undelivered');
    }
    await report('first', 'delivered');
    await expect.poll(() => statusOf(seq), POLL).toBe('delivered');
    await expect.poll(async () => (await b.store.countUsage(500, 0), miscounts(b.admin)), POLL).toEqual([]);
    expect((await b.gauges.messageTotals()).backlog).toBe(0);
  });

  test('after the second account refused the message, which remains sent by the first', async () => {
    await setRoute();
    const seq = await sent();
    b.twilio.fail(badSender, accounts.second.path);
    await pass(seq);
    await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'second rejected_permanent']);
    expect(await stateOf(seq)).toMatchObject({
      status: 'sent',
      reason: 'no_other_account',
      account: 'first',
      final: false,
      duplicate_risk: true,
    });
    expect(await routeOf(seq)).toEqual([
      'first failed receipt_timeout 1',
      'second failed sender_rejected 2',
      'first chosen sent_before 1',
    ]);
    const [awaited] =
      await b.admin`select extract(epoch from due_at - now()) / 3600 as hours from despatch.awaited_receipts
      where seq = ${seq}`;
    expect(Number(awaited?.['hours'])).toBeGreaterThan(0.5);
    await report('first', 'delivered');
    await expect.poll(() => statusOf(seq), POLL).toBe('delivered');
    await expect.poll(async () => (await b.store.countUsage(500, 0), miscounts(b.admin)), POLL).toEqual([]);
  });

  test('if it is undelivered and the second account refused the message', async () => {
    await setRoute();
    const seq = await sent();
    b.twilio.fail(badSender, accounts.second.path);
    await pass(seq);
    await expect.poll(() => stateOf(seq), POLL).toMatchObject({ status: 'sent', attempt: 2 });
    await report('first', 'undelivered');
    await expect.poll(() => statusOf(seq), POLL).toBe('undelivered');
  });
});

describe('a message that waits for the second account', () => {
  test('cannot be canceled, because the first account sent it', async () => {
    const seq = await waiting();
    const found = await withTenant(b.api, tenant.tenantId as TenantId, (tx) => cancelMessages(tx, [seq]));
    expect([...found.values()]).toEqual(['sent']);
    expect(await statusOf(seq)).toBe('deferred');
  });

  test('refuses the erasure of its content', async () => {
    const seq = await waiting();
    const [place] = await b.admin<{ purge_on: string }[]>`
      select purge_on::text from despatch.messages where seq = ${seq}`;
    const erasure = await withTenant(b.api, tenant.tenantId as TenantId, (tx) =>
      eraseContent(tx, { seq, purge_on: place?.purge_on ?? '' }),
    );
    expect(erasure).toBe('live');
  });

  test('ends as sent by the first account when it expires', async () => {
    const seq = await waiting();
    await b.admin`update despatch.live_messages set expires_at = now(), due_at = now(), next_attempt_at = now() where seq = ${seq}`;
    await expect
      .poll(() => stateOf(seq), POLL)
      .toMatchObject({ status: 'sent', reason: 'no_other_account', account: 'first', final: false });
    expect((await eventsOf(seq)).slice(-1)).toEqual(['message.sent']);
    expect(await routeOf(seq)).toContain('first chosen sent_before 1');
    expect(await simulated()).toMatchObject({ considered: 1, moved: 0 });
    await report('first', 'delivered');
    await expect.poll(() => statusOf(seq), POLL).toBe('delivered');
  });

  test('cannot be moved to canceled, only to sent by the first account', async () => {
    const seq = await waiting();
    await b.admin`select * from despatch.move_messages(${[seq]}::bigint[], 'canceled', null)`;
    expect(await statusOf(seq)).toBe('deferred');
    const ended =
      await b.admin`select * from despatch.move_messages(${[seq]}::bigint[], 'sent', '{"why": "expired"}', 'no_other_account')`;
    expect(ended.length).toBe(1);
    expect(await stateOf(seq)).toMatchObject({ status: 'sent', account: 'first' });
  });
});

test('the failover after a receipt timeout can be decided again from its stored event', async () => {
  await setRoute(['first', 'second', 'third']);
  const seq = await sent();
  await pass(seq);
  await expect.poll(() => attemptsOf(seq), POLL).toEqual(['first accepted', 'second accepted']);
  const [stored] = await b.admin<
    { id: string; details: { waitedMs: number; rerouted: { accountId: string; version: number } } }[]
  >`select m.id, e.details from despatch.event_log e join despatch.messages m on m.seq = e.message_seq
    where e.message_seq = ${seq} and e.type = 'message.failed_over'`;
  const { rerouted, waitedMs } = stored?.details ?? { rerouted: { accountId: '', version: 0 }, waitedMs: 0 };
  const [row] = await b.admin<{ steps: Route['steps']; receipt_timeout_ms: number }[]>`
    select steps, receipt_timeout_ms from despatch.routes where tenant_id = ${tenant.tenantId} and version = ${rerouted.version}`;
  const route: Route = {
    channel: 'sms',
    version: rerouted.version,
    strategy: 'priority',
    steps: row?.steps ?? [],
    failoverOn: [],
    receiptTimeoutMs: row?.receipt_timeout_ms ?? null,
  };
  expect([...orderOf(route, stored?.id ?? '')]).toHaveLength(3);
  const usable = Object.values(accounts).map(({ id }) => ({ id, channel: 'sms', status: 'active' }));
  const message = {
    ...SILENT_MESSAGE,
    id: stored?.id ?? '',
    accountId: accounts.first.id,
    silentMs: waitedMs,
    tried: [],
  } as const;
  expect(decideSilence(message, usable, [route])).toEqual({ kind: 'move', rerouted });
});
