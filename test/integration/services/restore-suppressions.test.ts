import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AuditAction } from '#core/domain/tenant/audit-action.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Suppression, SuppressionScope } from '#core/domain/recipient/suppression.ts';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { asJson, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { recordAudit } from '#core/store/tenants/audit-log.ts';
import {
  deleteSuppression,
  putSuppression,
  unsubscribeRecipient,
} from '#core/store/suppressions/suppressions.ts';
import { seedTenant } from '#test/support/seed.ts';
import { testDatabase } from '#test/support/servers.ts';
import { main as carryOver } from '../../../deploy/restore/carry-over.ts';
import { main as replayAudit } from '../../../deploy/restore/replay-audit.ts';
import { factsOf } from '../../../services/api/suppressions/suppression-facts.ts';

/*
 * The test stores suppressions, copies the database twice, and changes suppressions in the original as api and worker do. Then it
 * replays the audit lines in one copy, and carries the original's entries over to both.
 */
const stack = new AsyncDisposableStack();
const DAY_MS = 86_400_000;
/** Times of expiry by name. */
const EXPIRES: Readonly<Record<string, string | null>> = {
  never: null,
  late: new Date(Date.now() + 30 * DAY_MS).toISOString(),
  soon: new Date(Date.now() + DAY_MS).toISOString(),
  passed: new Date(Date.now() - DAY_MS).toISOString(),
};

/**
 * What happened to one recipient before the restore time and since, then the entry in force after a replay, by scope and expiry,
 * and after a carry-over, if it is another one. `put` and `remove` are calls of a member, `report` is a provider's.
 */
const CASES: readonly (readonly [before: string, since: string, replayed: string, carried?: string])[] = [
  ['put all soon', 'put all never', 'all never'],
  ['put all soon', 'put all late', 'all late'],
  ['put marketing never', 'put all never', 'all never'],
  ['put marketing late', 'put all soon', 'all late'],
  ['put all late', 'put marketing never', 'all never'],
  ['put marketing soon', 'unsubscribe', 'marketing never'],
  ['put all soon', 'unsubscribe', 'all never'],
  // An expired entry widens nothing.
  ['put all passed', 'unsubscribe', 'marketing never'],
  ['put all passed', 'put marketing soon', 'marketing soon'],
  ['put marketing never', 'put all passed', 'marketing never'],
  ['', 'put all passed', ''],
  ['', 'put all never, put all passed', ''],
  // Of several entries since then the last one counts.
  ['', 'put all soon, put all never', 'all never'],
  ['', 'put all soon, unsubscribe', 'all never'],
  ['', 'put all never, put marketing soon', 'marketing soon'],
  ['', 'put all soon, put all never, remove', ''],
  ['', 'put all never, remove, put marketing late', 'marketing late'],
  ['', 'put all soon, remove, unsubscribe', 'marketing never'],
  ['put marketing soon', 'remove, put marketing never', 'marketing never'],
  // Nothing that the restored database blocks is sent.
  ['put all never', 'put marketing soon', 'all never'],
  ['put all late', 'put all soon', 'all late'],
  ['put all never', 'remove', 'all never'],
  // Reports of providers are in no log.
  ['put marketing soon', 'report', 'marketing soon', 'all never'],
  ['', 'report', '', 'all never'],
  ['', 'put marketing soon, report', 'marketing soon', 'all never'],
];

const cases = CASES.map(([before, since, replayed, carried = replayed], n) => ({
  title: `${before} | ${since}`,
  before,
  since,
  replayed,
  carried,
  key: randomBytes(16),
  address: `${n}@example.com`,
}));
type Case = (typeof cases)[number];

function caseOf(title: string): Case {
  const found = cases.find((one) => one.title === title);
  if (found === undefined) throw new Error(`no case ${title}`);
  return found;
}

let tenantId: TenantId;
let original: Sql;
let oldUrl: string;
let [replayedUrl, carriedUrl] = ['', ''];
let file: string;
const lines: string[] = [];

