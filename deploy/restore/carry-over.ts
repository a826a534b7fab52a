// For use after the database was restored to an earlier time, while the previous database can still be read: repeats the cancels,
// the changes of `sendAt` and the suppressions that the restore has undone. See `--help`.
import { parseArgs } from 'node:util';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { commitUnlessDry } from './commit-unless-dry.ts';
import { suppressAgain, type SuppressionRow } from './suppress-again.ts';

const OPTIONS = {
  apply: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const;

const HELP = `OLD_DATABASE_URL=… DATABASE_URL=… node deploy/run.mjs deploy/restore/carry-over.ts [--apply]

Reads the previous database and repeats in the restored one what replay-audit.ts does not: cancels the messages that were canceled
after the time of the restore, moves scheduled messages to the \`sendAt\` that they were given after it, and suppresses the recipients
that were suppressed after it, also those suppressed by providers and imports; entries that were extended or widened since are, too.
The previous database is not changed. A second run changes nothing.
Stop all services first, then run replay-audit.ts: purged tenants get nothing.

  --apply   commit; without it, all changes are made and rolled back
  --help    show this text

Both URLs are those of a superuser. Both databases must have the same schema.
`;

/** Rows per statement. */
const AT_ONCE = 1_000;

type Carried = {
  readonly suppressed: number;
  readonly canceled: number;
  readonly underWay: number;
  readonly moved: number;
};

/** Makes all changes in one transaction of the restored database. */
async function carryOver(old: Sql, restored: Sql, apply: boolean): Promise<Carried> {
  let carried: Carried = { suppressed: 0, canceled: 0, underWay: 0, moved: 0 };
  await commitUnlessDry(restored, apply, async (tx) => {
    const suppressed = await suppressAll(old, tx);
    const ended = await cancelAgain(old, tx);
    carried = { suppressed, ...ended, moved: await rescheduleAgain(old, tx) };
  });
  return carried;
}

/** Entries that were removed after the restored time remain: sending to nobody by mistake is more important. */
async function suppressAll(old: Sql, tx: TransactionSql): Promise<number> {
  const tenants = await tx<{ id: string }[]>`select id from tenants where status in ('active', 'suspended')`;
  let suppressed = 0;
  const entries = old<{ entry: SuppressionRow }[]>`
    select row_to_json(s) as entry from suppressions s
    where s.tenant_id = any (${tenants.map(({ id }) => id)}::uuid[]) and coalesce(s.expires_at, 'infinity') > now()
    order by s.seq`.cursor(AT_ONCE);
  for await (const part of entries)
    suppressed += await suppressAgain(
      tx,
      part.map(({ entry }) => entry),
    );
  return suppressed;
}

/** No service has run since the restore, so the number of a waiting message denotes the same message in both databases. */
async function cancelAgain(old: Sql, tx: TransactionSql): Promise<Pick<Carried, 'canceled' | 'underWay'>> {
  let [canceled, underWay, after] = [0, 0, -1];
  for (;;) {
    const live = await tx<{ seq: number; tenantId: string }[]>`
      select seq::float8 as seq, tenant_id as "tenantId" from live_messages where seq > ${after} order by seq limit ${AT_ONCE}`;
    const last = live.at(-1);
    if (last === undefined) return { canceled, underWay };
    after = last.seq;
    const ended = await old<{ seq: number; tenantId: string }[]>`
      select seq::float8 as seq, tenant_id as "tenantId" from message_results
      where seq = any (${live.map(({ seq }) => seq)}::bigint[]) and status = 'canceled'`;
    const tenantOf = new Map(live.map(({ seq, tenantId }) => [seq, tenantId]));
    const seqs = ended.flatMap(({ seq, tenantId }) => (tenantOf.get(seq) === tenantId ? [seq] : []));
    if (seqs.length === 0) continue;
    const moved = await tx`select move_messages(${seqs}::bigint[], 'canceled', null)`;
    canceled += moved.length;
    underWay += seqs.length - moved.length;
  }
}

type Schedule = { readonly seq: number; readonly tenantId: string; readonly sendAt: Date };
type NewSchedule = Schedule & { readonly expiresAt: Date; readonly shown: Date };

/** Moves messages that are scheduled in both databases; in the previous one they may be set aside since. */
async function rescheduleAgain(old: Sql, tx: TransactionSql): Promise<number> {
  let [moved, after] = [0, -1];
  for (;;) {
    const scheduled = await tx<Schedule[]>`
      select seq::float8 as seq, tenant_id as "tenantId", next_attempt_at as "sendAt" from live_messages
      where seq > ${after} and status = 'scheduled' order by seq limit ${AT_ONCE}`;
    const last = scheduled.at(-1);
    if (last === undefined) return moved;
    after = last.seq;
    const before = new Map(scheduled.map((one) => [one.seq, one]));
    const later = await old<NewSchedule[]>`
      select l.seq::float8 as seq, l.tenant_id as "tenantId", l.next_attempt_at as "sendAt", l.expires_at as "expiresAt",
        m.scheduled_at as shown
      from live_messages l join messages m using (seq, purge_on)
      where l.seq = any (${scheduled.map(({ seq }) => seq)}::bigint[]) and 'scheduled' in (l.status, l.held_from)`;
    for (const { seq, tenantId, sendAt, expiresAt, shown } of later) {
      const known = before.get(seq);
      if (known?.tenantId !== tenantId || known.sendAt.getTime() === sendAt.getTime()) continue;
      await tx`select set_config('app.tenant', ${tenantId}, true)`;
      await tx`select store_schedule(${seq}, ${sendAt}, ${expiresAt}, ${shown})`;
      moved += 1;
    }
  }
}

/** @returns the exit code: 2 if the command line or the environment is invalid. */
export async function main(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  write: (text: string) => void,
): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: OPTIONS });
  const { DATABASE_URL: url, OLD_DATABASE_URL: oldUrl } = env;
  if (values.help || url === undefined || oldUrl === undefined) {
    write(HELP);
    return values.help ? 0 : 2;
  }
  const [old, restored] = [oldUrl, url].map((of) =>
    postgres(of, { max: 1, onnotice: () => undefined, connection: { search_path: 'despatch' } }),
  ) as unknown as [Sql, Sql];
  try {
    write(report(await carryOver(old, restored, values.apply), values.apply));
    return 0;
  } finally {
    await Promise.all([old, restored].map((sql) => sql.end({ timeout: 5 })));
  }
}

function report({ suppressed, canceled, underWay, moved }: Carried, isApplied: boolean): string {
  const line = (n: number, what: string): string[] =>
    n === 0 ? [] : [`  ${String(n).padStart(6)}  ${what}`];
  return [
    isApplied ? 'Done:' : 'Would be done with --apply:',
    ...line(suppressed, 'recipients suppressed'),
    ...line(canceled, 'messages canceled'),
    ...line(moved, 'scheduled messages moved to another time'),
    ...line(
      underWay,
      'canceled later, but on their way at the time of the restore: a worker ends or repeats them',
    ),
    '',
  ].join('\n');
}

if (import.meta.main)
  process.exitCode = await main(process.argv.slice(2), process.env, (text) => process.stdout.write(text));
