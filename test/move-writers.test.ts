import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from './support/command.ts';

/** The functions that insert, update and delete the states of messages. Those that update must check the table of moves. */
const WRITERS: Readonly<Record<string, readonly string[]>> = {
  accept: ['insert live_messages'],
  begin_attempts: ['update live_messages'],
  complete: ['delete live_messages', 'insert message_results', 'update live_messages'],
  move_messages: ['delete live_messages', 'insert message_results', 'update live_messages'],
  fail_over_silent: ['delete message_results', 'insert live_messages'],
  record_receipts: ['update message_results'],
  expire_receipts: ['update message_results'],
  purge_some: ['delete live_messages', 'delete message_results'],
  end_purge: ['delete live_messages'],
};
/** The functions whose moves change a tenant's usage. A purge deletes the usage itself. */
const NOTERS = Object.keys(WRITERS).filter(
  (name) =>
    name !== 'purge_some' && WRITERS[name]?.some((how) => !/^(?:update|delete) live_messages$/.test(how)),
);
const MOVERS = Object.keys(WRITERS).filter((name) => WRITERS[name]?.some((how) => how.startsWith('update ')));

/** The code that inserts and deletes endpoints, or updates their state columns under the table of moves. */
const ENDPOINT_WRITERS: Readonly<Record<string, readonly string[]>> = {
  claim_deliveries: ['update call_at'],
  complete_deliveries: ['update call_at'],
  store_endpoint_health: ['update call_at failing_since failures status status_reason'],
  purge_endpoints: ['delete'],
  'core/store/webhooks/webhook-endpoints.ts': [
    'insert',
    'update call_at',
    'update call_at failing_since failures status status_reason',
    'update deleted_at status status_reason',
  ],
  'restore/replay.ts': [
    'update call_at failing_since failures status status_reason',
    'update deleted_at status status_reason',
  ],
};

/** The code that stores a state of provider accounts and tenants, each under its table of moves. */
const STATE_WRITERS: Readonly<Record<'provider_accounts' | 'tenants', readonly string[]>> = {
  provider_accounts: [
    'core/store/accounts/provider-accounts.ts',
    'note_account_result',
    'note_verification',
    'restore/replay.ts',
  ],
  tenants: [
    'apply_tenant',
    'begin_deletion',
    'begin_purge',
    'restore/replay.ts',
    'retain_tenant',
    'set_suspension',
  ],
};

const sources = ['services', 'deploy'].flatMap((folder) =>
  readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(?:sql|ts)$/.test(path) && !path.endsWith('.test.ts'))
    .map((path) => ({ path, text: readFileSync(join(projectRoot, folder, path), 'utf8') })),
);

test('only the listed SQL functions write the state of a message', () => {
  const found = sources.flatMap(({ path, text }) => {
    const writes = stateWrites(text);
    return writes.length === 0 ? [] : [[nameOf(path), writes]];
  });
  expect(Object.fromEntries(found)).toEqual(WRITERS);
});

