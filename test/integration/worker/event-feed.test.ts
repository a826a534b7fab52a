import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { completionOf } from '#test/support/completion-of.ts';
import {
  acceptBatch,
  acceptRow,
  moveSuspension,
  seedAccount,
  seedTenant,
  type SeededTenant,
} from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

const TERMS = { worker: 'w1', leaseMs: 60_000 };
const ACCEPTED: AttemptOutcome = { kind: 'accepted', providerMessageId: 'p-1' };
const TRANSIENT: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'provider_unavailable', code: 'http_503' },
};

type FeedRow = { readonly seq: number; readonly message: number; readonly number: number };

async function setup() {
  const stores = await setupStores();
  const { admin, api, store } = stores;
  const tenant = await seedTenant(admin);
  const accountId = await seedAccount(admin, tenant.tenantId);

  async function accept(n = 1, of: SeededTenant = tenant, overrides: Record<string, unknown> = {}) {
    const rows = Array.from({ length: n }, () => acceptRow(of, overrides));
    await acceptBatch(api, rows);
    return rows.map(({ seq }) => seq);
  }
  async function attempt(seqs: readonly number[], outcome: AttemptOutcome, worker = store): Promise<void> {
    await admin`update despatch.live_messages set next_attempt_at = null, due_at = now() where seq = any (${[...seqs]}::bigint[])`;
    const claimed = await worker.claim(seqs, TERMS);
    await worker.complete(claimed.map((message) => completion(message, outcome)));
  }
  async function receive(seq: number, receipt: string, engagement: string | null = null): Promise<void> {
    await admin`
      insert into despatch.receipts (tenant_id, message_seq, purge_on, receipt, engagement, report_key, apply_at)
      select tenant_id, seq, purge_on, ${receipt}, ${engagement}, gen_random_uuid()::text, now() from despatch.messages where seq = ${seq}`;
    await store.applyReceipts(100, decideReceipts);
  }
  async function number(): Promise<number> {
    let all = 0;
    for (;;) {
      const { outcome, numbered } = await store.numberChanges(100, 0);
      all += numbered;
      if (outcome !== 'more') return all;
    }
  }
  /** Returns a tenant's feed as it is stored. */
  async function feed(tenantId = tenant.tenantId): Promise<FeedRow[]> {
    return admin<FeedRow[]>`
      select f.first_seq + u.nth - 1 as seq, u.message, u.number
      from despatch.feed f, unnest(f.seqs, f.numbers) with ordinality as u (message, number, nth)
      where f.tenant_id = ${tenantId} order by f.last_seq, u.nth`;
  }
  return {
    ...stores,
    tenant,
    accountId,
    accept,
    attempt,
    receive,
    number,
    feed,
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

const completion = (message: ClaimedMessage, outcome: AttemptOutcome) =>
  completionOf(message, outcome, { receiptsExpected: true });

const seqsOf = (rows: readonly FeedRow[]) => rows.map(({ seq }) => seq);
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1);

/**
 * Leaves the database as after a restore from a dump: rows and position refer to transaction ids that this cluster has not reached
 * yet.
 */
async function restored(admin: Sql, ahead: readonly string[] = ['done', 'target']): Promise<void> {
  await admin`update despatch.changes set xid = (xid::text::bigint + 1000000000)::text::xid8`;
  for (const column of ahead)
    await admin`
      update despatch.feed_passes set ${admin(column)} = (pg_snapshot_xmin(${admin(column)})::text::bigint + 1000000000 || ':'
        || pg_snapshot_xmax(${admin(column)})::text::bigint + 1000000000 || ':')::pg_snapshot`;
}

describe('the numbering of feed events', () => {
  test('numbers the events of each tenant from 1, in order and each once', async () => {
    await using b = await setup();
    const [one = 0] = await b.accept();
    await b.attempt([one], TRANSIENT);
    await b.attempt([one], ACCEPTED);
    await b.receive(one, 'delivered', 'read');
    expect(await b.number()).toBe(5);
    const rows = await b.feed();
    expect(seqsOf(rows)).toEqual(upTo(5));
    expect(rows.map(({ message, number }) => [message, Math.sign(number)])).toEqual([
      [one, 0],
      [one, -1],
      [one, -1],
      [one, 1],
      [one, 1],
    ]);
    expect(await b.number()).toBe(0);
    await b.accept(3);
    expect(await b.number()).toBe(3);
    expect(seqsOf(await b.feed())).toEqual(upTo(8));
  });

  test('numbers each tenant separately, even within one commit', async () => {
    await using b = await setup();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    const rows = upTo(20).map((n) => acceptRow(n % 3 === 0 ? other : b.tenant));
    await acceptBatch(b.api, rows);
    await b.number();
    const mine = rows.filter(({ tenant_id }) => tenant_id === b.tenant.tenantId).map(({ seq }) => seq);
    expect((await b.feed()).map(({ message }) => message)).toEqual(mine);
    expect(seqsOf(await b.feed())).toEqual(upTo(14));
    expect(seqsOf(await b.feed(other.tenantId))).toEqual(upTo(6));
  });

  test('leaves no gap for events that were rolled back', async () => {
    await using b = await setup();
    await b.api
      .begin(async (tx) => {
        await acceptBatch(tx as never, [acceptRow(b.tenant)]);
        throw new Error('on purpose');
      })
      .catch(() => undefined);
    const [kept] = await b.accept();
    await b.number();
    expect(await b.feed()).toEqual([{ seq: 1, message: kept, number: 0 }]);
  });

  test('does not wait for a long transaction and numbers its events after its commit', async () => {
    await using b = await setup();
    const held = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const slow = acceptRow(b.tenant);
    const slowly = b.admin.begin(async (tx) => {
      await tx`set local search_path = despatch`;
      await tx`select note_tenant_event(${b.tenant.tenantId}, 'tenant.resumed', '{}')`;
      begun.resolve();
      await held.promise;
    });
    await begun.promise;
    const before = await b.accept(2);
    expect(await b.number()).toBe(2);
    const after = await b.accept(2);
    expect(await b.number()).toBe(2);
    held.resolve();
    await slowly;
    expect(await b.number()).toBe(1);
    await acceptBatch(b.api, [slow]);
    await b.number();
    expect((await b.feed()).map(({ message }) => message)).toEqual([...before, ...after, 0, slow.seq]);
    expect(seqsOf(await b.feed())).toEqual(upTo(6));
  });

  test('runs one pass at a time and respects the minimum gap between passes', async () => {
    await using b = await setup();
    const tries = async (gapMs: number) =>
      (await Promise.all(upTo(5).map(() => b.store.numberChanges(100, gapMs)))).map(({ outcome }) => outcome);
    await b.accept(3);
    await tries(0);
    await b.number();
    expect(seqsOf(await b.feed())).toEqual(upTo(3));
    await b.accept(1);
    const outcomes = await tries(60_000);
    expect(outcomes).not.toContain('numbered');
    expect(outcomes).toContain('early');
  });

  test('resumes after a partial pass and after a killed one', async () => {
    await using b = await setup();
    for (const _ of upTo(7)) await b.accept(2);
    expect(await b.store.numberChanges(2, 0)).toMatchObject({ outcome: 'more', numbered: 4 });
    // A change that is committed during the passes gets its numbers after the others.
    const later = await b.accept(2);
    await b.admin
      .begin(async (tx) => {
        await tx`select despatch.number_changes(2, 0)`;
        throw new Error('killed');
      })
      .catch(() => undefined);
    expect(await b.store.numberChanges(2, 0)).toMatchObject({ outcome: 'more', numbered: 4 });
    expect(await b.number()).toBe(8);
    const rows = await b.feed();
    expect(seqsOf(rows)).toEqual(upTo(16));
    expect(rows.slice(-2).map(({ message }) => message)).toEqual(later);
  });

  test('has no gaps or duplicates under concurrent senders, rollbacks and passes', async () => {
    await using b = await setup();
    const other = await seedTenant(b.admin, { messagesPerDay: 1_000_000 });
    await seedAccount(b.admin, other.tenantId);
    const over = new AbortController();
    const sender = async (n: number): Promise<void> => {
      for (let round = 0; round < 15; round += 1) {
        const rows = upTo(1 + ((n + round) % 4)).map(() => acceptRow(round % 2 === 0 ? other : b.tenant));
        await b.api
          .begin(async (tx) => {
            await acceptBatch(tx as never, rows);
            await sleep(Math.random() * 15);
            if (round % 5 === 4) throw new Error('on purpose');
          })
          .catch(() => undefined);
        await b.attempt(
          rows.map(({ seq }) => seq),
          round % 3 === 0 ? TRANSIENT : ACCEPTED,
        );
      }
    };
    const passes = (async () => {
      while (!over.signal.aborted) {
        await b.store.numberChanges(1 + Math.floor(Math.random() * 5), 0);
        await sleep(Math.random() * 10);
      }
    })();
    await Promise.all(upTo(4).map(sender));
    over.abort();
    await passes;
    await b.number();
    for (const { tenantId } of [b.tenant, other]) {
      const rows = await b.feed(tenantId);
      expect(seqsOf(rows)).toEqual(upTo(rows.length));
      const expected = await b.admin<{ message: number; number: number }[]>`
        select seq as message, 0::bigint as number from despatch.messages where tenant_id = ${tenantId}
        union all
        select message_seq, -(details ->> 'attempt')::bigint from despatch.events where tenant_id = ${tenantId}`;
      const keys = (all: readonly { message: number; number: number }[]) =>
        all.map(({ message, number }) => `${message} ${number}`);
      expect(keys(rows).toSorted()).toEqual(keys(expected).toSorted());
      // The events of one message are in their order.
      for (const ofOne of Map.groupBy(rows, ({ message }) => message).values())
        expect(ofOne.map(({ number }) => Math.abs(number))).toEqual(upTo(ofOne.length).map((n) => n - 1));
    }
  });

  test('keeps the events of a message in order even if the later transaction began first', async () => {
    await using b = await setup();
    const [x = 0, y = 0] = await b.accept(2);
    await b.number();
    const claimed = await b.store.claim([y], TERMS);
    const locked = Promise.withResolvers<void>();
    // The mover's transaction has its id already and waits for the row of the message whose attempt is about to end.
    const mover = b.admin.begin(async (tx) => {
      await tx`select despatch.move_messages(array[${x}]::bigint[], 'expired', null)`;
      locked.resolve();
      await sleep(150);
      await tx`select despatch.move_messages(array[${y}]::bigint[], 'expired', null)`;
    });
    await locked.promise;
    await b.store.complete(claimed.map((message) => completion(message, TRANSIENT)));
    await mover;
    await b.number();
    const ofY = (await b.feed()).filter(({ message }) => message === y);
    expect(ofY.map(({ number }) => Math.sign(number))).toEqual([0, -1, 1]);
  });

  test('reads no more pages while an old snapshot is open', async () => {
    await using b = await setup();
    const held = Promise.withResolvers<void>();
    const old = b.admin.begin('isolation level repeatable read', async (tx) => {
      await tx`select count(*) from despatch.changes`;
      await held.promise;
    });
    /**
     * Returns the minimum of ten reads: the first one includes planning, and each may include checks of transactions that other
     * sessions have open on this server.
     */
    const buffersOf = async (): Promise<number> =>
      Math.min(...(await Array.fromAsync({ length: 10 }, readOnce)));
    const readOnce = async (): Promise<number> => {
      await b.accept(1);
      const [row] = await b.admin<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }[]>`
        explain (analyze, buffers, format json) select despatch.number_changes(100, 0)`;
      const plan = row?.['QUERY PLAN'][0].Plan ?? {};
      return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
    };
    const pass = async (times: number): Promise<void> => {
      for (const _ of upTo(times)) {
        await b.accept(1);
        await b.store.numberChanges(100, 0);
      }
    };
    try {
      // Until every index has reached its final depth.
      await pass(300);
      const early = await buffersOf();
      await pass(100);
      // Leaves as many dead rows as an hour of traffic does; the old snapshot keeps vacuum from removing them.
      await b.admin.begin(async (tx) => {
        await tx`insert into despatch.changes (tenant_ids, counts, seqs, purge_ons)
          select array[${b.tenant.tenantId}::uuid], '{1}', '{1}', array[current_date] from generate_series(1, 20000)`;
        await tx`delete from despatch.changes where xid = pg_current_xact_id()`;
      });
      await pass(10);
      expect(await buffersOf()).toBeLessThan(early + 30);
    } finally {
      held.resolve();
      await old;
    }
  });

  test('keeps the last hundred passes, also where their numbers jump', async () => {
    await using b = await setup();
    for (let pass = 0; pass < 130; pass += 1) {
      await b.accept();
      // As after a crash, or a pass that was rolled back.
      if (pass % 10 === 0)
        await b.admin`select setval('despatch.feed_passes_id_seq', nextval('despatch.feed_passes_id_seq') + 31)`;
      await b.number();
    }
    const [kept] = await b.admin`select count(*)::int as n from despatch.feed_passes`;
    expect(kept?.['n']).toBe(101);
  });

  test('continues after a restore into a cluster with lower transaction ids', async () => {
    await using b = await setup();
    const first = await b.accept(2);
    await b.number();
    const waiting = await b.accept(1);
    await restored(b.admin);
    const after = await b.accept(1);
    await b.number();
    await b.accept(1);
    await b.number();
    const rows = await b.feed();
    expect(seqsOf(rows)).toEqual(upTo(5));
    expect(rows.slice(0, 4).map(({ message }) => message)).toEqual([...first, ...waiting, ...after]);
  });

  test('numbers each event once if the restored database was in the middle of a pass', async () => {
    await using b = await setup();
    const sent: number[] = [];
    for (const _ of upTo(3)) sent.push(...(await b.accept(1)));
    expect(await b.store.numberChanges(2, 0)).toMatchObject({ outcome: 'more', numbered: 2 });
    await restored(b.admin);
    sent.push(...(await b.accept(1)));
    await b.number();
    sent.push(...(await b.accept(1)));
    await b.number();
    const rows = await b.feed();
    expect(rows.map(({ message }) => message)).toEqual(sent);
    expect(seqsOf(rows)).toEqual(upTo(5));
  });

  test('loses no event under way if only the target of the interrupted pass is ahead of the cluster', async () => {
    await using b = await setup();
    const sent: number[] = [];
    for (const _ of upTo(2)) sent.push(...(await b.accept(1)));
    expect(await b.store.numberChanges(1, 0)).toMatchObject({ outcome: 'more', numbered: 1 });
    await restored(b.admin, ['target']);
    const held = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const slowly = b.admin.begin(async (tx) => {
      await tx`set local search_path = despatch`;
      await tx`select note_tenant_event(${b.tenant.tenantId}, 'tenant.resumed', '{}')`;
      begun.resolve();
      await held.promise;
    });
    await begun.promise;
    sent.push(...(await b.accept(1)));
    let isOver = false;
    const numbering = b.number().finally(() => (isOver = true));
    const isWaiting = async () =>
      (
        await b.admin`select from pg_locks where not granted and database = (
        select oid from pg_database where datname = current_database())`
      ).length > 0;
    await expect.poll(async () => isOver || (await isWaiting())).toBe(true);
    held.resolve();
    await slowly;
    await numbering;
    await b.number();
    const rows = await b.feed();
    expect(rows.map(({ message }) => message).toSorted((a, c) => a - c)).toEqual([0, ...sent]);
    expect(seqsOf(rows)).toEqual(upTo(4));
  });
});

