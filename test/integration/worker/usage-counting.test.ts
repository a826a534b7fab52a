import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { holdSnapshot } from '#test/support/hold-snapshot.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import { miscounts } from '#test/support/usage-recount.ts';
import { setupStores } from '#test/support/setup-stores.ts';

const TERMS = { worker: 'w1', leaseMs: 60_000 };
const OUTCOMES: Readonly<Record<string, AttemptOutcome>> = {
  accepted: { kind: 'accepted', providerMessageId: 'p-1' },
  transient: {
    kind: 'rejected_transient',
    failure: { class: 'provider_unavailable', code: 'http_503' },
  },
  permanent: {
    kind: 'rejected_permanent',
    failure: { class: 'invalid_recipient', code: 'invalid_recipient' },
  },
  ambiguous: { kind: 'ambiguous', failure: { class: 'unknown', code: 'no_answer' } },
};
const TIMEOUT_MS = 72 * 3_600_000;

async function setup() {
  const stores = await setupStores();
  const { admin, api, store } = stores;
  const tenant = await newTenant();

  async function newTenant(): Promise<SeededTenant & { accountId: string }> {
    const seeded = await seedTenant(admin);
    return { ...seeded, accountId: await seedAccount(admin, seeded.tenantId) };
  }
  async function accept(n = 1, overrides: Record<string, unknown> = {}, of: SeededTenant = tenant) {
    const rows = Array.from({ length: n }, () => acceptRow(of, overrides));
    await acceptBatch(api, rows);
    return rows.map(({ seq }) => seq);
  }
  async function attempt(seqs: readonly number[], outcome: AttemptOutcome): Promise<void> {
    await admin`update despatch.live_messages set next_attempt_at = null, due_at = now()
      where seq = any (${[...seqs]}::bigint[]) and status in ('queued', 'deferred')`;
    const claimed = await store.claim(seqs, TERMS);
    await store.complete(
      claimed.map((message) => completionOf(message, outcome, { receiptsExpected: true })),
    );
  }
  /** @param accountId the account that reports; it may differ from the account of the message's last attempt. */
  async function receive(seq: number, receipt: string, accountId: string | null = null): Promise<void> {
    await admin`
      insert into despatch.receipts (tenant_id, message_seq, purge_on, receipt, account_id, temporary, report_key, apply_at)
      select tenant_id, seq, purge_on, ${receipt}, ${accountId}::uuid, true, gen_random_uuid()::text, now()
      from despatch.messages where seq = ${seq}`;
    await store.applyReceipts(100, decideReceipts);
  }
  /** Runs counting passes until none is left. @param most moves per pass. */
  async function count(most = 100): Promise<void> {
    while ((await store.countUsage(most, 0)).outcome === 'more');
  }
  const usage = (dimension = 'day', tenantId = tenant.tenantId) => admin<
    { value: string; status: string; messages: number; segments: number }[]
  >`
    select value, status, messages, segments from despatch.usage_counts
    where tenant_id = ${tenantId} and dimension = ${dimension} and messages <> 0 order by value, status`;
  return {
    ...stores,
    tenant,
    newTenant,
    accept,
    attempt,
    receive,
    count,
    usage,
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

const which = fc.nat({ max: 40 });
const STEP = fc.oneof(
  fc.record({
    do: fc.constant('accept' as const),
    n: fc.integer({ min: 1, max: 6 }),
    tags: fc.array(fc.constantFrom('spring', 'other', 'a,b', '=x'), { maxLength: 3 }),
    segments: fc.option(fc.integer({ min: 1, max: 4 })),
    test: fc.boolean(),
    isOther: fc.boolean(),
    hoursAgo: fc.nat({ max: 30 }),
    retentionDays: fc.constantFrom(30, 90),
  }),
  fc.record({
    do: fc.constant('attempt' as const),
    from: which,
    n: fc.integer({ min: 1, max: 8 }),
    outcome: fc.constantFrom(...Object.keys(OUTCOMES)),
  }),
  fc.record({
    do: fc.constant('receive' as const),
    from: which,
    receipt: fc.constantFrom('sent', 'delivered', 'undelivered'),
    isOther: fc.boolean(),
  }),
  fc.record({
    do: fc.constant('move' as const),
    from: which,
    to: fc.constantFrom('expired', 'canceled', 'failed'),
  }),
  fc.record({ do: fc.constant('hold' as const) }),
  fc.record({ do: fc.constant('forget' as const), from: which }),
  fc.record({ do: fc.constant('count' as const), most: fc.integer({ min: 1, max: 3 }) }),
);

describe('usage counting', () => {
  test('equals a recount of the messages for random histories and pass times', async () => {
    await using b = await setup();
    const others = [await b.newTenant(), await b.newTenant()];
    await fc.assert(
      fc.asyncProperty(fc.array(STEP, { minLength: 4, maxLength: 24 }), async (steps) => {
        const seqs: number[] = [];
        const some = (from: number, n = 1) =>
          seqs.length === 0 ? [] : Array.from({ length: n }, (_, i) => seqs[(from + i) % seqs.length] ?? 0);
        for (const step of steps) {
          if (step.do === 'accept') {
            const enqueuedAt = new Date(Date.now() - step.hoursAgo * 3_600_000);
            const overrides = {
              tags: step.tags,
              segments: step.segments,
              test: step.test,
              retention_days: step.retentionDays,
              enqueued_at: enqueuedAt.toISOString(),
            };
            const of = step.isOther ? (others[step.n % 2] ?? b.tenant) : b.tenant;
            seqs.push(...(await b.accept(step.n, overrides, of)));
          } else if (step.do === 'attempt')
            await b.attempt([...new Set(some(step.from, step.n))], OUTCOMES[step.outcome] as AttemptOutcome);
          else if (step.do === 'receive')
            for (const seq of some(step.from))
              await b.receive(seq, step.receipt, step.isOther ? b.tenant.accountId : null);
          else if (step.do === 'move') await b.store.moveMessages(some(step.from), step.to, null);
          else if (step.do === 'hold') {
            await b.store.holdTenant(b.tenant.tenantId, 100);
            await b.store.releaseTenant(b.tenant.tenantId, 100);
          } else if (step.do === 'forget') {
            await b.admin`update despatch.awaited_receipts set due_at = now() where seq = any (${some(step.from)}::bigint[])`;
            await b.store.expireReceipts(100, [], TIMEOUT_MS);
          } else await b.store.countUsage(step.most, 0);
        }
        await b.count();
        expect(await miscounts(b.admin)).toEqual([]);
      }),
      { numRuns: 25 },
    );
    expect(await b.admin`select from despatch.usage_moves`).toHaveLength(0);
  });

  test('counts each message in one status and moves it when its status changes', async () => {
    await using b = await setup();
    const { accountId } = b.tenant;
    const seqs = await b.accept(3, { segments: 2 });
    await b.count();
    expect(await b.usage()).toEqual([{ value: '', status: 'in_progress', messages: 3, segments: 6 }]);
    await b.attempt(seqs.slice(0, 2), OUTCOMES['accepted'] as AttemptOutcome);
    await b.count();
    await b.receive(seqs[0] ?? 0, 'delivered');
    await b.count();
    expect(await b.usage()).toEqual([
      { value: '', status: 'in_progress', messages: 1, segments: 2 },
      { value: accountId, status: 'delivered', messages: 1, segments: 2 },
      { value: accountId, status: 'sent', messages: 1, segments: 2 },
    ]);
    expect(await b.usage('key')).toEqual([
      { value: b.tenant.apiKeyId, status: 'delivered', messages: 1, segments: 2 },
      { value: b.tenant.apiKeyId, status: 'in_progress', messages: 1, segments: 2 },
      { value: b.tenant.apiKeyId, status: 'sent', messages: 1, segments: 2 },
    ]);
  });

  test('counts the durations until provider acceptance and receipt from the stored times', async () => {
    await using b = await setup();
    const seqs = await b.accept(3, { enqueued_at: new Date(Date.now() - 3_000).toISOString() });
    await b.attempt(seqs, OUTCOMES['accepted'] as AttemptOutcome);
    await b.admin`update despatch.message_results set sent_at = sent_at - interval '1 hour' where seq = ${seqs[0] ?? 0}`;
    for (const seq of seqs.slice(0, 2)) await b.receive(seq, 'undelivered');
    // A later, better receipt does not count its time again.
    await b.receive(seqs[0] ?? 0, 'delivered');
    await b.count();
    const times = await b.admin<{ until: string; bucket: number; n: number }[]>`
      select t.until, u.nth - 1 as bucket, u.n from despatch.usage_times t, unnest(t.counts) with ordinality u (n, nth)
      where t.dimension = 'day' and u.n > 0 order by 1, 2`;
    const stored = await b.admin<{ until: string; bucket: number; n: number }[]>`
      select until, despatch.time_bucket(1000 * date_part('epoch', took)) as bucket, count(*) as n from (
        select 'provider' as until, s.sent_at - m.enqueued_at + case when s.seq = ${seqs[0] ?? 0} then interval '1 hour' else '0' end as took
        from despatch.message_results s join despatch.messages m using (seq, purge_on)
        union all
        -- Stored in whole milliseconds.
        select 'receipt', date_trunc('milliseconds', e.at - s.sent_at) from despatch.message_results s
        join despatch.event_log e on e.message_seq = s.seq and e.type = 'message.undelivered' and e.applied
      ) x group by 1, 2 order by 1, 2`;
    expect(times).toEqual(stored);
    expect(times.reduce((sum, { n }) => sum + n, 0)).toBe(5);
  });

  test('counts the first 100 tags of a day separately and all others together', async () => {
    await using b = await setup();
    const early = await b.accept(1, { tags: ['first', 'other'] });
    await b.count();
    for (let i = 0; i < 12; i += 1) {
      const tags = Array.from({ length: 10 }, (_, n) => `t${10 * i + n}`);
      await b.accept(1, { tags });
      if (i % 3 === 0) await b.count();
    }
    const late = await b.accept(2, { tags: ['late', 'first', 'late'] });
    await b.count();
    await b.attempt([...early, ...late], OUTCOMES['accepted'] as AttemptOutcome);
    await b.count();
    const rows = await b.usage('tag');
    expect(new Set(rows.map(({ value }) => value)).size).toBe(101);
    expect(rows.filter(({ value }) => value === 'first')).toEqual([
      { value: 'first', status: 'sent', messages: 3, segments: 3 },
    ]);
    expect(rows.filter(({ value }) => value === '')).toEqual([
      { value: '', status: 'in_progress', messages: 21, segments: 21 },
      { value: '', status: 'sent', messages: 3, segments: 3 },
    ]);
  });

  test('does not wait for a long transaction and counts its changes after its commit', async () => {
    await using b = await setup();
    const held = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const [message = 0] = await b.accept();
    await b.count();
    const slowly = b.admin.begin(async (tx) => {
      await tx`set local search_path = despatch`;
      await tx`select move_messages(${[message]}::bigint[], 'expired', null)`;
      begun.resolve();
      await held.promise;
    });
    await begun.promise;
    for (let i = 0; i < 3; i += 1) {
      await b.accept(2);
      await b.count();
    }
    expect(await b.usage()).toMatchObject([{ status: 'in_progress', messages: 7 }]);
    held.resolve();
    await slowly;
    await b.count();
    expect(await miscounts(b.admin)).toEqual([]);
    expect(await b.usage()).toMatchObject([
      { status: 'expired', messages: 1 },
      { status: 'in_progress', messages: 6 },
    ]);
  });

  test('stores nothing of a failed pass and counts everything in the next one', async () => {
    await using b = await setup();
    await b.accept(2);
    await b.admin
      .begin(async (tx) => {
        await tx`select despatch.count_usage(10, 0)`;
        throw new Error('on purpose');
      })
      .catch(() => undefined);
    expect(await b.usage()).toEqual([]);
    await b.count();
    expect(await miscounts(b.admin)).toEqual([]);
    expect(await b.usage()).toMatchObject([{ messages: 2 }]);
  });

  test('runs in one worker at a time and respects the minimum gap between passes', async () => {
    await using b = await setup();
    await b.accept();
    await b.count();
    await b.accept();
    expect((await b.store.countUsage(10, 600_000)).outcome).toBe('early');
    const other = b.admin.begin(async (tx) => {
      await tx`select pg_advisory_xact_lock(hashtext('despatch.usage'))`;
      return b.store.countUsage(10, 0);
    });
    expect((await other).outcome).toBe('elsewhere');
    expect((await b.store.countUsage(10, 0)).outcome).toBe('counted');
    expect((await b.store.countUsage(10, 0)).outcome).toBe('idle');
  });

  test('takes whole commits until they contain enough changes', async () => {
    await using b = await setup();
    for (let commit = 0; commit < 3; commit += 1) await b.accept(3);
    const counted = async () => (await b.usage()).map(({ messages }) => messages);
    expect((await b.store.countUsage(4, 0)).outcome).toBe('more');
    expect(await counted()).toEqual([6]);
    expect((await b.store.countUsage(4, 0)).outcome).toBe('counted');
    expect(await counted()).toEqual([9]);
    expect(await miscounts(b.admin)).toEqual([]);
  });

  test('keeps the last hundred passes, also where their numbers jump', async () => {
    await using b = await setup();
    for (let pass = 0; pass < 130; pass += 1) {
      await b.accept();
      // As after a crash, or a pass that was rolled back.
      if (pass % 10 === 0)
        await b.admin`select setval('despatch.usage_passes_id_seq', nextval('despatch.usage_passes_id_seq') + 31)`;
      await b.count();
    }
    const [kept] = await b.admin`select count(*)::int as n from despatch.usage_passes`;
    expect(kept?.['n']).toBe(101);
  });

  test('continues after a restore into a cluster with lower transaction ids', async () => {
    await using b = await setup();
    await b.accept(2);
    await b.count();
    await b.accept(1);
    await b.admin`update despatch.usage_moves set xid = (xid::text::bigint + 1000000000)::text::xid8`;
    await b.admin`update despatch.usage_passes set from_xid = (from_xid::text::bigint + 1000000000)::text::xid8`;
    await b.accept(3);
    await b.store.countUsage(1, 0);
    await b.count();
    await b.accept(1);
    await b.count();
    expect(await miscounts(b.admin)).toEqual([]);
    expect(await b.usage()).toMatchObject([{ messages: 7 }]);
  });

  test('reads no more pages while an old snapshot is open', async () => {
    await using b = await setup();
    await b.accept();
    await b.count();
    const pages = async () => {
      await b.accept();
      const [row] = await b.admin.unsafe<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }[]>(
        'explain (analyze, buffers, format json) select despatch.count_usage(100, 0)',
      );
      const plan = row?.['QUERY PLAN'][0].Plan;
      return (plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0);
    };
    await using reader = await holdSnapshot(b.admin);
    expect(reader).toBeDefined();
    const early = await pages();
    await b.admin.begin(async (tx) => {
      await tx`insert into despatch.usage_moves (at, purge_on, became, seqs)
        select now(), current_date, 'in_progress', '{1}' from generate_series(1, 20000)`;
      await tx`delete from despatch.usage_moves where xid = pg_current_xact_id()`;
    });
    await pages();
    expect(await pages()).toBeLessThan(early + 30);
  });

  test('excludes test messages and tenants that are being purged', async () => {
    await using b = await setup();
    await b.accept(2, { test: true });
    const leaving = await b.newTenant();
    await b.accept(2, {}, leaving);
    await b.admin`update despatch.tenants set status = 'deleting' where id = ${leaving.tenantId}`;
    await b.count();
    expect(await b.admin`select from despatch.usage_counts`).toEqual([]);
    expect(await b.admin`select from despatch.usage_moves`).toEqual([]);
  });

  test('keeps its counts for thirteen months', async () => {
    await using b = await setup();
    for (const age of ['12 months 25 days', '13 months 2 days']) {
      await b.admin`insert into despatch.usage_counts select ${b.tenant.tenantId}, 'day', now() - ${age}::interval, 'sms', '', 'sent', 1, 1`;
      await b.admin`insert into despatch.usage_times select ${b.tenant.tenantId}, 'day', now() - ${age}::interval, 'sms', '', 'provider', '{1}'`;
    }
    await b.store.maintain();
    expect(await b.admin`select from despatch.usage_counts`).toHaveLength(1);
    expect(await b.admin`select from despatch.usage_times`).toHaveLength(1);
  });
});
