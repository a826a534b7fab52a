import { describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { createEventIds } from '#core/domain/webhooks/event-id.ts';
import { scanFeed } from '#core/store/webhooks/feed.ts';
import { loadMessageIdKey } from '#core/store/messages/message-places.ts';
import type { Maintained } from '#core/store/upkeep/partitions.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { readUsage } from '#core/store/tenants/usage.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { rowsTouched } from '#test/support/rows-read.ts';
import {
  type MessageBench,
  accepted,
  setupMessages,
  states,
  transient,
} from '#test/support/setup-messages.ts';

const NOTHING: Maintained = { made: 0, dropped: [], busy: [], unsettled: [], failures: [] };

const PAGE = { readsMax: 100, most: 100 };

describe('retention', () => {
  test('a partition is dropped once its Monday has come, and partitions are created ahead', async () => {
    await using b = await setupMessages();
    await b.accept();
    const [clock] = await b.admin<{ monday: string }[]>`
      select date_trunc('week', now() at time zone 'UTC')::date as monday`;
    const name = await makeOldPartition(b, clock?.monday ?? '');
    expect(await b.store.maintain()).toEqual({ ...NOTHING, dropped: [name] });
    expect(await b.store.maintain()).toEqual(NOTHING);
    const [left] = await b.admin`select count(*) as n from despatch.messages`;
    expect(left?.['n']).toBe(1);
  });

  test('a partition that cannot be dropped does not prevent the drop of another one', async () => {
    await using b = await setupMessages();
    const [first, second] = [
      await makeOldPartition(b, '2020-01-06'),
      await makeOldPartition(b, '2020-01-13'),
    ];
    await b.admin.unsafe(`create view public.report as select id from despatch.${first}`);
    const error = expect.objectContaining({ message: expect.stringContaining(`cannot drop table ${first}`) });
    expect(await b.store.maintain()).toEqual({
      ...NOTHING,
      dropped: [second],
      failures: [{ what: first, error }],
    });
    const left = await b.admin`select relname from pg_class where relname in (${first}, ${second})`;
    expect(left.map(({ relname }) => relname as string)).toEqual([first]);
  });

  test('a long reader delays the drop of a partition, but not acceptance or new partitions', async () => {
    await using b = await setupMessages();
    const name = await makeOldPartition(b, '2020-01-06');
    const [last] = await b.admin<{ name: string }[]>`
      select max(relname) as name from pg_class where relname ~ '^attempt_log_[0-9]{8}$'`;
    await b.admin.unsafe(`drop table despatch.${last?.name}`);
    const [reading, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const reader = b.admin.begin(async (tx) => {
      await tx`select count(*) from despatch.messages`;
      reading.resolve();
      await finish.promise;
    });
    await reading.promise;
    const maintained = b.store.maintain();
    // An acceptance waits no longer than the one second for which the drop waits for its lock.
    const slowest = await slowestAccept(b, maintained);
    expect(slowest).toBeLessThan(10_000);
    expect(await maintained).toEqual({ ...NOTHING, made: 1, busy: ['messages'] });
    finish.resolve();
    await reader;
    expect(await b.store.maintain()).toEqual({ ...NOTHING, dropped: [name] });
  });
});

describe('messages that arrive before the partition of their week', () => {
  test('are moved into it', async () => {
    await using b = await setupMessages();
    await b.admin`update despatch.tenant_limits set limits = jsonb_set(limits, '{retentionDays}', '365')`;
    const [seq = 0] = await b.accept();
    const [claimed] = await b.claimDue(1, 60_000);
    await b.store.complete(claimed === undefined ? [] : [completionOf(claimed, accepted)]);
    // As an api would have stored it that knows the longer retention.
    for (const table of ['messages', 'message_results', 'awaited_receipts'])
      await b.admin`update ${b.admin(`despatch.${table}`)} set purge_on = purge_on + 280 where seq = ${seq}`;
    expect(await homesOf(b)).toEqual(['message_results_default', 'messages_default']);
    expect(await b.store.maintain()).toMatchObject({ failures: [], busy: [] });
    expect(await homesOf(b)).toEqual([
      expect.stringMatching(/^message_results_\d{8}$/),
      expect.stringMatching(/^messages_\d{8}$/),
    ]);
    expect(await b.gauges.partitionsDue()).toEqual([]);
    expect(await b.store.maintain()).toEqual(NOTHING);
  });

  test('are moved without a loss for statements that meanwhile wait for the table', async () => {
    await using b = await setupMessages();
    await b.admin`update despatch.tenant_limits set limits = jsonb_set(limits, '{retentionDays}', '365')`;
    const [seq = 0] = await b.accept();
    await b.admin`update despatch.messages set purge_on = purge_on + 280 where seq = ${seq}`;
    const [place] = await b.admin<{ day: string }[]>`select purge_on::text as day from despatch.messages`;
    const day = place?.day ?? '';
    const [moved, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const move = b.admin.begin(async (tx) => {
      await tx`select despatch.make_partition('messages', ${day})`;
      moved.resolve();
      await finish.promise;
    });
    await moved.promise;
    const waiting = [
      b.admin`update despatch.messages set external_id = 'kept' where seq = ${seq} and purge_on = ${day}`.execute(),
      b.accept(1, { purge_on: day }),
    ];
    await expect.poll(() => waitingForLocks(b), { timeout: 10_000 }).toBe(2);
    finish.resolve();
    await Promise.all([move, ...waiting]);
    const rows = await b.admin`select external_id from despatch.messages order by seq`;
    expect(rows.map((row) => row['external_id'] as string | null)).toEqual(['kept', null]);
    expect(await homesOf(b)).not.toContain('messages_default');
  });

  test('stay in a default partition that is too large to be locked', async () => {
    await using b = await setupMessages();
    await b.admin`update despatch.tenant_limits set limits = jsonb_set(limits, '{retentionDays}', '365')`;
    const [seq = 0] = await b.accept();
    await b.admin`update despatch.messages set purge_on = purge_on + 280 where seq = ${seq}`;
    const made = await b.admin.begin(async (tx) => {
      await tx`set local despatch.move_bytes_max = 8191`;
      return tx`select despatch.make_partition('messages', (select distinct purge_on from despatch.messages)) as done`;
    });
    expect(made).toEqual([{ done: false }]);
    expect(await homesOf(b)).toContain('messages_default');
  });
});

describe('a week whose message is being sent when its Monday comes', () => {
  test('is kept until the message is settled, although all workers were away until then', async () => {
    await using b = await setupMessages();
    const old = await makeOldPartition(b, '2020-01-06');
    const later = await makeOldPartition(b, '2020-01-13');
    const [seq = 0] = await b.accept();
    const [claimed] = await b.claimDue(1, 60_000);
    await backdate(b, [seq], '2020-01-06');
    await b.store.endOutlived(PAGE);
    const kept = { ...NOTHING, unsettled: ['2020-01-06'] };
    expect(await b.store.maintain()).toEqual({ ...kept, dropped: [later] });
    expect(await b.store.maintain()).toEqual(kept);
    expect(await b.gauges.partitionsDue()).toEqual([{ task: 'drop', partitions: 1 }]);

    await b.admin`update despatch.live_messages set lease_until = now() - interval '1 second'`;
    const [lost] = await b.store.lost([seq]);
    expect(lost).toMatchObject({ action: 'lost', attempt: claimed?.attempt });
    await b.store.complete(lost === undefined ? [] : [completionOf(lost, transient)]);
    expect(await states(b)).toEqual(['deferred']);
    expect(await b.store.endOutlived(PAGE)).toBe(1);
    expect(await states(b)).toEqual(['canceled']);
    expect((await b.gauges.messageTotals()).backlog).toBe(0);
    await tellAll(b);
    expect(await b.store.maintain()).toEqual(kept);
    await b.admin`update despatch.outlived_days set ended_at = now() - interval '5 minutes'`;
    expect(await b.store.maintain()).toEqual({ ...NOTHING, dropped: [old] });
  });

  test.each(['a partition of its own', 'the default partition'])(
    'is kept in %s until readers have been told how upkeep ended its messages',
    async (place) => {
      await using b = await setupMessages();
      const old =
        place === 'the default partition'
          ? []
          : await Promise.all(
              ['messages', 'event_log', 'message_results'].map((of) => makeOldPartition(b, '2024-01-08', of)),
            );
      const [seq = 0] = await b.accept();
      await tellAll(b);
      await backdate(b, [seq], '2024-01-08');
      const kept = { ...NOTHING, unsettled: ['2024-01-08'] };
      expect(await b.store.endOutlived(PAGE)).toBe(1);
      expect(await b.store.maintain()).toEqual(kept);
      // However long the counting and the numbering are late.
      await b.admin`update despatch.outlived_days set ended_at = ended_at - interval '5 minutes'`;
      await b.admin`update despatch.changes set at = at - interval '5 minutes'`;
      expect(await b.store.maintain()).toEqual(kept);
      await b.store.countUsage(100, 0);
      expect(await b.store.maintain()).toEqual(kept);
      await tellAll(b);
      expect(await told(b)).toEqual({ usage: { canceled: 1 }, events: ['message.canceled'] });
      // Receipts of ended messages do not keep a week.
      await b.admin`insert into despatch.usage_moves (at, purge_on, was, became, seqs)
        values (now(), '2024-01-08', 'sent', 'delivered', ${[seq]})`;
      await b.admin`insert into despatch.changes (tenant_ids, counts, seqs, purge_ons, numbers)
        values (${[b.tenant.tenantId]}, '{1}', ${[seq]}, '{2024-01-08}', '{1}')`;
      const after = await b.store.maintain();
      expect(after).toEqual({ ...NOTHING, dropped: old.toSorted() });
      expect(await b.admin`select from despatch.message_results`).toHaveLength(0);
    },
  );

  test('is kept for minutes after its messages were ended, so that endpoints get the events', async () => {
    await using b = await setupMessages();
    const old = await makeOldPartition(b, '2020-01-06');
    const [seq = 0] = await b.accept();
    await backdate(b, [seq], '2020-01-06');
    await b.store.endOutlived(PAGE);
    await tellAll(b);
    await b.admin`
      insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
      values (gen_random_uuid(), ${b.tenant.tenantId}, 1, 1, '2020-01-06', now())`;
    const deliveries = async () => (await b.admin`select from despatch.due_deliveries`).length;
    expect(await b.store.maintain()).toEqual({ ...NOTHING, unsettled: ['2020-01-06'] });
    expect(await deliveries()).toBe(1);
    await b.admin`update despatch.outlived_days set ended_at = now() - interval '5 minutes'`;
    expect(await b.store.maintain()).toEqual({ ...NOTHING, dropped: [old] });
    expect(await deliveries()).toBe(0);
  });

  test('is kept until the call that ended a message by itself is counted and told', async () => {
    await using b = await setupMessages();
    const old = await makeOldPartition(b, '2020-01-06');
    const [seq = 0] = await b.accept();
    await tellAll(b);
    await backdate(b, [seq], '2020-01-06');
    const [claimed] = await b.claimDue(1, 60_000);
    await b.store.complete(claimed === undefined ? [] : [completionOf(claimed, accepted)]);
    const kept = { ...NOTHING, unsettled: ['2020-01-06'] };
    expect(await b.store.maintain()).toEqual(kept);
    await b.store.countUsage(100, 0);
    expect(await b.store.maintain()).toEqual(kept);
    await tellAll(b);
    expect(await b.store.maintain()).toEqual({ ...NOTHING, dropped: [old] });
  });

  test('is kept until what ended its messages after a restore into another cluster is told', async () => {
    await using b = await setupMessages();
    const old = await makeOldPartition(b, '2020-01-06');
    const [seq = 0] = await b.accept();
    await tellAll(b);
    await backdate(b, [seq], '2020-01-06');
    // Rows and position refer to transaction ids that this cluster has not reached yet.
    await b.admin`update despatch.changes set xid = (xid::text::bigint + 1000000000)::text::xid8`;
    await b.admin`
      update despatch.feed_passes set done = (pg_snapshot_xmin(done)::text::bigint + 1000000000 || ':'
        || pg_snapshot_xmax(done)::text::bigint + 1000000000 || ':')::pg_snapshot`;
    const [claimed] = await b.claimDue(1, 60_000);
    await b.store.complete(claimed === undefined ? [] : [completionOf(claimed, accepted)]);
    while ((await b.store.countUsage(100, 0)).outcome === 'more');
    expect(await b.store.maintain()).toEqual({ ...NOTHING, unsettled: ['2020-01-06'] });
    await tellAll(b);
    expect(await b.store.maintain()).toEqual({ ...NOTHING, dropped: [old] });
  });

  test('is kept in a default partition too, and only this week', async () => {
    await using b = await setupMessages();
    const [live = 0, ended = 0, late = 0] = await b.accept(3);
    await b.claimDue(3, 60_000);
    await backdate(b, [live], '2020-01-06');
    await backdate(b, [ended], '2020-01-13');
    await b.admin`delete from despatch.live_messages where seq = ${ended}`;
    expect(await b.store.maintain()).toEqual({ ...NOTHING, unsettled: ['2020-01-06'] });
    const left = await b.admin<{ seq: number }[]>`select seq from despatch.messages order by seq`;
    expect(left.map(({ seq }) => seq)).toEqual([live, late]);
    await b.admin`delete from despatch.live_messages where seq = ${live}`;
    expect(await b.store.maintain()).toEqual(NOTHING);
    expect(await b.admin`select from despatch.messages`).toHaveLength(1);
  });

  test('keeps no idempotency keys', async () => {
    await using b = await setupMessages();
    const [seq = 0] = await b.accept();
    await backdate(b, [seq], '2020-01-06');
    await b.admin`insert into despatch.idempotency_keys (scope, generation, tenant_id, fingerprint)
      values ('\\x00', '2020-01-06', ${b.tenant.tenantId}, '')`;
    await b.store.maintain();
    const old = await b.admin`select from despatch.idempotency_keys where generation < '2021-01-01'`;
    expect(old).toHaveLength(0);
  });

  test('gets no further call for a sent message from the day before on', async () => {
    await using b = await setupMessages();
    const [seq = 0] = await b.accept();
    const [claimed] = await b.claimDue(1, 60_000);
    await b.store.complete(claimed === undefined ? [] : [completionOf(claimed, accepted)]);
    await b.admin`insert into despatch.failover_waits (seq, purge_on, tenant_id, due_at)
      values (${seq}, current_date, ${b.tenant.tenantId}, now())`;
    const expiry: unknown[] = [];
    for (const days of [2, 1]) {
      for (const table of ['messages', 'message_results', 'failover_waits'])
        await b.admin`update ${b.admin(`despatch.${table}`)} set purge_on = (now() at time zone 'UTC')::date + ${days}::int`;
      await b.store.settleSilent(10, (due) => {
        expiry.push(...due.map(({ isExpired }) => isExpired));
        return [];
      });
    }
    expect(expiry).toEqual([false, true]);
  });

  test('is found without reading later messages', async () => {
    await using b = await setupMessages();
    const [first = 0] = await b.accept();
    await b.accept(500);
    await backdate(b, [first], '2020-01-06');
    const read = await b.admin.begin(async (tx) => {
      const before = await rowsTouched(tx);
      await tx`select despatch.unsettled_days()`;
      return (await rowsTouched(tx)) - before;
    });
    expect(read).toBeLessThan(50);
  });
});

/** Moves messages into a week that is over. */
async function backdate(b: MessageBench, seqs: readonly number[], monday: string): Promise<void> {
  for (const table of ['messages', 'live_messages'])
    await b.admin`update ${b.admin(`despatch.${table}`)} set purge_on = ${monday} where seq = any (${[...seqs]}::bigint[])`;
}

/** Counts the moves of messages, and numbers their events. */
async function tellAll({ store }: MessageBench): Promise<void> {
  while ((await store.countUsage(1_000, 0)).outcome === 'more');
  while ((await store.numberChanges(1_000, 0)).outcome === 'more');
}

/** Returns what the tenant reads about its messages: their number by state, and the events since the acceptance. */
async function told({ api, tenant }: MessageBench) {
  const tenantId = tenant.tenantId as TenantId;
  return withTenant(api, tenantId, async (tx) => {
    const span = { since: Date.parse('2020-01-01'), until: Date.parse('2100-01-01') };
    const groups = new Set(['status'] as const);
    const { counts } = await readUsage(tenantId, tx, { dimension: 'day', groups, span, most: 10 });
    const ids = createEventIds(await loadMessageIdKey(api));
    const { found } = await scanFeed(tenantId, tx, ids, {}, { before: 0, rows: 10, most: 10 });
    return {
      usage: Object.fromEntries(counts.map(({ status, messages }) => [status, messages])),
      events: found.map(({ type }) => type).filter((type) => type !== 'message.queued'),
    };
  });
}

async function makeOldPartition(b: MessageBench, monday: string, of = 'messages'): Promise<string> {
  const name = `${of}_${monday.replaceAll('-', '')}`;
  await b.admin.unsafe(
    `create table despatch.${name} partition of despatch.${of} for values from ('${monday}') to (date '${monday}' + 7)`,
  );
  await b.admin.unsafe(`alter table despatch.${name} owner to despatch_definer`);
  return name;
}

/** Accepts one message after the other until the work has ended. @returns the longest time in milliseconds. */
async function slowestAccept(b: MessageBench, work: Promise<unknown>): Promise<number> {
  const over = new AbortController();
  void work.finally(() => over.abort());
  let slowest = 0;
  while (!over.signal.aborted) {
    const started = performance.now();
    await b.accept();
    slowest = Math.max(slowest, performance.now() - started);
  }
  return slowest;
}

/** Returns how many statements of other sessions wait for a table's lock. */
async function waitingForLocks({ admin }: MessageBench): Promise<number> {
  const [row] = await admin<{ n: number }[]>`
    select count(*)::integer as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
  return row?.n ?? 0;
}

/** Returns the partitions that hold messages and their results. */
async function homesOf({ admin }: MessageBench): Promise<string[]> {
  const homes = await admin<{ name: string }[]>`
    select tableoid::regclass::text as name from despatch.messages
    union all select tableoid::regclass::text from despatch.message_results`;
  return homes.map(({ name }) => name.replace('despatch.', '')).toSorted();
}
