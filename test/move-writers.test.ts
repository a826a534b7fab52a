import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectRoot } from './support/command.ts';

/** Who enters, moves and deletes messages, and how. Whoever moves them asks the table of moves. */
const WRITERS: Readonly<Record<string, readonly string[]>> = {
  accept: ['insert live_messages'],
  begin_attempts: ['update live_messages'],
  complete: ['delete live_messages', 'insert message_results', 'update live_messages'],
  move_messages: ['delete live_messages', 'insert message_results', 'update live_messages'],
  record_receipts: ['update message_results'],
  expire_receipts: ['update message_results'],
  purge_rows: ['delete message_results'],
  purge_some: ['delete live_messages', 'delete message_results'],
};
const MOVERS = Object.keys(WRITERS).filter((name) => WRITERS[name]?.some((how) => how.startsWith('update ')));

const services = join(projectRoot, 'services');
const sources = readdirSync(services, { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.(?:sql|ts)$/.test(path) && !path.endsWith('.test.ts'))
  .map((path) => ({ path, text: readFileSync(join(services, path), 'utf8') }));

test('no SQL but that of the functions named here sets the state of a message', () => {
  const found = sources.flatMap(({ path, text }) => {
    const writes = stateWrites(text);
    return writes.length === 0 ? [] : [[/functions\/(\w+)\.sql$/.exec(path)?.[1] ?? path, writes]];
  });
  expect(Object.fromEntries(found)).toEqual(WRITERS);
});

test.each(MOVERS)('%s asks the table of moves', (name) => {
  const source = sources.find(({ path }) => path.endsWith(`functions/${name}.sql`));
  expect(withoutComments(source?.text ?? '')).toMatch(/\bmay_move\(/);
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

/** What a text does to the tables that hold states, where it enters or takes away rows or sets `status`. */
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
