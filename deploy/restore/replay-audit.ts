// After a restore of the database to an earlier time: repeats the changes since then that took rights away, from the audit
// lines of api, controller and worker. `--help` explains the usage.
import { createReadStream } from 'node:fs';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { createVaultAdmin } from '../vault/vault-admin.ts';
import { readAuditLines } from './audit-lines.ts';
import { replayAudit, type ReplaySummary } from './replay.ts';

const OPTIONS = {
  apply: { type: 'boolean', default: false },
  since: { type: 'string' },
  'transit-mount': { type: 'string', default: 'transit' },
  'key-prefix': { type: 'string', default: 'despatch-' },
  help: { type: 'boolean', default: false },
} as const;

/** A time without a zone would mean another one on each machine. */
const Time = z.iso.datetime({ offset: true });

const HELP = `DATABASE_URL=… [VAULT_ADDR=… VAULT_TOKEN=…] node deploy/run.mjs deploy/restore/replay-audit.ts [options] FILE…

Reads the logs of api, controller and worker, and does again in a restored database what took rights away after the time that it
was restored to: keys revoked, rotated and narrowed, members removed or given a lower role, provider accounts disabled and
deleted, webhook endpoints paused and deleted, receipt URLs rotated, recipients suppressed (by the hash of the address),
contents of messages erased, tenants suspended, resumed and purged. What the database knows already is left out; a second run
does nothing.
Stop all services before. FILE is a log with other lines in it too; "-" is standard input.

  --apply                write; without it everything is tried and taken back
  --since TIME           leave out what happened before (ISO 8601 with a zone, as 2026-03-01T09:30:00Z); not needed
  --transit-mount PATH   of the keys in Vault (transit)
  --key-prefix TEXT      of the keys' names (despatch-)
  --help                 show this

DATABASE_URL is the superuser's, or that of the role that owns the schema. With VAULT_ADDR and VAULT_TOKEN the keys of
purged tenants are deleted where Vault still has them; without, their names are listed.
`;

/** @returns the exit code: 1 when an audit line could not be parsed, 2 when the command line could not. */
export async function main(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  write: (text: string) => void,
): Promise<number> {
  const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true });
  const { DATABASE_URL: url, VAULT_ADDR: address, VAULT_TOKEN: rootToken } = env;
  if (values.help) {
    write(HELP);
    return 0;
  }
  if (url === undefined || positionals.length === 0) {
    write(HELP);
    return 2;
  }
  if (values.since !== undefined && !Time.safeParse(values.since).success) {
    write(`--since ${values.since} is not a time with a zone, such as 2026-03-01T09:30:00Z\n`);
    return 2;
  }
  const since = values.since === undefined ? undefined : new Date(values.since);
  const read = await readAuditLines(
    positionals.map((file) => (file === '-' ? process.stdin : createReadStream(file))),
  );
  const entries = read.entries.filter(({ at }) => since === undefined || new Date(at) >= since);
  const vault =
    address === undefined || rootToken === undefined
      ? undefined
      : createVaultAdmin({ address, rootToken, namespace: env['VAULT_NAMESPACE'] });
  const keyOf = (tenantId: string): string =>
    `${values['transit-mount']}/keys/${values['key-prefix']}${tenantId}`;
  const sql = postgres(url, { max: 1, onnotice: () => undefined, connection: { search_path: 'despatch' } });
  try {
    const summary = await replayAudit(sql, entries, {
      apply: values.apply,
      async destroyKey(tenantId) {
        if (vault === undefined || (await vault.call('GET', keyOf(tenantId))).status === 404) return;
        await vault.done('POST', `${keyOf(tenantId)}/config`, { deletion_allowed: true });
        await vault.done('DELETE', keyOf(tenantId));
      },
    });
    write(report(summary, { isApplied: values.apply, unreadable: read.unreadable }));
    if (vault === undefined && summary.purged.length > 0)
      write(`\nDelete in Vault, where they are:\n${summary.purged.map((id) => `  ${keyOf(id)}\n`).join('')}`);
    return read.unreadable === 0 ? 0 : 1;
  } finally {
    await sql.end({ timeout: 5 });
  }
}

function report(
  { entries, done, ownerless, mayReturn, lost }: ReplaySummary,
  how: { readonly isApplied: boolean; readonly unreadable: number },
): string {
  const table = (rows: Readonly<Record<string, number>>): string[] =>
    Object.entries(rows).map(([what, n]) => `  ${String(n).padStart(6)}  ${what}`);
  const part = (title: string, rows: readonly string[]): string[] =>
    rows.length === 0 ? [] : ['', title, ...rows];
  return [
    `${entries} entries that the database does not know`,
    ...(how.unreadable === 0
      ? []
      : [`${how.unreadable} audit lines CANNOT BE READ: find out what they told`]),
    ...part(how.isApplied ? 'Done:' : 'Would be done with --apply:', table(done)),
    ...part('Lost, to be made again by people (secrets and settings are in no log):', table(lost)),
    ...part(
      'Tenants without an owner:',
      ownerless.map((id) => `  ${id}`),
    ),
    ...part(
      'Removed or demoted members who may become owners again when resources are applied, by tenant:',
      table(mayReturn),
    ),
    '',
  ].join('\n');
}

if (import.meta.main)
  process.exitCode = await main(process.argv.slice(2), process.env, (text) => process.stdout.write(text));
