import { chunks } from '#core/domain/chunks.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { boundedQueries } from '../query/bounded-queries.ts';
import { HISTORY_TYPES, isEvent, type EventRow, type FeedRow } from './feed.ts';
import type { FeedEvent, FeedStretch, MatchedTenant } from './match-tenant.ts';
import type { MatchedPositions } from './matched-positions.ts';

export type ReadFeedsDeps = Pick<ReturnType<typeof boundedQueries>, 'rowsOf'> & {
  readonly sql: Sql;
  readonly positions: Pick<MatchedPositions, 'of'>;
  readonly toEvents: <Row extends EventRow>(rows: readonly Row[]) => Promise<readonly FeedEvent<Row>[]>;
};

export type ReadFeeds = {
  readonly stretches: ReadonlyMap<string, FeedStretch>;
  /** Why the query for all of these tenants failed, if it did; they were then read one by one. */
  readonly failure?: { readonly cause: unknown };
  /** Why the events of tenants could not be read, by tenant. */
  readonly unread: ReadonlyMap<string, unknown>;
};

/** Events that are read and matched at once, as far as each tenant can have as many as one due row holds. */
const EVENTS_MAX = 2_500;
const EVENTS_OF_TENANT_MIN = 100;
const EVENTS_OF_TENANT_MAX = 500;
/** Queries beside each other, when the tenants are read one by one. */
const TENANTS_AT_ONCE = 4;

/**
 * Reads the next events of these tenants' feeds, with one query for all of them. Events of one tenant that cannot be read do not
 * keep back the others'.
 */
export async function readFeeds(deps: ReadFeedsDeps, tenants: readonly MatchedTenant[]): Promise<ReadFeeds> {
  const share = Math.floor(EVENTS_MAX / tenants.length);
  const most = Math.min(EVENTS_OF_TENANT_MAX, Math.max(EVENTS_OF_TENANT_MIN, share));
  try {
    return { stretches: await readStretches(deps, tenants, most), unread: new Map() };
  } catch (cause) {
    const stretches = new Map<string, FeedStretch>();
    const unread = new Map<string, unknown>();
    const readOne = async (tenant: MatchedTenant): Promise<void> => {
      try {
        for (const [id, stretch] of await readStretches(deps, [tenant], most)) stretches.set(id, stretch);
      } catch (error) {
        unread.set(tenant.id, error);
      }
    };
    for (const some of chunks(tenants, TENANTS_AT_ONCE)) await Promise.all(some.map(readOne));
    return { stretches, failure: { cause }, unread };
  }
}

/** @param most events of each tenant. */
async function readStretches(
  { sql, positions, rowsOf, toEvents }: ReadFeedsDeps,
  tenants: readonly MatchedTenant[],
  most: number,
): Promise<Map<string, FeedStretch>> {
  const starts = tenants.map(({ endpoints }) => Math.min(...endpoints.map(positions.of)));
  const rows = await rowsOf<FeedRow & { readonly tenantId: string }>(
    sql`
      select tenant_id, (event).*
      from read_feeds(${tenants.map(({ id }) => id)}::uuid[], ${starts}::bigint[], ${most}, ${HISTORY_TYPES}::text[])`,
  );
  const events = Map.groupBy(await toEvents(rows.filter(isEvent)), ({ row }) => row.tenantId);
  const read = new Map(rows.map((row) => [row.tenantId, row]));
  return new Map(
    tenants.map(({ id }, i): [string, FeedStretch] => {
      const { scanned, endSeq } = read.get(id) ?? { scanned: 0, endSeq: starts[i] ?? 0 };
      return [id, { events: events.get(id) ?? [], end: endSeq, isCut: scanned === most }];
    }),
  );
}