const open = (url: string): Sql => {
  const sql = postgres(url, { max: 1, onnotice: () => {}, connection: { search_path: 'despatch' } });
  stack.defer(() => sql.end());
  return sql;
};

/** Makes one change as api or worker makes it, and adds the line of its entry in the audit log. */
async function change(tx: TransactionSql, { key, address }: Case, step: string): Promise<void> {
  const [verb, scope, expiry = ''] = step.split(' ');
  const told = async (actor: string, action: AuditAction, entry: Suppression | undefined): Promise<void> => {
    if (entry === undefined) throw new Error(`${step} changed nothing`);
    const origin = { actor, ip: '', requestId: 'r', appName: null };
    const facts = action === 'suppression.added' ? factsOf(entry, key) : {};
    const audit = await recordAudit(tenantId, tx, origin, { action, target: entry.id, facts });
    lines.push(JSON.stringify({ event: 'audit', audit: { v: 1, ...audit, seq: Number(audit.seq) } }));
  };
  const of = { channel: 'email', key, address, reason: 'unsubscribe' } as const;
  if (verb === 'put') {
    const expiresAt = EXPIRES[expiry] ?? null;
    const entry = { ...of, scope: scope as SuppressionScope, source: 'api', expiresAt } as const;
    await told(randomUUID(), 'suppression.added', await putSuppression(tenantId, tx, entry));
  } else if (verb === 'unsubscribe') {
    const entry = { key, address, messageId: randomUUID() };
    await told('recipient', 'suppression.added', await unsubscribeRecipient(tenantId, tx, entry));
  } else if (verb === 'report') {
    const entry = { ...of, address_key: key.toString('hex'), tenant_id: tenantId, scope: 'all' };
    const caused = { ...entry, source: 'receipt', message_id: randomUUID() };
    await tx`select suppress_recipients(${asJson(tx, [caused])})`;
  } else {
    const [row] = await tx<{ id: string }[]>`select id from suppressions where address_key = ${key}`;
    await told(randomUUID(), 'suppression.removed', await deleteSuppression(tenantId, tx, row?.id ?? ''));
  }
}

async function changeAll(sql: Sql, when: 'before' | 'since'): Promise<void> {
  for (const one of cases)
    for (const step of one[when].split(', ').filter((text) => text !== ''))
      await sql.begin((tx) => change(tx, one, step));
}

