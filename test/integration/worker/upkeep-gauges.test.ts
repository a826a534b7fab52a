import { expect, test } from 'vitest';
import { seedTenant } from '#test/support/seed.ts';
import { setupMessages } from '#test/support/setup-messages.ts';

test('partitionsDue counts partitions to create or drop until maintenance has run', async () => {
  await using b = await setupMessages();
  expect(await b.gauges.partitionsDue()).toEqual([]);
  const [last] = await b.admin<{ name: string }[]>`
    select max(relname) as name from pg_class where relname ~ '^attempt_log_[0-9]{8}$'`;
  await b.admin.unsafe(`drop table despatch.${last?.name}`);
  await b.admin.unsafe(
    `create table despatch.messages_20200106 partition of despatch.messages for values from ('2020-01-06') to ('2020-01-13')`,
  );
  await b.admin.unsafe('alter table despatch.messages_20200106 owner to despatch_definer');
  expect(await b.gauges.partitionsDue()).toEqual([
    { task: 'drop', partitions: 1 },
    { task: 'make', partitions: 1 },
  ]);
  await b.store.maintain();
  expect(await b.gauges.partitionsDue()).toEqual([]);
});

test('partitionsDue counts a week with rows in the default partition as blocked', async () => {
  await using b = await setupMessages();
  await b.accept();
  const [kept] = await b.admin<{ name: string }[]>`
    select tableoid::regclass::text as name from despatch.messages`;
  await b.admin.unsafe(`drop table ${kept?.name}`);
  await b.accept();
  expect(await b.gauges.partitionsDue()).toEqual([{ task: 'blocked', partitions: 1 }]);
});

test('oldestDeletionSeconds is the age of the oldest tenant deletion, or 0 without one', async () => {
  await using b = await setupMessages();
  expect(await b.gauges.oldestDeletionSeconds()).toBe(0);
  for (const minutes of [10, 90]) {
    const { tenantId } = await seedTenant(b.admin);
    await b.admin`update despatch.tenants set status = 'deleting', updated_at = now() - ${minutes} * interval '1 minute'
      where id = ${tenantId}`;
  }
  const seconds = await b.gauges.oldestDeletionSeconds();
  expect(seconds).toBeGreaterThanOrEqual(90 * 60);
  expect(seconds).toBeLessThan(91 * 60);
});

test('oldestUsageSeconds is the age of the oldest move that is not counted, or 0', async () => {
  await using b = await setupMessages();
  const minutes = async (): Promise<number> => Math.floor((await b.gauges.oldestUsageSeconds()) / 60);
  expect(await b.gauges.oldestUsageSeconds()).toBe(0);
  await b.accept();
  await b.admin`update despatch.usage_moves set at = now() - interval '20 minutes'`;
  await b.accept();
  expect(await minutes()).toBe(20);
  expect((await b.store.countUsage(100, 0)).outcome).toBe('counted');
  expect(await b.gauges.oldestUsageSeconds()).toBe(0);
  await b.accept();
  await b.admin`update despatch.usage_moves set at = now() - interval '5 minutes'`;
  expect(await minutes()).toBe(5);
  // As in a database that was restored into another cluster, where transaction ids begin again.
  await b.admin`update despatch.usage_passes set from_xid = '9000000000000'`;
  expect(await minutes()).toBe(5);
});

test('oldestChangeSeconds is the age of the oldest change that is not numbered, or 0', async () => {
  await using b = await setupMessages();
  const minutes = async (): Promise<number> => Math.floor((await b.gauges.oldestChangeSeconds()) / 60);
  expect(await minutes()).toBe(0);
  await b.accept();
  await b.admin`update despatch.changes set at = now() - interval '20 minutes'`;
  await b.accept();
  expect(await minutes()).toBe(20);
  expect((await b.store.numberChanges(100, 0)).outcome).toBe('numbered');
  expect(await minutes()).toBe(0);
  // As in a database that was restored into another cluster, where transaction ids begin again.
  await b.admin`update despatch.changes set xid = (xid::text::bigint + 1000000000)::text::xid8, at = now() - interval '1 hour'`;
  await b.admin`
    update despatch.feed_passes set done = (pg_snapshot_xmin(done)::text::bigint + 1000000000 || ':'
      || pg_snapshot_xmax(done)::text::bigint + 1000000000 || ':')::pg_snapshot`;
  expect(await minutes()).toBe(0);
  await b.accept();
  await b.admin`update despatch.changes set at = now() - interval '5 minutes' where at > now() - interval '1 minute'`;
  expect(await minutes()).toBe(5);
  // In the middle of a pass, whose numbered changes wait no more.
  await b.admin`update despatch.feed_passes set target = done, after_id = c.id, last_id = c.id,
    done = (pg_snapshot_xmin(done) || ':' || pg_snapshot_xmin(done) || ':')::pg_snapshot
    from (select max(id) as id from despatch.changes) c`;
  expect(await minutes()).toBe(0);
});

test('oldestReceiptSeconds is the age of the oldest call that is not read or receipt that is not applied, or 0', async () => {
  await using b = await setupMessages();
  const plant = (lanes: number, each: number, minutes: number, isWaiting = false) =>
    b.admin`insert into despatch.receipts (tenant_id, account_id, receipt, apply_at, waiting)
      select l.id, case when l.n > 1 then gen_random_uuid() end, 'delivered', now() - ${minutes} * interval '1 minute', ${isWaiting}
      from (select gen_random_uuid() as id, n from generate_series(1, ${lanes}::integer) as n) l, generate_series(1, ${each})`;
  const minutes = async (): Promise<number> => Math.floor((await b.gauges.oldestReceiptSeconds()) / 60);
  expect(await b.gauges.oldestReceiptSeconds()).toBe(0);
  await plant(1, 1, 60, true);
  await plant(1, 1, -60);
  expect(await b.gauges.oldestReceiptSeconds()).toBe(0);
  await plant(3, 2, 10);
  expect(await minutes()).toBe(10);
  await plant(2, 1, 20);
  expect(await minutes()).toBe(20);
  await b.admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body,
      received_at, due_at)
    values (gen_random_uuid(), gen_random_uuid(), 'POST', 1, '', '{}', '', now() - interval '15 minutes', now())`;
  expect(await minutes()).toBe(20);
  await b.admin`delete from despatch.receipts`;
  expect(await minutes()).toBe(15);
  const postpone = async (misconfigured: boolean) => {
    const [call] = await b.admin<{ id: number }[]>`select id from despatch.receipt_calls order by id limit 1`;
    const none = { reports: [], begun: [], done: [], genuine: [], refused: [] };
    await b.store.settleReceiptCalls({ ...none, again: [{ id: call?.id ?? 0, ms: 600_000, misconfigured }] });
  };
  // As while Vault is away.
  await postpone(false);
  expect(await minutes()).toBe(15);
  await postpone(true);
  expect(await minutes()).toBe(0);
  await postpone(false);
  expect(await minutes()).toBe(15);
  // With a refused signature.
  await b.admin`update despatch.receipt_calls set refused = true`;
  expect(await minutes()).toBe(0);
  await b.admin`insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body,
      received_at, due_at)
    values (gen_random_uuid(), gen_random_uuid(), 'POST', 1, '', '{}', '', now() - interval '7 minutes', now())`;
  expect(await minutes()).toBe(7);
});

test('the role of a worker may read the offset of its clock from that of the database', async () => {
  await using b = await setupMessages();
  expect(await b.store.clockOffsetSeconds()).toBeCloseTo(0, -1);
});
