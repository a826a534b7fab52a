import { secret } from '#core/domain/storage/secret.ts';
import { deriveSubkeys } from '#core/domain/storage/subkeys.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { createCursors } from '../../../services/api/http/lists/cursor.ts';
import { sampleMessages, type StoredMessage } from '../stack/layout.ts';
import type { BenchTenant } from '../stack/seed.ts';
import type { World } from '../stack/stack.ts';
import type { Bench } from './bench.ts';
import type { Contestant } from './contestant.ts';

/** So few that a stall of half a second, as of a disk, does not fill the slots that one tenant's reads may occupy. */
const READS_PER_SECOND = 40;
const WARM_MS = 1_000;
const READ_MS = 10_000;
/** One sample for each read, including the warm-up. */
const SAMPLES = (READS_PER_SECOND * (WARM_MS + READ_MS)) / 1_000;
/** The default page size, and one more row that shows that the page is not the last. */
const PAGE_ROWS = 51;
/**
 * Concurrent reads of one tenant are limited, and the api answers 503 beyond the limit; above this share of them there is no 99th
 * percentile.
 */
const SHED_SHARE_MAX = 0.01;

type Looked = {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly shed: number;
  /** Blocks per page that the api requested, and how many of them were not in Postgres' cache. */
  readonly blocks: number;
  readonly blocksRead: number;
};

/**
 * Measures reads of a message by its id, of the first page of a list, and of a page among the oldest messages. All pages are
 * full, because a page of three messages costs less than one of fifty. Each is read twice: the first read of weeks-old rows shows
 * how much of the database is in memory, the second shows the cost of the service.
 */
export async function readFigures(
  bench: Bench,
  { admin }: World,
  api: Contestant,
  tenants: readonly BenchTenant[],
): Promise<Record<string, number>> {
  const keyOf = new Map(tenants.map(({ tenantId }, i) => [tenantId as string, i]));
  const cursors = createCursors(deriveSubkeys(secret(bench.stack.pepper)).cursor);
  // The scope of a key of mode `live`, which covers all messages of the database.
  const scopeOf = (tenantId: string): unknown => ['messages', tenantId, { test: false }];
  const pageBefore = ({ tenantId, enqueuedAt, seq }: StoredMessage): string =>
    `/v1/messages?cursor=${cursors.next(scopeOf(tenantId), { enqueuedAt, seq })}`;
  const sampled = {
    get: [
      await sampleMessages(admin, SAMPLES, { of: 'all' }),
      ({ id }: StoredMessage) => `/v1/messages/${id}`,
    ],
    list: [await sampleMessages(admin, SAMPLES, { of: 'tenants', rows: PAGE_ROWS }), () => '/v1/messages'],
    deep: [await sampleMessages(admin, SAMPLES, { of: 'oldest', rows: PAGE_ROWS }), pageBefore],
  } as const;
  const keys = tenants.map(({ key }) => key);
  const figures: Record<string, number> = {};
  let readsShed = 0;
  for (const [name, [messages, pathOf]] of Object.entries(sampled)) {
    const reads = messages.map((message) => [pathOf(message), keyOf.get(message.tenantId) ?? 0] as const);
    const first = await look(bench, { admin, api, keys, reads, name });
    const second = await look(bench, { admin, api, keys, reads, name });
    figures[`${name}FirstP99Ms`] = first.p99Ms;
    figures[`${name}P50Ms`] = second.p50Ms;
    figures[`${name}P99Ms`] = second.p99Ms;
    figures[`${name}Blocks`] = first.blocks;
    figures[`${name}BlocksRead`] = first.blocksRead;
    readsShed += first.shed + second.shed;
  }
  return { ...figures, readsShed };
}

async function look(
  bench: Bench,
  terms: {
    readonly admin: Sql;
    readonly api: Contestant;
    readonly keys: readonly string[];
    readonly reads: readonly (readonly [path: string, key: number])[];
    readonly name: string;
  },
): Promise<Looked> {
  const { admin, api, keys, reads, name } = terms;
  if (reads.length === 0) throw new Error(`no tenant has a full page to read (${name})`);
  const before = await blocksOf(admin);
  const { answered, accepted, p50Ms, p99Ms, refused } = await bench.helpers.load.run({
    port: api.port,
    keys,
    reads,
    isIdempotent: false,
    connections: 64,
    warmMs: WARM_MS,
    measureMs: READ_MS,
    rate: READS_PER_SECOND,
  });
  const after = await blocksOf(admin);
  const { 503: shed = 0, ...others } = refused;
  if (Object.keys(others).length > 0)
    throw new Error(`reads (${name}) were refused: ${JSON.stringify(refused)}`);
  return {
    p50Ms,
    p99Ms: shed > answered * SHED_SHARE_MAX ? Number.NaN : p99Ms,
    shed,
    blocks: (after.asked - before.asked) / accepted,
    blocksRead: (after.read - before.read) / accepted,
  };
}

/** Returns the blocks that the api has requested from Postgres since pg_stat_statements was reset. */
async function blocksOf(admin: Sql): Promise<{ readonly asked: number; readonly read: number }> {
  const [row] = await admin<{ asked: number; read: number }[]>`
    select coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 as asked, coalesce(sum(shared_blks_read), 0)::float8 as read
    from pg_stat_statements s join pg_roles r on r.oid = s.userid join pg_database d on d.oid = s.dbid
    where r.rolname = 'despatch_api' and d.datname = current_database()`;
  return row ?? { asked: 0, read: 0 };
}
