import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import { projectRoot } from '#test/support/command.ts';
import { testDatabase } from '#test/support/servers.ts';
import { main } from '../../../deploy/restore/carry-over.ts';

/*
 * The test seeds waiting messages, copies the database, cancels messages and suppresses recipients in the original, then restores
 * the copy. The original can still be read.
 */
const stack = new AsyncDisposableStack();
let [oldUrl, restoredUrl] = ['', ''];
let old: Sql;
let restored: Sql;
let tenant: SeededTenant;
let seqs: readonly number[] = [];
let scheduled: readonly number[] = [];
const NEXT_DAY = new Date(Date.now() + 86_400_000);
const NEXT_WEEK = new Date(Date.now() + 7 * 86_400_000);

const open = (url: string): Sql => {
  const sql = postgres(url, { max: 1, onnotice: () => {}, connection: { search_path: 'despatch' } });
  stack.defer(() => sql.end());
  return sql;
};

const suppress = (sql: Sql, tenantId: string, address: string, source: string, reason = 'hard_bounce') => sql`
  insert into suppressions (tenant_id, channel, address_key, address, reason, scope, source)
  values (${tenantId}, 'sms', substr(sha256(${address}::text::bytea), 1, 16), ${address}, ${reason}, 'all', ${source})`;

const reschedule = (sql: Sql, seq: number, at: Date) =>
  sql.begin(async (tx) => {
    await tx`select set_config('app.tenant', ${tenant.tenantId}, true)`;
    await tx`select store_schedule(${seq}, ${at}, ${new Date(at.getTime() + 3_600_000)}, ${at})`;
  });

async function carryOver(...args: string[]): Promise<{ code: number; text: string }> {
  let text = '';
  const env = { DATABASE_URL: restoredUrl, OLD_DATABASE_URL: oldUrl };
  const code = await main(args, env, (part) => void (text += part));
  return { code, text };
}

const states = async (): Promise<string[]> => {
  const rows = await restored<{ status: string }[]>`
    select status from message_states where seq = any (${[...seqs]}::bigint[]) order by seq`;
  return rows.map(({ status }) => status);
};
const suppressed = async (): Promise<string[]> => {
  const rows = await restored<{ entry: string }[]>`
    select concat_ws(' ', address, reason, source) as entry from suppressions order by 1`;
  return rows.map(({ entry }) => entry);
};

const schedules = () => restored<
  { status: string; sendAt: Date; expiresAt: Date; shown: Date; moves: number }[]
>`
  select l.status, l.next_attempt_at as "sendAt", l.expires_at as "expiresAt", m.scheduled_at as shown,
    (select count(*)::integer from event_log e where e.message_seq = l.seq and e.type = 'message.rescheduled') as moves
  from live_messages l join messages m using (seq, purge_on)
  where l.seq = any (${[...scheduled]}::bigint[]) order by l.seq`;
const at = (sendAt: Date, moves: number) => ({
  status: 'scheduled',
  sendAt,
  expiresAt: new Date(sendAt.getTime() + 3_600_000),
  shown: sendAt,
  moves,
});

beforeAll(async () => {
  const database = stack.use(await testDatabase());
  oldUrl = database.superuserUrl;
  const before = postgres(oldUrl, { max: 1, onnotice: () => {}, connection: { search_path: 'despatch' } });
  tenant = await seedTenant(before);
  const purged = await seedTenant(before);
  await seedAccount(before, tenant.tenantId);
  const rows = Array.from({ length: 5 }, () => acceptRow(tenant));
  seqs = rows.map(({ seq }) => seq);
  const later = Array.from({ length: 3 }, () =>
    acceptRow(tenant, {
      status: 'scheduled',
      send_at: NEXT_DAY.toISOString(),
      expires_at: new Date(NEXT_DAY.getTime() + 3_600_000).toISOString(),
    }),
  );
  scheduled = later.map(({ seq }) => seq);
  await acceptBatch(before, [...rows, ...later], 0);
  await suppress(before, tenant.tenantId, '+15550000001', 'import');
  // The fourth message is being sent when the copy is made.
  await before`update live_messages set status = 'sending', attempt = 1, started_at = now(), lease_until = now() where seq = ${seqs[3] ?? 0}`;
  await before.end();

  const name = `restored_${randomUUID().slice(0, 8)}`;
  const server = new URL(oldUrl);
  server.pathname = 'postgres';
  const admin = postgres(server.href, { max: 1, onnotice: () => {} });
  await admin`create database ${admin(name)} template ${admin(database.name)}`;
  await admin.end();
  const copy = new URL(oldUrl);
  copy.pathname = name;
  restoredUrl = copy.href;
  stack.defer(async () => {
    const again = postgres(server.href, { max: 1, onnotice: () => {} });
    await again`drop database if exists ${again(name)} with (force)`;
    await again.end();
  });
  old = open(oldUrl);
  restored = open(restoredUrl);

  await old`update live_messages set status = 'deferred', started_at = null, lease_until = null where seq = ${seqs[3] ?? 0}`;
  await old`select move_messages(${[seqs[0], seqs[1], seqs[3]] as number[]}::bigint[], 'canceled', null)`;
  await old`select move_messages(${[seqs[2]] as number[]}::bigint[], 'expired', null)`;
  // The first two are moved, and the second one waits for its suspended tenant.
  await reschedule(old, scheduled[0] ?? 0, NEXT_WEEK);
  await reschedule(old, scheduled[1] ?? 0, NEXT_WEEK);
  await old`select move_messages(${[scheduled[1]] as number[]}::bigint[], 'held', null)`;
  await suppress(old, tenant.tenantId, '+15550000002', 'receipt');
  await suppress(old, tenant.tenantId, '+15550000003', 'refusal', 'opt_out');
  await suppress(old, purged.tenantId, '+15550000004', 'receipt');
  // The replay of the audit log has already withdrawn the rights again.
  await restored`update tenants set status = 'deleting' where id = ${purged.tenantId}`;
}, 60_000);

