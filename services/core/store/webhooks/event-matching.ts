import { chunks } from '#core/domain/chunks.ts';
import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import type { StoredEvent } from '#core/domain/webhooks/event-envelope.ts';
import type { EndpointFilters } from '#core/domain/webhooks/webhook-endpoint.ts';
import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';
import type { boundedQueries } from '../query/bounded-queries.ts';
import type { DeliveryClaim, WebhookEndpoint } from './delivery-claim.ts';
import { HISTORY_TYPES, isEvent, messageSeqOf, type EventRow, type FeedRow } from './feed.ts';
import type { MatchedPositions, StoredPosition } from './matched-positions.ts';

export type EventMatchingDeps = Pick<ReturnType<typeof boundedQueries>, 'rowsOf'> & {
  readonly sql: Sql;
  readonly positions: MatchedPositions;
  readonly toEvents: <Row extends EventRow>(rows: readonly Row[]) => Promise<readonly FeedEvent<Row>[]>;
  readonly loadEndpoints: (ids: readonly string[]) => Promise<ReadonlyMap<string, WebhookEndpoint>>;
};

/** An event with the row that it was read from. */
type FeedEvent<Row extends EventRow = EventRow> = { readonly row: Row; readonly event: StoredEvent };

export type MatchTerms = {
  readonly match: (endpoint: EndpointFilters, event: StoredEvent) => boolean;
  /** The most due rows for which the caller has room; they are claimed as they are inserted. */
  readonly claimsMax: number;
  /** The most of these for one tenant. */
  readonly tenantClaimsMax: number;
  readonly leaseMs: number;
  /** Endpoints, and tenants, that take no further claim now. */
  readonly busy: readonly string[];
};

export type Matched = {
  readonly claims: readonly DeliveryClaim[];
  /** Whether due rows were inserted that no worker has claimed. */
  readonly isLeftDue: boolean;
  /** Tenants with events that are not matched yet. */
  readonly behind: readonly string[];
  /**
   * Tenants with an endpoint that another worker has locked or has just matched, or that has just changed; they are matched again in
   * a moment.
   */
  readonly missed: readonly string[];
  /** One error for each tenant that could not be matched. A later look finds these tenants as ones that are behind. */
  readonly failures: readonly Error[];
};

/** An endpoint with how far its tenant's feed is matched for it. */
type MatchedEndpoint = EndpointFilters &
  StoredPosition & {
    readonly tenantId: string;
    /** Whether rows inserted for it may be claimed at once. */
    readonly ready: boolean;
  };

type MatchedTenant = { readonly id: string; readonly endpoints: readonly MatchedEndpoint[] };

/** The next events of a tenant's feed. */
type FeedStretch = {
  readonly events: readonly FeedEvent[];
  /** The last number that was read. */
  readonly end: number;
  /** Whether there may be more. */
  readonly isCut: boolean;
};

/** Events to append to an endpoint's feed. Without events only the matched position advances. */
type Ask = {
  readonly endpoint: MatchedEndpoint;
  readonly upto: number;
  readonly passed: readonly FeedEvent[];
  readonly isClaimable: boolean;
};

type StretchRow = {
  readonly endpointId: string;
  readonly dueId: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly purgeOn: string;
  readonly claim: number;
};

/** Events that are read and matched at once, as far as each tenant can have as many as one due row holds. */
const EVENTS_MAX = 2_500;
const EVENTS_OF_TENANT_MIN = 100;
const EVENTS_OF_TENANT_MAX = 500;
/** Matched events of a tenant in one turn, give or take those of one endpoint. */
const MATCHES_OF_TENANT = 2_000;
/** Matched events of one statement, if it has those of several tenants. */
const APPENDED_MAX = 2_000;
/** Queries beside each other, when the tenants are read one by one. */
const TENANTS_AT_ONCE = 4;

/**
 * Creates the matching of tenants' events with their endpoints: it reads the next events of these tenants, and inserts due rows for
 * the events that `match` accepts. How far feeds are matched where no event passed, it notes in `positions`.
 */
