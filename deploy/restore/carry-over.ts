// For use after the database was restored to an earlier time, while the previous database can still be read: repeats the cancels
// and the suppressions that the restore has undone. See `--help`.
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
after the time of the restore, and suppresses the recipients that were suppressed after it, also those suppressed by providers and
imports; entries that were extended or widened since are, too. The previous database is not changed. A second run changes nothing.
Stop all services first, then run replay-audit.ts: purged tenants get nothing.

  --apply   commit; without it, all changes are made and rolled back
  --help    show this text

Both URLs are those of a superuser. Both databases must have the same schema.
`;

/** Rows per statement. */
const AT_ONCE = 1_000;

type Carried = { readonly suppressed: number; readonly canceled: number; readonly underWay: number };

/** Makes all changes in one transaction of the restored database. */
async function carryOver(old: Sql, restored: Sql, apply: boolean): Promise<Carried> {
  let carried: Carried = { suppressed: 0, canceled: 0, underWay: 0 };
  await commitUnlessDry(restored, apply, async (tx) => {
    carried = { suppressed: await suppressAll(old, tx), ...(await cancelAgain(old, tx)) };
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
async function cancelAgain(old: Sql, tx: TransactionSql): Promise<Omit<Carried, 'suppressed'>> {
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

function report({ suppressed, canceled, underWay }: Carried, isApplied: boolean): string {
  const line = (n: number, what: string): string[] =>
    n === 0 ? [] : [`  ${String(n).padStart(6)}  ${what}`];
  return [
    isApplied ? 'Done:' : 'Would be done with --apply:',
    ...line(suppressed, 'recipients suppressed'),
    ...line(canceled, 'messages canceled'),
    ...line(
      underWay,
      'canceled later, but on their way at the time of the restore: a worker ends or repeats them',
    ),
    '',
  ].join('\n');
}

if (import.meta.main)
  process.exitCode = await main(process.argv.slice(2), process.env, (text) => process.stdout.write(text));
