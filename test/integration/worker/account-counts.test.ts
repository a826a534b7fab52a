import { describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { timeBucket } from '#core/domain/tenant/time-buckets.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

const TERMS = { worker: 'w1', leaseMs: 60_000 };
const ACCEPTED: AttemptOutcome = { kind: 'accepted', providerMessageId: 'p-1' };
const UNAVAILABLE: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'provider_unavailable', code: 'http_503' },
};
const BAD_NUMBER: AttemptOutcome = {
  kind: 'rejected_permanent',
  failure: { class: 'invalid_recipient', code: 'invalid_recipient' },
};
const NO_ANSWER: AttemptOutcome = { kind: 'ambiguous', failure: { class: 'unknown', code: 'no_answer' } };

async function setup() {
  const stores = await setupStores();
  const { admin, api, store } = stores;
  const tenant = await seedTenant(admin);
  const accountId = await seedAccount(admin, tenant.tenantId);

  async function accept(overrides: Record<string, unknown> = {}): Promise<number> {
    const row = acceptRow(tenant, overrides);
    await acceptBatch(api, [row]);
    return row.seq;
  }
  async function attempt(seqs: readonly number[], outcome: AttemptOutcome, callMs?: number): Promise<void> {
    await admin`update despatch.live_messages set next_attempt_at = null, due_at = now()
      where seq = any (${[...seqs]}::bigint[]) and status in ('queued', 'deferred')`;
    const claimed = await store.claim(seqs, TERMS);
    expect(claimed).toHaveLength(seqs.length);
    const call = callMs === undefined ? {} : { callMs };
    await store.complete(
      claimed.map((message) => completionOf(message, outcome, { receiptsExpected: true }, call)),
    );
  }
  async function receive(seq: number, receipt: string, of: string | null = null): Promise<void> {
    await admin`
      insert into despatch.receipts (tenant_id, message_seq, purge_on, receipt, account_id, temporary, report_key, apply_at)
      select tenant_id, seq, purge_on, ${receipt}, ${of}::uuid, true, gen_random_uuid()::text, now()
      from despatch.messages where seq = ${seq}`;
    await store.applyReceipts(100, decideReceipts);
  }
  const count = async (most = 100): Promise<void> => {
    while ((await store.countUsage(most, 0)).outcome === 'more');
  };
  const counts = () => admin<Record<string, unknown>[]>`
    select account_id, sum(accepted)::int as accepted, sum(refused)::int as refused, sum(failed)::int as failed,
      sum(delivered)::int as delivered, sum(undelivered)::int as undelivered
    from despatch.account_counts where tenant_id = ${tenant.tenantId} group by 1 order by 1`;
  return {
    ...stores,
    tenant,
    accountId,
    accept,
    attempt,
    receive,
    count,
    counts,
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

describe('account counts', () => {
  test('include each provider call once, also of deferred messages, but no test messages', async () => {
    await using b = await setup();
    const [one, two, three, test] = [
      await b.accept(),
      await b.accept(),
      await b.accept(),
      await b.accept({ test: true }),
    ];
    await b.attempt([one, two, test], UNAVAILABLE, 900);
    await b.attempt([one, two, test], ACCEPTED, 100);
    await b.attempt([three], BAD_NUMBER, 40);
    const waiting = await b.accept();
    await b.attempt([waiting], NO_ANSWER, 10_000);
    // No call was made.
    await b.attempt([await b.accept()], { kind: 'not_started', reason: 'shutdown' });
    await b.count();
    const calls = { account_id: b.accountId, accepted: 2, refused: 1, failed: 3 };
    expect(await b.counts()).toEqual([{ ...calls, delivered: 0, undelivered: 0 }]);

    // A pass counts nothing twice and adds what came later.
    await b.count();
    await b.attempt([waiting], ACCEPTED, 100);
    await b.count();
    expect(await b.counts()).toMatchObject([{ ...calls, accepted: 3 }]);
    const rows = await b.admin<{ period: Date; call_times: number[] }[]>`
      select period, call_times::int[] from despatch.account_counts where account_id = ${b.accountId}`;
    const times: number[] = [];
    for (const { period, call_times: found } of rows) {
      expect(period.getTime() % 300_000).toBe(0);
      found.forEach((n, bucket) => (times[bucket] = (times[bucket] ?? 0) + n));
    }
    const at = (ms: number) => times[timeBucket(ms)];
    expect([at(40), at(100), at(900), at(10_000)]).toEqual([1, 3, 2, 1]);
    expect(times.reduce((sum, n) => sum + n, 0)).toBe(7);
  });

  test('include a receipt once and follow status changes, without deleted accounts and tenants', async () => {
    await using b = await setup();
    const other = await seedAccount(b.admin, b.tenant.tenantId);
    const [one, two, three, test] = [
      await b.accept(),
      await b.accept(),
      await b.accept(),
      await b.accept({ test: true }),
    ];
    await b.attempt([one, two, three, test], ACCEPTED, 100);
    await b.receive(one, 'delivered');
    await b.receive(one, 'delivered');
    await b.receive(test, 'delivered');
    await b.receive(two, 'undelivered');
    await b.count(1);
    expect(await b.counts()).toMatchObject([{ delivered: 1, undelivered: 1 }]);
    await b.receive(two, 'delivered');
    await b.count();
    expect(await b.counts()).toMatchObject([{ accepted: 3, delivered: 2, undelivered: 0 }]);
    // A pass counts nothing for an account that no longer exists or a tenant that is being purged.
    await b.admin`insert into despatch.usage_moves (at, purge_on, was, became, seqs, account_ids, call_end, call_ms)
      values (now(), current_date, 'in_progress', 'in_progress', '{1}', array[gen_random_uuid()], 'failed', '{5}')`;
    await b.count();
    expect(await b.counts()).toHaveLength(1);
    await b.admin`update despatch.tenants set status = 'deleting' where id = ${b.tenant.tenantId}`;
    await b.admin`insert into despatch.usage_moves (at, purge_on, was, became, seqs, account_ids, call_end, call_ms)
      values (now(), current_date, 'in_progress', 'in_progress', '{1}', array[${other}::uuid], 'failed', '{5}')`;
    await b.count();
    expect(await b.counts()).toHaveLength(1);
  });

  test('are purged after 25 hours', async () => {
    await using b = await setup();
    await b.admin`insert into despatch.account_counts
      select ${b.tenant.tenantId}, ${b.accountId}, now() - n * interval '1 hour', 1, 0, 0, 0, 0, '{1}'
      from unnest('{0, 24, 26, 40}'::int[]) n`;
    const [{ n } = { n: 0 }] = await b.admin<
      { n: number }[]
    >`select despatch.purge_rows('account_counts', 100) as n`;
    expect(n).toBe(2);
    expect(await b.counts()).toMatchObject([{ accepted: 2 }]);
  });
});