describe('the feed', () => {
  test('excludes holds, releases and receipts without a status change', async () => {
    await using b = await setup();
    const [one = 0] = await b.accept();
    await moveSuspension(b.admin, b.tenant.tenantId, 'manual');
    await b.store.holdTenant(b.tenant.tenantId, 10);
    await moveSuspension(b.admin, b.tenant.tenantId, null);
    await b.store.releaseTenant(b.tenant.tenantId, 10);
    await b.attempt([one], ACCEPTED);
    await b.receive(one, 'sent');
    await b.receive(one, 'delivered');
    await b.receive(one, 'sent');
    await b.number();
    const rows = await b.feed();
    expect(rows.filter(({ message }) => message === one)).toHaveLength(3);
    const types = await b.admin`select type, details from despatch.tenant_events order by event_seq`;
    expect(types).toEqual([
      { type: 'tenant.suspended', details: { reason: 'manual' } },
      { type: 'tenant.resumed', details: { reason: 'manual' } },
    ]);
  });

  test('includes each change of the status or health of an account once', async () => {
    await using b = await setup();
    for (const _ of upTo(4)) await b.store.noteAccountResult(b.accountId, 1, 'refused');
    await b.store.noteAccountResult(b.accountId, 1, null);
    for (const health of ['open', 'probing', 'open', 'probing', 'healthy', 'healthy'] as const)
      await b.store.noteAccountHealth(b.accountId, health);
    await b.admin`update despatch.provider_accounts set status = 'disabled' where id = ${b.accountId}`;
    await b.number();
    const told = await b.admin<
      { type: string }[]
    >`select type from despatch.tenant_events order by event_seq`;
    expect(told.map(({ type }) => type)).toEqual([
      'provider.invalid',
      'provider.active',
      'provider.degraded',
      'provider.recovered',
    ]);
    expect(seqsOf(await b.feed())).toEqual(upTo(4));
  });

  test('does not say that an account fails again when a worker probes it after another one found that calls succeed', async () => {
    await using b = await setup();
    const healthOf = async () =>
      (await b.admin`select health from despatch.provider_accounts where id = ${b.accountId}`)[0]?.['health'];
    for (const health of ['open', 'healthy', 'probing'] as const)
      await b.store.noteAccountHealth(b.accountId, health);
    expect(await healthOf()).toBe('healthy');
    await b.store.noteAccountHealth(b.accountId, 'open');
    expect(await healthOf()).toBe('open');
    await b.number();
    const told = await b.admin`select type from despatch.tenant_events order by event_seq`;
    expect(told.map(({ type }) => type)).toEqual([
      'provider.degraded',
      'provider.recovered',
      'provider.degraded',
    ]);
  });
});

