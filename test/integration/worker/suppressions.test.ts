import { expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import type { Completion } from '#core/store/sending/completion.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { setupMessages, states, terms, transient, type MessageBench } from '#test/support/setup-messages.ts';
import { plantSuppression } from '#test/support/suppress.ts';
import { resolveWaiting } from '../../../services/worker/claim/resolve-waiting.ts';

const ended: string[] = [];
const resolve = async (b: MessageBench, seqs: readonly number[]) =>
  resolveWaiting(await b.store.findWaiting(seqs), {
    store: b.store,
    endedUncalled: ({ seq }, reason) => void ended.push(`${seq} ${reason}`),
    failedOver: () => undefined,
  });
const resultOf = async (b: MessageBench, seq: number) => {
  const [row] =
    await b.admin`select status, reason, failure, final, attempt from despatch.message_results where seq = ${seq}`;
  return row;
};

test('a message to a suppressed recipient is not claimed and ends with the reason of the entry', async () => {
  await using b = await setupMessages();
  const [stopped = 0, other = 0] = [
    ...(await b.accept()),
    ...(await b.accept(1, { address: '+15550000002' })),
  ];
  await plantSuppression(b.admin, b.tenant.tenantId, { reason: 'opt_out' });
  expect(await b.claimDue(10, 10_000)).toMatchObject([{ seq: other }]);
  expect(await b.store.claim([stopped], terms())).toEqual([]);
  expect(await b.store.findWaiting([stopped])).toMatchObject([{ suppression: 'opt_out' }]);

  await resolve(b, [stopped]);

  expect(await states(b)).toEqual(['suppressed', 'sending']);
  expect(await resultOf(b, stopped)).toEqual({
    status: 'suppressed',
    reason: 'opt_out',
    failure: null,
    final: true,
    attempt: 0,
  });
  expect(ended).toContain(`${stopped} suppressed`);
  const [event] =
    await b.admin`select type, source, details from despatch.event_log where message_seq = ${stopped}`;
  expect(event).toEqual({ type: 'message.suppressed', source: 'worker', details: { reason: 'opt_out' } });
  expect((await b.gauges.messageTotals()).backlog).toBe(1);
});

test('findWaitingDue finds the suppressed messages of a lane and no others', async () => {
  await using b = await setupMessages();
  await b.accept(3, { address: '+15550000002' }, b.tenant);
  const [stopped = 0] = await b.accept();
  await plantSuppression(b.admin, b.tenant.tenantId);
  await b.admin`update despatch.live_messages set due_at = now()`;
  const lane = { tenantId: b.tenant.tenantId, accountId: b.accountId };
  const { rows } = await b.store.findWaitingDue(lane, { most: 10, readsMax: 10 });
  expect(rows).toMatchObject([{ seq: stopped, suppression: 'manual' }]);
});

test('messages behind two thousand to a suppressed recipient are sent within seconds', async () => {
  await using b = await setupWorkers();
  await b.send(2_000, {}, { wake: false });
  await b.send(3, { address: '+15550000777', recipient: '+15550000777' }, { wake: false });
  await plantSuppression(b.admin, b.tenant.tenantId);
  b.startWorker();
  await expect.poll(b.statuses, { interval: 50, timeout: 10_000 }).toEqual({ suppressed: 2_000, sent: 3 });
});

test('a deferred message is not retried once its recipient is suppressed', async () => {
  await using b = await setupMessages();
  const [seq = 0] = await b.accept();
  const [message] = await b.store.claim([seq], terms());
  await b.store.complete([
    {
      seq,
      attempt: 1,
      outcome: transient.kind,
      failure: { class: 'provider_unavailable', code: 'http_503', retryable: true },
      status: 'deferred',
      reason: 'retry',
      retries: 1,
      ambiguous: 0,
      provider_waits: 0,
      duplicate_risk: false,
      final: false,
      next_attempt_ms: 0,
    } as never,
  ]);
  expect(message?.seq).toBe(seq);
  await plantSuppression(b.admin, b.tenant.tenantId, { reason: 'hard_bounce' });
  expect(await b.store.claim([seq], terms())).toEqual([]);
  await resolve(b, [seq]);
  expect(await resultOf(b, seq)).toMatchObject({ status: 'suppressed', reason: 'hard_bounce', attempt: 1 });
});

test.each([
  { entry: { scope: 'marketing' }, category: 'marketing', stops: true },
  { entry: { scope: 'marketing' }, category: 'transactional', stops: false },
  { entry: { scope: 'marketing' }, category: 'otp', stops: false },
  { entry: { scope: 'all' }, category: 'otp', stops: true },
  { entry: { channel: 'whatsapp' }, category: 'transactional', stops: false },
  { entry: { expiresIn: '1 hour' }, category: 'transactional', stops: true },
  { entry: { expiresIn: '-1 ms' }, category: 'transactional', stops: false },
] as const)('suppression $entry stops category $category: $stops', async ({ entry, category, stops }) => {
  await using b = await setupMessages();
  const [seq = 0] = await b.accept(1, { category });
  await plantSuppression(b.admin, b.tenant.tenantId, entry);
  const [waiting] = await b.store.findWaiting([seq]);
  expect(waiting?.suppression).toBe(stops ? 'manual' : null);
  expect(await b.store.claim([seq], terms())).toHaveLength(stops ? 0 : 1);
});

test('the suppression of another tenant has no effect', async () => {
  await using b = await setupMessages();
  const stranger = await seedTenant(b.admin);
  await seedAccount(b.admin, stranger.tenantId);
  await plantSuppression(b.admin, stranger.tenantId);
  expect(await b.store.claim(await b.accept(), terms())).toHaveLength(1);
});

test('a suppressed message takes no token of the rate limit of its account', async () => {
  await using b = await setupMessages();
  await b.admin`update despatch.provider_accounts set rate_limit_per_second = 1 where id = ${b.accountId}`;
  await b.accept(5);
  const [other = 0] = await b.accept(1, { address: '+15550000002' });
  await plantSuppression(b.admin, b.tenant.tenantId);
  expect(await b.claimDue(10, 10_000)).toMatchObject([{ seq: other }]);
});

test('a suppression committed while a claim waits for a lock applies from the next claim on', async () => {
  await using b = await setupMessages();
  const [first = 0, second = 0] = await b.accept(2);
  const held = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const hold = b.admin.begin(async (tx) => {
    await tx`select from despatch.live_messages where seq = ${first} for update`;
    held.resolve();
    await release.promise;
  });
  await held.promise;
  const claim = b.store.claim([first], terms());
  await expect.poll(() => lockWaits(b.admin, 'claim(')).toHaveLength(1);
  await plantSuppression(b.admin, b.tenant.tenantId);
  const [entry] = await b.admin<{ at: Date }[]>`select created_at as at from despatch.suppressions`;
  release.resolve();
  await hold;
  // The stored start of its attempt is before the entry.
  expect(await claim).toHaveLength(1);
  const [attempt] = await b.admin<
    { at: Date }[]
  >`select started_at as at from despatch.live_messages where seq = ${first}`;
  expect(attempt?.at.getTime()).toBeLessThanOrEqual(entry?.at.getTime() ?? 0);
  expect(await b.store.claim([second], terms())).toEqual([]);
});

test('an entry that is committed after a claim has looked, and before it begins an attempt, is seen', async () => {
  await using b = await setupMessages();
  await b.admin`update despatch.provider_accounts set rate_limit_per_second = 5 where id = ${b.accountId}`;
  const [stopped = 0, other = 0] = [
    ...(await b.accept()),
    ...(await b.accept(1, { address: '+15550000002' })),
  ];
  const held = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  // The claim takes rate tokens between its look for suppressions and the start of attempts; this lock holds it there.
  const hold = b.admin.begin(async (tx) => {
    await tx`insert into despatch.counter_locks (owner, counter) values (${b.accountId}, 'tokens') on conflict do nothing`;
    await tx`select from despatch.counter_locks where owner = ${b.accountId} for update`;
    held.resolve();
    await release.promise;
  });
  await held.promise;
  const claim = b.claimDue(10, 10_000);
  await expect.poll(() => lockWaits(b.admin, 'claim_due(')).toHaveLength(1);
  await plantSuppression(b.admin, b.tenant.tenantId);
  release.resolve();
  await hold;
  expect((await claim).map(({ seq }) => seq)).toEqual([other]);
  await resolve(b, [stopped]);
  expect(await resultOf(b, stopped)).toMatchObject({ status: 'suppressed', attempt: 0 });
});

test('suppressions that expired more than a day ago are purged without an event, and no others', async () => {
  await using b = await setupMessages();
  const { tenantId } = b.tenant;
  await plantSuppression(b.admin, tenantId, { reason: 'manual', expiresIn: '-25 hours' });
  await plantSuppression(b.admin, tenantId, { reason: 'complaint', expiresIn: '-1 hour' });
  await plantSuppression(b.admin, tenantId, { reason: 'opt_out' });
  await b.worker`select purge_rows('suppressions', 100)`;
  const left = await b.admin`select reason from despatch.suppressions order by 1`;
  expect(left.map(({ reason }) => reason as string)).toEqual(['complaint', 'opt_out']);
  const told = await b.admin`select type from despatch.tenant_events where tenant_id = ${tenantId}`;
  expect(told).toEqual([{ type: 'suppression.added' }]);
});

/** Claims a message and completes it as refused for good because of its recipient. */
async function refuse(
  b: MessageBench,
  seq: number,
  more: Partial<Completion> = {},
  meanwhile: () => Promise<void> = async () => {},
) {
  const [message] = await b.store.claim([seq], terms());
  await meanwhile();
  return b.store.complete([
    {
      seq,
      purge_on: message?.purgeOn,
      attempt: 1,
      outcome: 'rejected_permanent',
      outcome_reason: 'recipient_opted_out',
      failure: { class: 'recipient_unavailable', code: 'recipient_opted_out' },
      status: 'failed',
      retries: 0,
      ambiguous: 0,
      provider_waits: 0,
      duplicate_risk: false,
      final: true,
      discard: false,
      suppress: 'opt_out',
      ...more,
    } as Completion,
  ]);
}
const entriesOf = (b: MessageBench) =>
  b.admin`select s.channel, s.address, s.reason, s.scope, s.source, m.seq from despatch.suppressions s
    left join despatch.messages m on m.id = s.message_id order by s.seq`;

test('a refusal because of an opt-out suppresses the recipient when it is recorded', async () => {
  await using b = await setupMessages();
  const [seq = 0, next = 0] = await b.accept(2);
  expect(await refuse(b, seq)).toEqual(new Set([seq]));
  expect(await entriesOf(b)).toEqual([
    { channel: 'sms', address: '+15550000001', reason: 'opt_out', scope: 'all', source: 'refusal', seq },
  ]);
  expect(await b.store.claim([next], terms())).toEqual([]);
  const told =
    await b.admin`select details ->> 'reason' as reason from despatch.tenant_events where type = 'suppression.added'`;
  expect(told).toEqual([{ reason: 'opt_out' }]);
});

test('a stale completion or one of a test message suppresses no recipient', async () => {
  await using b = await setupMessages();
  const [stale = 0] = await b.accept();
  expect(await refuse(b, stale, { attempt: 7 })).toEqual(new Set());
  const [tried = 0] = await b.accept(1, { test: true });
  expect(await refuse(b, tried)).toEqual(new Set([tried]));
  expect(await entriesOf(b)).toEqual([]);
});

test('a receipt suppresses its recipient and replaces an expired entry, but not an equal one', async () => {
  await using b = await setupMessages();
  const { tenantId } = b.tenant;
  const [bounced = 0, complained = 0, fine = 0] = [
    ...(await b.accept(2)),
    ...(await b.accept(1, { address: '+15550000002' })),
  ];
  await b.admin`
    with gone as (delete from despatch.live_messages l returning l.*)
    insert into despatch.message_results (seq, purge_on, tenant_id, account_id, provider, status, attempt, started_at, duplicate_risk,
      final, expires_at, updated_at)
    select seq, purge_on, tenant_id, account_id, 'twilio', 'sent', 1, now(), false, false, expires_at, now() from gone`;
  await plantSuppression(b.admin, tenantId, { reason: 'hard_bounce', expiresIn: '-1 hour' });
  await plantSuppression(b.admin, tenantId, { reason: 'complaint' });
  const [kept] = await b.admin`select id from despatch.suppressions where reason = 'complaint'`;
  const report = (seq: number, said: Record<string, unknown>) =>
    b.admin`insert into despatch.receipts ${b.admin({
      tenant_id: tenantId,
      account_id: b.accountId,
      message_seq: seq,
      attempt: 1,
      apply_at: new Date(0),
      ...said,
    } as never)}`;
  await report(bounced, {
    receipt: 'undelivered',
    failure: b.admin.json({ class: 'invalid_recipient', code: 'unknown_recipient' }),
  });
  await report(complained, { engagement: 'complained' });
  await report(fine, { receipt: 'delivered' });
  await b.admin`update despatch.receipts r set purge_on = m.purge_on from despatch.messages m where m.seq = r.message_seq`;
  const { results } = await b.store.applyReceipts(10, decideReceipts);
  expect(results.map(({ result }) => result)).toEqual(['applied', 'applied', 'applied']);
  const entries = await entriesOf(b);
  expect(entries).toHaveLength(2);
  expect(entries).toEqual(
    expect.arrayContaining([
      {
        channel: 'sms',
        address: '+15550000001',
        reason: 'hard_bounce',
        scope: 'all',
        source: 'receipt',
        seq: bounced,
      },
    ]),
  );
  expect(await b.admin`select id from despatch.suppressions where reason = 'complaint'`).toEqual([kept]);
});

test.each([
  { entry: { expiresIn: '1 hour' }, scope: 'all', isKept: false },
  { entry: { scope: 'marketing' }, scope: 'all', isKept: false },
  { entry: { scope: 'marketing', expiresIn: '-1 hour' }, scope: 'all', isKept: false },
  { entry: {}, scope: 'all', isKept: true },
] as const)('beside $entry an opt-out becomes a permanent suppression of all categories', async (given) => {
  await using b = await setupMessages();
  const [seq = 0] = await b.accept();
  const entry = () => b.admin`select id, scope, expires_at, source, address from despatch.suppressions`;
  let before: unknown;
  const plant = async () => {
    await plantSuppression(b.admin, b.tenant.tenantId, { reason: 'opt_out', ...given.entry });
    await b.admin`update despatch.suppressions set address = null`;
    [before] = await b.admin`select id from despatch.suppressions`;
  };
  expect(await refuse(b, seq, {}, plant)).toEqual(new Set([seq]));
  const after = await entry();
  expect(after).toMatchObject([{ scope: given.scope, expires_at: null }]);
  expect(after[0]?.['id'] === (before as { id: string }).id).toBe(given.isKept);
  // An entry in force without an address keeps none: the tenant asked for that.
  const isOver = 'expiresIn' in given.entry && given.entry.expiresIn.startsWith('-');
  expect(after[0]?.['address']).toBe(isOver ? '+15550000001' : null);
  const told = await b.admin`select from despatch.tenant_events where type = 'suppression.added'
    and details ->> 'source' = 'refusal'`;
  expect(told).toHaveLength(given.isKept ? 0 : 1);
});

test('suppressions are found by their key, even with plans made on an empty table', async () => {
  await using b = await setupMessages();
  const { tenantId } = b.tenant;
  const seqs = await b.accept(50, { address: '+15550000002' });
  // The connection makes its plans while there are no entries.
  await b.store.claim(seqs.slice(0, 10), terms());
  await b.admin`insert into despatch.suppressions (tenant_id, channel, address_key, reason, scope, source)
    select ${tenantId}, 'sms', decode(md5(n::text), 'hex'), 'manual', 'all', 'api' from generate_series(1, 3000) n`;
  const read = async (): Promise<number> => {
    const [row] = await b.admin<{ n: number }[]>`
      select coalesce(sum(idx_tup_read), 0)::integer as n from pg_stat_all_indexes
      where relid = 'despatch.suppressions'::regclass`;
    return row?.n ?? 0;
  };
  const before = await read();
  for (const seq of seqs.slice(10)) await b.store.claim([seq], terms());
  await b.store.findWaiting(seqs);
  // A session reports its statistics with a delay, or when it ends.
  await b.worker`select pg_stat_force_next_flush()`;
  await b.admin`select pg_stat_clear_snapshot()`;
  expect((await read()) - before).toBeLessThan(1_000);
});