test.each(MOVERS)('%s checks its state transitions with may_move', (name) => {
  const source = sources.find(({ path }) => path.endsWith(`functions/${name}.sql`));
  expect(withoutComments(source?.text ?? '')).toMatch(/\bmay_move\(/);
});

test.each(NOTERS)('%s inserts its state transitions into usage_moves', (name) => {
  const source = sources.find(({ path }) => path.endsWith(`functions/${name}.sql`));
  expect(withoutComments(source?.text ?? '')).toMatch(/\binsert into usage_moves\b/);
});

test.each([
  ['update live_messages l set due_at = now() where l.status = 1', []],
  ['update despatch.live_messages\n set due_at = now(),\n status = 1', ['update live_messages']],
  ['update message_results_default x set reason = 1, status=2 from y', ['update message_results']],
  ['insert into live_messages (seq)', ['insert live_messages']],
  ['delete from message_results where true', ['delete message_results']],
  ['-- update live_messages set status = 1', []],
  ['update receipts set status = 1; select status from live_messages', []],
])('%j writes %j', (sql, writes) => {
  expect(stateWrites(sql)).toEqual(writes);
});

test('only the listed functions and files write the state of a webhook endpoint', () => {
  const found = sources.flatMap(({ path, text }) => {
    const writes = endpointWrites(text).map(({ write }) => write);
    return writes.length === 0 ? [] : [[nameOf(path), [...new Set(writes)].toSorted()]];
  });
  expect(Object.fromEntries(found)).toEqual(ENDPOINT_WRITERS);
});

test('every state transition of a webhook endpoint checks may_move_endpoint or deleted_at', () => {
  const moves = sources
    .flatMap(({ text }) => endpointWrites(text))
    .filter(({ write }) => write.includes(' status'));
  // A deleted endpoint has no state, so the update must check `deleted_at` instead.
  const unasked = moves.filter(({ write, where }) =>
    write.includes('deleted_at') ? !/\bdeleted_at is null/.test(where) : !/\bmay_move_endpoint\(/.test(where),
  );
  expect(moves.length).toBeGreaterThan(4);
  expect(unasked).toEqual([]);
});

test.each([
  ["update webhook_endpoints w set status = 'active' where may_move_endpoint(1)", ['update status']],
  ['update despatch.webhook_endpoints set call_at = now(),\n  failures = 0', ['update call_at failures']],
  [
    "update webhook_endpoints set version = version + 1 ${x ? tx`, call_at = '-infinity'` : tx``} where true",
    ['update call_at'],
  ],
  ['update webhook_endpoints w set look_on = now()', []],
  ['delete from webhook_endpoints w', ['delete']],
  ['insert into webhook_endpoints (id)', ['insert']],
  ['-- update webhook_endpoints set status = 1', []],
  ['select status from webhook_endpoints; update x set status = 1', []],
])('%j writes %j of endpoints', (sql, writes) => {
  expect(endpointWrites(sql).map(({ write }) => write)).toEqual(writes);
});

test.each([
  ['provider_accounts', 'may_move_account'],
  ['tenants', 'may_move_tenant'],
] as const)('only the listed functions and files write the state of %s, and check %s', (table, check) => {
  const writers = sources.filter(({ text }) => writesState(text, table));
  expect(writers.map(({ path }) => nameOf(path)).toSorted()).toEqual(STATE_WRITERS[table]);
  const unasked = writers.filter(({ text }) => !withoutComments(text).includes(`${check}(`));
  expect(unasked.map(({ path }) => path)).toEqual([]);
});

test.each([
  ["update tenants t set name = 'x', status = 'active' where t.id = 1", true],
  ['update despatch.tenants set\n  status = case when a then b else c end', true],
  ["update tenants set name = 'x' where status = 'active'", false],
  ['update tenants set name = case when status = 1 then 2 end', false],
  ["update tenants set name = case when a is distinct from b then a end, status = 'active'", true],
  ['update tenant_limits set status = 1; -- update tenants set status = 1', false],
])('whether %j writes the state of a tenant: %j', (sql, writes) => {
  expect(writesState(sql, 'tenants')).toBe(writes);
});

function nameOf(path: string): string {
  return /functions\/(\w+)\.sql$/.exec(path)?.[1] ?? path;
}

/** Returns the writes of a text to webhook endpoints: inserts, deletes, and updates of the columns of the table of moves. */
function endpointWrites(text: string): { write: string; where: string }[] {
  const sql = withoutComments(text);
  const found = sql.matchAll(/\b(insert into|delete from|update)\s+(?:despatch\.)?webhook_endpoints\b/gi);
  return [...found].flatMap(({ 0: all, 1: verb = '', index }) => {
    const kind = verb.toLowerCase().split(' ')[0] ?? '';
    const [statement = ''] = sql.slice(index + all.length).split(/;|\b(?:insert into|delete from|update)\b/i);
    if (kind !== 'update') return [{ write: kind, where: '' }];
    const [set = '', ...where] = statement.split(/\b(?:where|from|returning)\b/i);
    const columns = ['call_at', 'deleted_at', 'failing_since', 'failures', 'status', 'status_reason'];
    const written = columns.filter((column) => new RegExp(`\\b${column}\\s*=`).test(withoutCases(set)));
    return written.length === 0 ? [] : [{ write: `update ${written.join(' ')}`, where: where.join(' ') }];
  });
}

/** Whether a text updates the column `status` of a table. */
function writesState(text: string, table: string): boolean {
  const [, ...updates] = withoutComments(text).split(
    new RegExp(`\\bupdate\\s+(?:despatch\\.)?${table}\\b`, 'i'),
  );
  return updates.some((rest) => {
    const [statement = ''] = rest.split(/;|\b(?:insert into|delete from|update)\b/i);
    const [set = ''] = withoutCases(statement).split(/\b(?:where|from|returning)\b/i);
    return /\bstatus\s*=/.test(set);
  });
}

/** Removes `case` expressions, in which a comparison would look like an assignment. */
function withoutCases(set: string): string {
  return set.replaceAll(/\bcase\b.*?\bend\b/gis, '');
}

/** Returns the writes of a text to the state tables: inserts, deletes, and updates of `status`. */
function stateWrites(text: string): string[] {
  const sql = withoutComments(text);
  const found = sql.matchAll(
    /\b(insert into|delete from|update)\s+(?:despatch\.)?(live_messages|message_results)(?:_default)?\b/gi,
  );
  const writes = [...found].flatMap(({ 0: all, 1: verb = '', 2: table, index }) => {
    const [set = ''] = sql.slice(index + all.length).split(/;|\b(?:where|from|returning)\b/i);
    const isWrite = verb.toLowerCase() !== 'update' || /\bstatus\s*=/.test(set);
    return isWrite ? [`${verb.toLowerCase().split(' ')[0]} ${table}`] : [];
  });
  return [...new Set(writes)].toSorted();
}

function withoutComments(text: string): string {
  return text.replaceAll(/--.*$/gm, '');
}