beforeAll(async () => {
  const database = stack.use(await testDatabase());
  oldUrl = database.superuserUrl;
  const before = postgres(oldUrl, { max: 1, onnotice: () => {}, connection: { search_path: 'despatch' } });
  tenantId = (await seedTenant(before)).tenantId as TenantId;
  await changeAll(before, 'before');
  await before.end();

  const url = new URL(oldUrl);
  url.pathname = 'postgres';
  const server = open(url.href);
  [replayedUrl = '', carriedUrl = ''] = await Promise.all(
    ['replayed', 'carried'].map(async (name) => {
      const copy = `${name}_${randomUUID().slice(0, 8)}`;
      await server`create database ${server(copy)} template ${server(database.name)}`;
      stack.defer(async () => void (await server`drop database if exists ${server(copy)} with (force)`));
      url.pathname = copy;
      return url.href;
    }),
  );
  original = open(oldUrl);
  await changeAll(original, 'since');

  const folder = await mkdtemp(join(tmpdir(), 'despatch-suppressions-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  file = join(folder, 'log.ndjson');
  await writeFile(file, lines.join('\n'));
}, 60_000);

afterAll(() => stack.disposeAsync());

async function replay(): Promise<string> {
  let text = '';
  const write = (part: string): void => void (text += part);
  expect(await replayAudit(['--apply', file], { DATABASE_URL: replayedUrl }, write)).toBe(0);
  return text;
}

async function carry(url: string): Promise<string> {
  let text = '';
  const env = { DATABASE_URL: url, OLD_DATABASE_URL: oldUrl };
  expect(await carryOver(['--apply'], env, (part) => void (text += part))).toBe(0);
  return text;
}

/** Returns the scope and expiry of each recipient's entry in force, by the title of its case. */
async function inForce(url: string): Promise<Record<string, string>> {
  const rows = await open(url)<{ key: Buffer; scope: string; expiry: Date | null }[]>`
    select address_key as key, scope, expires_at as expiry from suppressions where coalesce(expires_at, 'infinity') > now()`;
  const nameOf = (expiry: Date | null) =>
    Object.keys(EXPIRES).find((name) => EXPIRES[name] === (expiry?.toISOString() ?? null));
  return Object.fromEntries(
    cases.map(({ title, key }) => {
      const row = rows.find((entry) => entry.key.equals(key));
      return [title, row === undefined ? '' : `${row.scope} ${nameOf(row.expiry)}`];
    }),
  );
}

const wanted = (tool: 'replayed' | 'carried') =>
  Object.fromEntries(cases.map((one) => [one.title, one[tool]]));

/** Returns what a tool reports where `before` is in force. */
function report(tool: 'replayed' | 'carried', before: Readonly<Record<string, string>>): string {
  const changed = cases.filter((one) => one[tool] !== before[one.title]).length;
  return ` ${changed}  recipients suppressed\n`;
}

describe('a replay of the audit lines', () => {
  test('leaves each recipient blocked as the last entry and the restored one say', async () => {
    const restored = await inForce(replayedUrl);
    expect(await replay()).toContain(report('replayed', restored));
    expect(await inForce(replayedUrl)).toEqual(wanted('replayed'));
  });

  test('stores the id of the entry, its time, and that the recipient made it', async () => {
    const { key } = caseOf(' | put all soon, unsubscribe');
    const entry = (sql: Sql) => sql`
      select id, source, created_at from suppressions where address_key = ${key}`;
    const [[found], [lost]] = await Promise.all([entry(open(replayedUrl)), entry(original)]);
    expect(found).toMatchObject({ id: lost?.['id'] as string, source: 'recipient' });
    expect(Number(found?.['created_at'])).toBeCloseTo(Number(lost?.['created_at']), -4);
  });

  test('keeps the address of an entry in force, as no log contains addresses', async () => {
    const sql = open(replayedUrl);
    const addressOf = async ({ key }: Case) =>
      (await sql`select address from suppressions where address_key = ${key}`)[0]?.['address'] as unknown;
    const extended = caseOf('put all soon | put all never');
    expect(await addressOf(extended)).toBe(extended.address);
    expect(await addressOf(caseOf('put all passed | unsubscribe'))).toBeNull();
  });

  test('changes nothing a second time', async () => {
    expect(await replay()).toMatch(/^0 entries that the database does not know$/m);
    expect(await inForce(replayedUrl)).toEqual(wanted('replayed'));
  });
});

describe('a carry-over', () => {
  test('leaves each recipient blocked as the previous entry and the restored one say', async () => {
    const restored = await inForce(carriedUrl);
    expect(await carry(carriedUrl)).toContain(report('carried', restored));
    expect(await inForce(carriedUrl)).toEqual(wanted('carried'));
  });

  test('copies address, source, message, id and time of the entry', async () => {
    const { key } = caseOf('put marketing soon | report');
    const entry = (sql: Sql) => sql`
      select id, address, source, message_id, created_at from suppressions where address_key = ${key}`;
    expect(await entry(open(carriedUrl))).toEqual(await entry(original));
  });

  test('changes nothing a second time', async () => {
    expect(await carry(carriedUrl)).not.toContain('recipients suppressed');
    expect(await inForce(carriedUrl)).toEqual(wanted('carried'));
  });

  test('adds to a replay what is in no log', async () => {
    expect(await carry(replayedUrl)).toContain(report('carried', wanted('replayed')));
    expect(await inForce(replayedUrl)).toEqual(wanted('carried'));
  });
});