describe('retention', () => {
  test('drops feed events with their messages and does not reuse their numbers', async () => {
    await using b = await setup();
    await b.accept(3);
    await b.number();
    await b.admin`update despatch.feed set purge_on = '2020-01-06'`;
    await b.worker`select purge_rows('feed_default', 100)`;
    expect(await b.feed()).toEqual([]);
    await b.accept(1);
    await b.number();
    expect(seqsOf(await b.feed())).toEqual([4]);
  });

  test('the purge of a tenant leaves no feed rows', async () => {
    await using b = await setup();
    await b.accept(2);
    await b.number();
    await moveSuspension(b.admin, b.tenant.tenantId, 'manual');
    await b.accept(1);
    await b.admin`update despatch.tenants set owner_uid = 'u', owner_ref = 'n/t', status = 'deleting', suspension_reason = null
      where id = ${b.tenant.tenantId}`;
    const purge = () =>
      b.admin<{ outcome: string }[]>`select outcome from despatch.purge_some(${b.tenant.slug}, 'u', 100)`;
    while ((await purge())[0]?.outcome === 'deleted');
    await b.admin`select despatch.end_purge(${b.tenant.slug}, 'u')`;
    await b.number();
    const left = await b.admin`
      select from despatch.feed union all select from despatch.tenant_events union all select from despatch.feed_heads`;
    expect(left).toHaveLength(0);
  });
});