export function eventMatching({ sql, positions, rowsOf, toEvents, loadEndpoints }: EventMatchingDeps) {
  /**
   * Reads the next events of these tenants, with one query for all of them.
   * @param onFailed called with each tenant whose events cannot be read, which do not keep back the others' events; and without a
   * tenant if the query for all of them failed.
   */
  async function readFeeds(
    tenants: readonly MatchedTenant[],
    onFailed: (error: unknown, tenantId?: string) => void,
  ): Promise<Map<string, FeedStretch>> {
    const share = Math.floor(EVENTS_MAX / tenants.length);
    const most = Math.min(EVENTS_OF_TENANT_MAX, Math.max(EVENTS_OF_TENANT_MIN, share));
    try {
      return await readStretches(tenants, most);
    } catch (error) {
      onFailed(error);
      const read = new Map<string, FeedStretch>();
      const readOne = async (tenant: MatchedTenant): Promise<void> => {
        const stretch = (await readStretches([tenant], most)).get(tenant.id);
        if (stretch !== undefined) read.set(tenant.id, stretch);
      };
      for (const some of chunks(tenants, TENANTS_AT_ONCE))
        await Promise.all(some.map((one) => readOne(one).catch((cause: unknown) => onFailed(cause, one.id))));
      return read;
    }
  }

  /** @param most events of each tenant. */
  async function readStretches(
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

  /**
   * Matches the events that were read of a tenant's feed with the tenant's endpoints, those that are furthest behind first.
   * `isCut`: endpoints are left for the tenant's next turn, so that many of them do not delay other tenants.
   */
  function matchTenant(
    { id, endpoints }: MatchedTenant,
    read: FeedStretch,
    { match, busy }: MatchTerms,
  ): { readonly asks: readonly Ask[]; readonly isCut: boolean } {
    const isTenantBusy = busy.includes(id);
    const asks: Ask[] = [];
    let matches = 0;
    const byReached = endpoints.map((endpoint) => ({ endpoint, reached: positions.of(endpoint) }));
    for (const { endpoint, reached } of byReached.toSorted((a, b) => a.reached - b.reached)) {
      if (matches >= MATCHES_OF_TENANT) return { asks, isCut: true };
      const passed = read.events.filter(({ event }) => event.seq > reached && match(endpoint, event));
      const upto = Math.max(reached, read.end);
      if (passed.length === 0 && !positions.note(endpoint, upto)) continue;
      matches += passed.length;
      asks.push({
        endpoint,
        upto,
        passed,
        isClaimable: endpoint.ready && !isTenantBusy && !busy.includes(endpoint.id),
      });
    }
    return { asks, isCut: false };
  }

  /**
   * Appends the matches to the endpoints' feeds.
   * @returns the claims that were made, whether rows were inserted that no worker has claimed, and the tenants with matches that
   * were not stored, and with matches that were.
   */
  async function append(
    asks: readonly Ask[],
    { claimsMax, tenantClaimsMax, leaseMs }: Pick<MatchTerms, 'claimsMax' | 'tenantClaimsMax' | 'leaseMs'>,
  ): Promise<Pick<Matched, 'claims' | 'isLeftDue' | 'missed'> & { readonly advanced: readonly string[] }> {
    if (asks.length === 0) return { claims: [], isLeftDue: false, missed: [], advanced: [] };
    const leaseEndsAt = performance.now() + leaseMs;
    const rows = await rowsOf<StretchRow>(
      sql`select * from append_matches(${asJson(sql, asks.map(toMatch))}, ${claimsMax}, ${tenantClaimsMax}, ${leaseMs})`,
    );
    const stretches = rows.filter(({ dueId }) => dueId !== null);
    const claimed = stretches.filter(({ claim }) => claim !== null);
    const appended = new Set(rows.map(({ endpointId }) => endpointId));
    for (const id of appended) positions.forget(id);
    const tenantsOf = (some: readonly Ask[]): string[] => some.map(({ endpoint }) => endpoint.tenantId);
    const advanced = tenantsOf(asks.filter(({ endpoint }) => appended.has(endpoint.id)));
    const missed = tenantsOf(asks.filter(({ endpoint }) => !appended.has(endpoint.id)));
    const endpoints = await loadEndpoints(claimed.map(({ endpointId }) => endpointId));
    const claims = claimed.flatMap(({ endpointId, dueId, claim, firstSeq, lastSeq, purgeOn }) => {
      const endpoint = endpoints.get(endpointId);
      const ask = asks.find((one) => one.endpoint.id === endpointId);
      if (endpoint === undefined || ask === undefined) return [];
      // Only an endpoint's first stretch is claimed.
      const events = ask.passed.slice(0, lastSeq - firstSeq + 1).map(({ row, event }, nth) => ({
        seq: firstSeq + nth,
        event: { ...event, seq: firstSeq + nth },
        messageSeq: messageSeqOf(row),
      }));
      // A matched endpoint is only claimed if it has no pace of its own.
      const none = { attempts: 0, manual: false, isProbe: false, isPaced: false, blocked: new Set<number>() };
      const waitsSince = Math.min(Date.now(), ...events.slice(0, 1).map(({ event }) => event.at.getTime()));
      return [{ ...none, dueId, claim, endpoint, purgeOn, events, waitsSince, leaseEndsAt }];
    });
    return {
      claims,
      isLeftDue: claimed.length < stretches.length,
      missed,
      advanced,
    };
  }

  return async (tenantIds: readonly string[], terms: MatchTerms): Promise<Matched> => {
    const endpoints = await rowsOf<MatchedEndpoint>(
      sql`select * from endpoints_to_match(${[...tenantIds]}::uuid[])`,
    );
    const behind = new Set<string>();
    /** Tenants with endpoints that were left for their next turn, and tenants of endpoints that were matched in this one. */
    const cut = new Set<string>();
    const advanced = new Set<string>();
    const missed = new Set<string>();
    const failures: Error[] = [];
    const claims: DeliveryClaim[] = [];
    let isLeftDue = false;
    const fail = (cause: unknown, tenantId?: string): void => {
      if (tenantId !== undefined) behind.delete(tenantId);
      const whose =
        tenantId === undefined
          ? 'several tenants were not read together'
          : `tenant ${tenantId} are not matched`;
      failures.push(new Error(`Events of ${whose}`, { cause }));
    };
    const flush = async (some: readonly Ask[]): Promise<void> => {
      try {
        const made = await append(some, { ...terms, claimsMax: terms.claimsMax - claims.length });
        claims.push(...made.claims);
        isLeftDue ||= made.isLeftDue;
        for (const id of made.missed) missed.add(id);
        for (const id of made.advanced) advanced.add(id);
      } catch (error) {
        const theirs = Map.groupBy(some, ({ endpoint }) => endpoint.tenantId);
        // A row of one tenant that the database refuses must not keep back the other tenants' rows.
        if (theirs.size > 1 && databaseFaultOf(error) === 'row')
          for (const one of theirs.values()) await flush(one);
        else for (const tenantId of theirs.keys()) fail(error, tenantId);
      }
    };
    const tenants = [...Map.groupBy(endpoints, ({ tenantId }) => tenantId)].map(
      ([id, theirs]): MatchedTenant => ({ id, endpoints: theirs }),
    );
    if (tenants.length === 0) return { claims, isLeftDue, behind: [], missed: [], failures };
    const read = await readFeeds(tenants, fail);
    const asks = tenants.flatMap((tenant) => {
      const theirs = read.get(tenant.id);
      if (theirs === undefined) return [];
      const { asks: some, isCut } = matchTenant(tenant, theirs, terms);
      if (theirs.isCut || isCut) behind.add(tenant.id);
      if (isCut) cut.add(tenant.id);
      return some;
    });
    for (const some of inStatements(asks)) await flush(some);
    // Another worker has an endpoint of these tenants locked, so matching them at once would be in vain, unless others are left.
    for (const id of missed) if (!cut.has(id) || !advanced.has(id)) behind.delete(id);
    return { claims, isLeftDue, behind: [...behind], missed: [...missed], failures };
  };
}

/** Splits asks into those of one statement each. A tenant's are in one, so that its part of the claims holds. */
function inStatements(asks: readonly Ask[]): Ask[][] {
  const statements: Ask[][] = [];
  let matches = Number.POSITIVE_INFINITY;
  for (const theirs of Map.groupBy(asks, ({ endpoint }) => endpoint.tenantId).values()) {
    const own = theirs.reduce((sum, { passed }) => sum + passed.length, 0);
    matches += own;
    if (matches > APPENDED_MAX) {
      statements.push([]);
      matches = own;
    }
    statements.at(-1)?.push(...theirs);
  }
  return statements;
}

const toMatch = ({ endpoint, upto, passed, isClaimable }: Ask) => ({
  endpoint_id: endpoint.id,
  version: endpoint.version,
  expected: endpoint.matchedTo,
  server: endpoint.server,
  upto,
  claimable: isClaimable,
  feed_seqs: passed.map(({ event }) => event.seq),
  message_seqs: passed.map(({ row }) => row.messageSeq),
  numbers: passed.map(({ row }) => row.number),
  days: passed.map(({ row }) => row.purgeOn),
});