afterAll(() => stack.disposeAsync());

test('carry-over without --apply prints what it would do and changes nothing', async () => {
  const { code, text } = await carryOver();
  expect({ code, text }).toEqual({
    code: 0,
    text: expect.stringContaining('Would be done with --apply:') as string,
  });
  expect(text).toMatch(/ 2 {2}recipients suppressed/);
  expect(text).toMatch(/ 2 {2}messages canceled/);
  expect(text).toMatch(/ 2 {2}scheduled messages moved to another time/);
  expect(await schedules()).toEqual([at(NEXT_DAY, 0), at(NEXT_DAY, 0), at(NEXT_DAY, 0)]);
  expect(await states()).toEqual(['queued', 'queued', 'queued', 'sending', 'queued']);
  expect(await suppressed()).toEqual(['+15550000001 hard_bounce import']);
});

test('carry-over repeats cancellations, new times and suppressions, and counts messages being sent', async () => {
  const { code, text } = await carryOver('--apply');
  expect(text).toContain('Done:');
  expect(text).toMatch(/ 1 {2}canceled later, but on their way at the time of the restore/);
  expect(code).toBe(0);
  expect(await schedules()).toEqual([at(NEXT_WEEK, 1), at(NEXT_WEEK, 1), at(NEXT_DAY, 0)]);
  expect(await states()).toEqual(['canceled', 'canceled', 'queued', 'sending', 'queued']);
  expect(await suppressed()).toEqual([
    '+15550000001 hard_bounce import',
    '+15550000002 hard_bounce receipt',
    '+15550000003 opt_out refusal',
  ]);
});

test('a second carry-over finds nothing to do', async () => {
  const { text } = await carryOver('--apply');
  expect(text).not.toMatch(/recipients suppressed|messages canceled|messages moved/);
});

test('the documented SQL holds the messages of a tenant until its brake is lifted', async () => {
  const document = await readFile(join(projectRoot, 'deploy/docs/backup-and-restore.md'), 'utf8');
  // The first block advances the feeds.
  const [, waiting = '', hold = ''] = [...document.matchAll(/```sql\n([\s\S]*?)```/g)].map(
    ([, sql = '']) => sql,
  );
  expect(await restored.unsafe(waiting)).toEqual([
    expect.objectContaining({
      id: tenant.tenantId,
      channel: 'sms',
      status: 'scheduled',
      count: expect.anything() as unknown,
    }),
    expect.objectContaining({
      id: tenant.tenantId,
      channel: 'sms',
      status: 'queued',
      count: expect.anything() as unknown,
    }),
    expect.objectContaining({
      id: tenant.tenantId,
      channel: 'sms',
      status: 'sending',
      count: expect.anything() as unknown,
    }),
  ]);
  await restored.unsafe(hold.replaceAll('TENANT_ID', tenant.tenantId));
  await restored`select hold_tenant(${tenant.tenantId}, 100)`;
  expect(await states()).toEqual(['canceled', 'canceled', 'held', 'sending', 'held']);
  await restored.begin(async (tx) => {
    await tx`select set_config('app.tenant', ${tenant.tenantId}, true)`;
    await tx`select lift_brake(${tenant.tenantId}, null)`;
  });
  await restored`select release_tenant(${tenant.tenantId}, 100)`;
  expect(await states()).toEqual(['canceled', 'canceled', 'queued', 'sending', 'queued']);
});

test('carry-over without both database URLs prints its usage and exits with code 2', async () => {
  let text = '';
  expect(await main([], { DATABASE_URL: restoredUrl }, (part) => void (text += part))).toBe(2);
  expect(text).toContain('OLD_DATABASE_URL=');
});
