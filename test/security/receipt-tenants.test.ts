import { createSecretKey } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { parseAccount } from '#providers/registry.ts';
import { PROVIDERS, type ProviderKind } from '#providers/registry.gen.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { assignmentOf } from '#test/support/assignment.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { CATALOG_ACCOUNTS } from '#test/support/catalog-accounts.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import { deliveryReport, REPORTING, type Named } from '#test/support/vendor-reports.ts';
import { setupStores } from '#test/support/setup-stores.ts';
import type { Account } from '../../services/worker/accounts/accounts.ts';
import { createReceiptReader } from '../../services/worker/receipts/receipt-reader.ts';

/** The key with which the ids of the planted messages are encoded. */
const ID_KEY = Buffer.alloc(16);
/** Vendors choose their ids, so two accounts of two tenants may get the same one. */
const SAME = 'same-id-at-the-vendor';

let stores: Awaited<ReturnType<typeof setupStores>>;
beforeAll(async () => {
  stores = await setupStores();
  await stores.admin`update despatch.message_id_key set key = ${ID_KEY}`;
});
afterAll(() => stores?.[Symbol.asyncDispose]());

type Owner = { readonly tenantId: string; readonly accountId: string };
type Sent = Owner & { readonly seq: number; readonly id: string };

/** Creates a tenant with an account, and a message that the vendor accepted through it. */
async function sentThrough(provider: ProviderKind, vendorId: string, tenant?: SeededTenant): Promise<Sent> {
  const sent = await acceptedFor(provider, tenant);
  await attempt(sent, { kind: 'accepted', providerMessageId: vendorId });
  return sent;
}

/** Creates a tenant with an account, and a message that is pinned to it and not sent yet. */
async function acceptedFor(
  provider: ProviderKind,
  given?: SeededTenant,
  overrides: Record<string, unknown> = {},
): Promise<Sent> {
  const tenant = given ?? (await seedTenant(stores.admin));
  const accountId = await seedAccount(stores.admin, tenant.tenantId, { provider });
  const row = acceptRow(tenant, { pinned_account_id: accountId, ...overrides });
  await acceptBatch(stores.api, [row]);
  return { tenantId: tenant.tenantId, accountId, seq: row.seq, id: row.id };
}

async function attempt({ seq }: Sent, outcome: AttemptOutcome): Promise<void> {
  const [message] = await stores.store.claim([seq], { worker: 'w1', leaseMs: 60_000 });
  if (message === undefined) throw new Error('not claimed');
  const completion = completionOf(message, outcome, { receiptsExpected: true });
  await stores.store.complete([{ ...completion, found_by_id: true }]);
}

/** Everything that is stored about a message. */
async function stored({ seq }: Sent): Promise<unknown> {
  const { admin } = stores;
  return [
    await admin`select * from despatch.message_results where seq = ${seq}`,
    await admin`select * from despatch.event_log where message_seq = ${seq} order by event_seq`,
    await admin`select * from despatch.attempt_log where message_seq = ${seq}`,
    await admin`select * from despatch.awaited_receipts where seq = ${seq}`,
    await admin`select * from despatch.live_messages where seq = ${seq}`,
  ];
}

/** Stores a vendor's report to an account's own URL, whose signature is taken as valid, and applies it. */
async function report(provider: ProviderKind, owner: Owner, named: Named): Promise<void> {
  await call(owner, deliveryReport(provider, named));
  expect(await work(provider)).toEqual(['read']);
}

type Call = { readonly method?: string; readonly query?: string; readonly body: string };

async function call(
  { tenantId, accountId }: Owner,
  { method = 'POST', query = '', body }: Call,
): Promise<void> {
  await stores.admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body,
      received_at, due_at)
    values (${tenantId}, ${accountId}, ${method}, 1, ${query}, '{}', ${Buffer.from(body)}, now(), now())`;
}

/** Reads the stored calls and applies them. @returns the result of each call. */
async function work(provider: ProviderKind): Promise<string[]> {
  const kinds: string[] = [];
  const reader = createReceiptReader({
    publicBaseUrl: 'https://hooks.example',
    receiptKey: createSecretKey(Buffer.alloc(32)),
    loadIds: createIdLoader(async () => ID_KEY),
    store: stores.store,
    accounts: { inForce: async (id) => ({ kind: 'ready', accounts: [believing(provider, id)] }) },
    contextOf: () => ({}) as ProviderContext,
    deadlineMs: 10_000,
    onRead: (_, { kind }) => void kinds.push(kind),
    onAdapterFault: (_, error) => {
      throw error;
    },
    pace: { run: (_, commit) => commit(), withSurplus: () => new Set() },
    onSettled: () => undefined,
    onMore: () => undefined,
    onFailed(error) {
      throw error;
    },
  });
  await reader.read();
  await reader.drain();
  await stores.store.applyReceipts(100, decideReceipts);
  return kinds;
}

/** The account with its secrets, without signature verification: forgeries have tests of their own. */
function believing(provider: ProviderKind, id: string): Account {
  const definition = PROVIDERS.get(provider);
  const sent = CATALOG_ACCOUNTS[provider];
  if (definition === undefined) throw new Error(`The catalog lacks ${provider}`);
  const parsed = parseAccount(definition, sent.publicConfig, sent.secretConfig);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.details));
  const { verify: _, ...receipts } = definition.receipts as Record<string, unknown>;
  const { config, secrets } = parsed;
  return {
    id,
    provider: { ...definition, receipts },
    version: 1,
    config,
    secrets,
    row: null,
  } as unknown as Account;
}

const statusOf = async ({ seq }: Sent): Promise<unknown> =>
  (await stores.admin`select status from despatch.message_states where seq = ${seq}`)[0]?.['status'];

describe.each(REPORTING)('%s', (provider) => {
  test('receipts for one tenant change no message of another tenant, whatever ids they name', async () => {
    const mine = await sentThrough(provider, SAME);
    const same = await sentThrough(provider, SAME);
    const theirs = await sentThrough(provider, 'id-of-theirs-alone');
    const before = [await stored(same), await stored(theirs)];
    const foreign: Named[] = [
      { reference: theirs.id },
      { vendorId: 'id-of-theirs-alone' },
      { reference: theirs.id, vendorId: 'id-of-theirs-alone' },
      { reference: same.id, vendorId: SAME },
      { reference: theirs.id.toUpperCase(), vendorId: 'id-of-theirs-alone' },
    ];
    for (const named of foreign) await report(provider, mine, named);
    expect([await stored(same), await stored(theirs)]).toEqual(before);
    // The same reports are believed when they arrive at the accounts that sent the messages.
    await report(provider, mine, { reference: mine.id, vendorId: SAME });
    expect([await statusOf(mine), await statusOf(same)]).toEqual(['delivered', 'sent']);
    await report(provider, theirs, { reference: theirs.id, vendorId: 'id-of-theirs-alone' });
    expect(await statusOf(theirs)).toBe('delivered');
    expect(await stored(same)).toEqual(before[0]);
  });

  test("receipts with the vendor's id alone apply only to messages of the account that received them", async () => {
    const [mine, theirs] = [await sentThrough(provider, SAME), await sentThrough(provider, SAME)];
    const before = await stored(theirs);
    const namesVendorId = !provider.startsWith('webhook-');
    await report(provider, mine, { vendorId: SAME });
    expect(await stored(theirs)).toEqual(before);
    expect(await statusOf(mine)).toBe(namesVendorId ? 'delivered' : 'sent');
  });
});

describe('among the accounts of one tenant', () => {
  test.each(REPORTING)(
    'receipts of a %s account change no message sent through another account',
    async (provider) => {
      const tenant = await seedTenant(stores.admin);
      const mine = await sentThrough(provider, 'mine', tenant);
      const theirs = await sentThrough(provider, 'theirs', tenant);
      const before = await stored(theirs);
      const foreign: Named[] = [
        { reference: theirs.id },
        { vendorId: 'theirs' },
        { reference: theirs.id, vendorId: 'theirs' },
        { reference: theirs.id, vendorId: 'mine' },
      ];
      for (const named of foreign) {
        await report(provider, mine, named);
        expect(await stored(theirs)).toEqual(before);
      }
      await report(provider, theirs, { reference: theirs.id, vendorId: 'theirs' });
      expect(await statusOf(theirs)).toBe('delivered');
    },
  );

  test('a receipt changes no message of another channel and no test message', async () => {
    const tenant = await seedTenant(stores.admin);
    const mine = await sentThrough('webhook-sms', 'a', tenant);
    const mail = await sentThrough('postmark', 'b', tenant);
    const tried = await acceptedFor('webhook-sms', tenant, { pinned_account_id: null, test: true });
    await attempt(tried, { kind: 'accepted', providerMessageId: 'c', receipts: [] });
    const waiting = await acceptedFor('webhook-sms', tenant, { pinned_account_id: null, test: true });
    for (const one of [mail, tried, waiting]) {
      const before = await stored(one);
      await report('webhook-sms', mine, { reference: one.id });
      expect(await stored(one)).toEqual(before);
    }
  });

  test('a receipt applies only if its account attempted the message, also after a failover', async () => {
    const tenant = await seedTenant(stores.admin);
    const first = await acceptedFor('webhook-sms', tenant);
    const second = await seedAccount(stores.admin, tenant.tenantId, { provider: 'webhook-sms' });
    const third = await seedAccount(stores.admin, tenant.tenantId, { provider: 'webhook-sms' });
    const failure = { class: 'unknown', code: 'timeout' } as const;
    await stores.store.assignAccounts([assignmentOf(first.seq, first.accountId, second)]);
    // The message waits for an account that has not sent it yet, so no report of that account can be about it.
    await report('webhook-sms', { ...first, accountId: second }, { reference: first.id });
    expect(await stored(first)).toMatchObject([
      [],
      [{ type: 'message.failed_over' }],
      [],
      [],
      [{ status: 'queued' }],
    ]);
    await stores.store.assignAccounts([assignmentOf(first.seq, second, first.accountId)]);
    await attempt(first, { kind: 'rejected_transient', failure });
    await stores.admin`update despatch.live_messages set next_attempt_at = now(), account_id = ${second} where seq = ${first.seq}`;
    await attempt(first, { kind: 'accepted', providerMessageId: 'x' });
    await report('webhook-sms', { ...first, accountId: third }, { reference: first.id });
    expect(await statusOf(first)).toBe('sent');
    await report('webhook-sms', first, { reference: first.id });
    expect(await statusOf(first)).toBe('delivered');
  });

  test('a receipt for a message of another account is dropped as an orphan after a day', async () => {
    const tenant = await seedTenant(stores.admin);
    const [mine, theirs] = [
      await sentThrough('webhook-sms', 'a', tenant),
      await sentThrough('webhook-sms', 'b', tenant),
    ];
    await report('webhook-sms', mine, { reference: theirs.id });
    await stores.admin`update despatch.receipts set apply_at = now(), received_at = now() - interval '25 hours'
      where account_id = ${mine.accountId}`;
    const { results } = await stores.store.applyReceipts(100, decideReceipts);
    expect(results.filter(({ result }) => result === 'orphan')).toHaveLength(1);
    expect(
      await stores.admin`select from despatch.receipts where account_id = ${mine.accountId}`,
    ).toHaveLength(0);
    expect(await statusOf(theirs)).toBe('sent');
  });
});

test('receipts with texts that the database cannot store do not block other receipts', async () => {
  const [mine, theirs] = [await sentThrough('sinch', 'a'), await sentThrough('sinch', 'b')];
  const said = { type: 'recipient_delivery_report_sms', status: 'Failed', code: 402 };
  for (const odd of ['\0', '\ud800', '\udc00', 'a\0b', `${'x'.repeat(511)}😀`]) {
    await call(mine, { body: JSON.stringify({ ...said, batch_id: odd, client_reference: mine.id }) });
    await call(mine, {
      body: JSON.stringify({ ...said, batch_id: 'a', client_reference: odd, status: odd }),
    });
  }
  await call(theirs, deliveryReport('sinch', { reference: theirs.id }));
  expect(await work('sinch')).toEqual(Array.from({ length: 11 }, () => 'read'));
  expect([await statusOf(mine), await statusOf(theirs)]).toEqual(['undelivered', 'delivered']);
});

test('a batch of 20,000 reports is read and blocks no others; a larger one is unreadable', async () => {
  const [mine, theirs] = [await sentThrough('sendgrid', 'a'), await sentThrough('sendgrid', 'b')];
  const events = (n: number) =>
    Array.from({ length: n }, (_, i) => ({ event: 'delivered', sg_message_id: `x${i}` }));
  await call(mine, { body: JSON.stringify(events(20_001)) });
  await call(mine, { body: JSON.stringify(events(20_000)) });
  await call(theirs, deliveryReport('sendgrid', { reference: theirs.id }));
  expect((await work('sendgrid')).toSorted()).toEqual(['read', 'read', 'unreadable']);
  const [row] = await stores.admin`select count(*)::integer as n from despatch.receipts
    where account_id = ${mine.accountId}`;
  expect(row?.['n']).toBe(20_000);
  await stores.admin`update despatch.receipts set apply_at = now() + interval '1 hour' where account_id = ${mine.accountId}`;
  await stores.store.applyReceipts(100, decideReceipts);
  expect(await statusOf(theirs)).toBe('delivered');
});
