import { databaseFaultOf } from '#core/domain/database-fault.ts';
import type { EndpointHealth, EndpointStatus } from '#core/domain/endpoint-state.ts';
import type { StoredEvent } from '#core/domain/event-envelope.ts';
import type { LoadIds } from '#core/domain/id-loader.ts';
import type { EndpointFilters } from '#core/domain/webhook-endpoint.ts';
import { asJson, type Json, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { behindTenants } from './behind-tenants.ts';
import { boundedQueries, type Bounded } from './bounded-queries.ts';
import { camelRows } from './camel-rows.ts';
import { dueEndpoints } from './due-endpoints.ts';
import { HISTORY_TYPES, isEvent, toStoredEvents, type EventRow, type FeedRow } from './feed.ts';
import { matchedPositions } from './matched-positions.ts';

/** An endpoint with everything that a call to it needs. */
export type WebhookEndpoint = EndpointFilters & {
  readonly id: string;
  /** A delivery's id encrypts this number together with the event's number. */
  readonly number: number;
  readonly tenantId: string;
  readonly url: string;
  /** Headers that the tenant set, sent besides Despatch's own. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the events of one message are delivered one after the other. */
  readonly ordered: boolean;
  readonly maskRecipients: boolean;
  readonly signatures: readonly ('v1' | 'v1a')[];
  /** `active` or `failing` for a claimed endpoint; a test call can be made to any endpoint. */
  readonly status: EndpointStatus;
  readonly failures: number;
  readonly failingSince: Date | null;
  /** Incremented by every change of a setting or a secret. */
  readonly version: number;
  /** Ciphertext. */
  readonly secret: string;
  /** Ciphertext; null once its grace period is over. */
  readonly previousSecret: string | null;
  /** The tenant's current signing key for `v1a`; null if the tenant has none. */
  readonly signingKey: { readonly id: string; readonly ciphertext: string } | null;
  /** Ciphertext. */
  readonly clientCertificate: string | null;
};

/** One event to deliver to an endpoint. */
export type ClaimedEvent = {
  /** Number of the event in the endpoint's feed. */
  readonly seq: number;
  readonly event: StoredEvent;
  /** The event's message; null for an event without one. */
  readonly messageSeq: number | null;
};

/** A due row that belongs to this worker until its lease ends. */
export type DeliveryClaim = {
  readonly dueId: number;
  /** Unique number of this claim of the row. */
  readonly claim: number;
  readonly endpoint: WebhookEndpoint;
  readonly purgeOn: string;
  /** Number of calls made before. */
  readonly attempts: number;
  /** Whether a person requested it: one call, without a retry after a failure. */
  readonly manual: boolean;
  /** In their order, without events whose message is purged. */
  readonly events: readonly ClaimedEvent[];
  /** Messages with an earlier event that still waits; only for an ordered endpoint. */
  readonly blocked: ReadonlySet<number>;
  /** By `performance.now()`. */
  readonly leaseEndsAt: number;
};

/** A finished call. */
export type DeliveryAttempt = {
  /** Number of the event in the endpoint's feed. */
  readonly seq: number;
  /** From 1. */
  readonly attempt: number;
  readonly at: Date;
  readonly durationMs: number;
  /** Status code of the answer; null if none arrived. */
  readonly status: number | null;
  /** Why no answer arrived. */
  readonly error: string | null;
  /** The first KiB of the answer's body. */
  readonly answer: string | null;
  readonly succeeded: boolean;
};

/** The result of a claim. Events in neither `again` nor `uncalled` are done. */
export type DeliveryCompletion = {
  readonly claim: DeliveryClaim;
  readonly attempts: readonly DeliveryAttempt[];
  /** Events that get a row of their own. */
  readonly again: readonly {
    readonly seq: number;
    readonly attempts: number;
    /** `after_earlier`: when the earlier events of its message are done. */
    readonly dueAt: Date | 'after_earlier';
    readonly messageSeq: number | null;
  }[];
  /** Ranges of events for which no call was made, by first and last number; they become due again unchanged. */
  readonly uncalled: readonly { readonly first: number; readonly last: number }[];
};

export type MatchTerms = {
  readonly match: (endpoint: EndpointFilters, event: StoredEvent) => boolean;
  /** The most due rows for which the caller has room; they are claimed as they are inserted. */
  readonly claimsMax: number;
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
  /** Tenants with an endpoint that another worker has locked or has just matched; they are matched again in a moment. */
  readonly missed: readonly string[];
  /** One error for each tenant that could not be matched. A later look finds these tenants as ones that are behind. */
  readonly failures: readonly Error[];
};

export type TenantsBehind = {
  readonly tenantIds: readonly string[];
  readonly newestPass: number | null;
  readonly isWhole: boolean;
};

export type ClaimTerms = {
  /** Where the previous call ended; null: start at the first endpoint. */
  readonly after: string | null;
  /** The most endpoints to look at. */
  readonly endpointsMax: number;
  readonly claimsMax: number;
  readonly busy: readonly string[];
  readonly leaseMs: number;
};

/** The most events of a tenant that are read and matched at once. */
const EVENTS_MAX = 500;
/** The most matched events in one call of the database, give or take those of one tenant. */
const APPENDED_MAX = 2_000;
const TENANTS_AT_ONCE = 4;

/**
 * Creates the worker's side of webhook endpoints. It remembers how far feeds are matched where no event passed, which endpoints
 * have something due, and which tenants are behind; forgetting one of these costs no more than another look.
 * @param bounded gives a query its deadline.
 */
export function webhookStore(sql: Sql, bounded: Bounded, loadIds: LoadIds) {
  const { count, rowsOf } = boundedQueries(bounded);
  const positions = matchedPositions();
  const due = dueEndpoints();
  const looked = behindTenants();

  async function toEvents<Row extends EventRow>(
    rows: readonly Row[],
  ): Promise<{ readonly row: Row; readonly event: StoredEvent }[]> {
    const { events: ids } = await loadIds();
    return toStoredEvents(rows, ids).flatMap((event, i) => {
      const row = rows[i];
      return row === undefined ? [] : { row, event };
    });
  }

  async function loadEndpoints(ids: readonly string[]): Promise<Map<string, WebhookEndpoint>> {
    if (ids.length === 0) return new Map();
    const rows = await rowsOf<EndpointRow>(sql`select * from load_endpoints(${[...new Set(ids)]}::uuid[])`);
    return new Map(rows.map((row) => [row.id, toEndpoint(row)]));
  }

  /** Matches the next events of a tenant with its endpoints. */
  async function matchTenant(
    tenantId: string,
    endpoints: readonly MatchedEndpoint[],
    { match, busy }: MatchTerms,
  ): Promise<{ readonly asks: readonly Ask[]; readonly isBehind: boolean }> {
    const from = new Map(endpoints.map((endpoint) => [endpoint.id, positions.of(endpoint)]));
    const start = Math.min(...from.values());
    const rows = await rowsOf<FeedRow>(
      sql`select * from read_tenant_events(${tenantId}, ${start}, ${EVENTS_MAX}, ${HISTORY_TYPES}::text[])`,
    );
    const end = rows[0]?.endSeq ?? start;
    const events = await toEvents(rows.filter(isEvent));
    const asks = endpoints.flatMap((endpoint): Ask[] => {
      const reached = from.get(endpoint.id) ?? start;
      const passed = events.filter(({ event }) => event.seq > reached && match(endpoint, event));
      const upto = Math.max(reached, end);
      if (passed.length === 0 && !positions.note(endpoint, upto)) return [];
      return [
        {
          endpoint,
          upto,
          passed,
          isClaimable: endpoint.ready && !busy.includes(endpoint.id) && !busy.includes(tenantId),
        },
      ];
    });
    return { asks, isBehind: rows[0]?.scanned === EVENTS_MAX };
  }

  /**
   * Appends the matches to the endpoints' feeds. @returns the claims that were made, whether rows were inserted that no worker
   * has claimed, and the tenants with matches that were not stored.
   */
  async function append(
    asks: readonly Ask[],
    claimsMax: number,
    leaseMs: number,
  ): Promise<Pick<Matched, 'claims' | 'isLeftDue' | 'missed'>> {
    if (asks.length === 0) return { claims: [], isLeftDue: false, missed: [] };
    const leaseEndsAt = performance.now() + leaseMs;
    const rows = await rowsOf<StretchRow>(
      sql`select * from append_matches(${asJson(sql, asks.map(toMatch))}, ${claimsMax}, ${leaseMs})`,
    );
    const stretches = rows.filter(({ dueId }) => dueId !== null);
    const claimed = stretches.filter(({ claim }) => claim !== null);
    const appended = new Set(rows.map(({ endpointId }) => endpointId));
    for (const id of appended) positions.forget(id);
    const missed = asks.filter(({ endpoint }) => !appended.has(endpoint.id));
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
      const none = { attempts: 0, manual: false, blocked: new Set<number>() };
      return [{ ...none, dueId, claim, endpoint, purgeOn, events, leaseEndsAt }];
    });
    return {
      claims,
      isLeftDue: claimed.length < stretches.length,
      missed: missed.map(({ endpoint }) => endpoint.tenantId),
    };
  }

  return {
    /** Reads the next events of these tenants and inserts due rows for the events that `match` accepts. */
    async matchEvents(tenantIds: readonly string[], terms: MatchTerms): Promise<Matched> {
      const endpoints = await rowsOf<MatchedEndpoint>(
        sql`select * from endpoints_to_match(${[...tenantIds]}::uuid[])`,
      );
      const behind = new Set<string>();
      const missed = new Set<string>();
      const failures: Error[] = [];
      const claims: DeliveryClaim[] = [];
      let isLeftDue = false;
      const asks: Ask[] = [];
      const fail = (tenantId: string, cause: unknown): void => {
        behind.delete(tenantId);
        failures.push(new Error(`Events of tenant ${tenantId} are not matched`, { cause }));
      };
      const flush = async (some: readonly Ask[]): Promise<void> => {
        try {
          const made = await append(some, terms.claimsMax - claims.length, terms.leaseMs);
          claims.push(...made.claims);
          isLeftDue ||= made.isLeftDue;
          for (const id of made.missed) missed.add(id);
        } catch (error) {
          const theirs = Map.groupBy(some, ({ endpoint }) => endpoint.tenantId);
          // A row of one tenant that the database refuses must not keep back the other tenants' rows.
          if (theirs.size > 1 && databaseFaultOf(error) === 'row')
            for (const one of theirs.values()) await flush(one);
          else for (const tenantId of theirs.keys()) fail(tenantId, error);
        }
      };
      const tenants = [...Map.groupBy(endpoints, ({ tenantId }) => tenantId)];
      for (let i = 0; i < tenants.length; i += TENANTS_AT_ONCE) {
        const some = tenants.slice(i, i + TENANTS_AT_ONCE);
        const matched = await Promise.all(
          some.map(async ([tenantId, theirs]) => {
            try {
              return { tenantId, ...(await matchTenant(tenantId, theirs, terms)) };
            } catch (error) {
              fail(tenantId, error);
              return { tenantId, asks: [], isBehind: false };
            }
          }),
        );
        for (const one of matched) {
          asks.push(...one.asks);
          if (one.isBehind) behind.add(one.tenantId);
        }
        if (asks.reduce((sum, { passed }) => sum + passed.length, 0) >= APPENDED_MAX)
          await flush(asks.splice(0));
      }
      await flush(asks);
      // Another worker has an endpoint of these tenants locked, so matching them at once would be in vain.
      for (const id of missed) behind.delete(id);
      return { claims, isLeftDue, behind: [...behind], missed: [...missed], failures };
    },

    /**
     * Returns tenants with endpoints that are matched less far than the tenant's feed goes: among the tenants to which numbering
     * passes after `afterPass` gave events, and among `among`.
     * @returns `newestPass`: where the next look begins; `isWhole`: false if only a look at all endpoints finds every such
     * tenant.
     */
    async tenantsBehind(afterPass: number | null, among: readonly string[]): Promise<TenantsBehind> {
      const [row] = await bounded(
        sql<TenantsBehind[]>`
          select tenant_ids as "tenantIds", newest_pass as "newestPass", is_whole as "isWhole"
          from tenants_behind(${afterPass}, ${[...among]}::uuid[])`,
      );
      if (row !== undefined) looked.found(row.tenantIds, row.isWhole);
      return row ?? { tenantIds: [], newestPass: null, isWhole: false };
    },

    /** Does the same for all endpoints, some per call; `next`: where the next call begins. */
    async endpointsBehind(
      after: string | null,
      most: number,
    ): Promise<{ readonly tenantIds: readonly string[]; readonly next: string | null }> {
      const [row] = await bounded(
        sql<{ tenantIds: string[]; next: string | null }[]>`
          select tenant_ids as "tenantIds", next_id as next from endpoints_behind(${after}, ${most})`,
      );
      // The calls before have reported the tenants of the earlier pages.
      if (row !== undefined) looked.found(row.tenantIds, row.next === null);
      return row ?? { tenantIds: [], next: null };
    },

    /** Claims due rows, of one endpoint after the other; `next` null: that was the last endpoint. */
    async claimDeliveries({
      after,
      endpointsMax,
      claimsMax,
      busy,
      leaseMs,
    }: ClaimTerms): Promise<{ readonly claims: readonly DeliveryClaim[]; readonly next: string | null }> {
      const leaseEndsAt = performance.now() + leaseMs;
      const { since, known } = due.look(after);
      const [look] = await bounded(
        sql<ClaimLook[]>`
          select claims, seen, earliest, next_id as next, looked_at as "lookedAt" from claim_deliveries(${after}, ${endpointsMax},
            ${claimsMax}, ${[...busy]}::uuid[], ${leaseMs}, ${since}::text::timestamptz, ${asJson(sql, known)})`,
      );
      if (look === undefined) return { claims: [], next: null };
      due.looked(look);
      if (look.claims.length === 0) return { claims: [], next: look.next };
      const [endpoints, rows] = await Promise.all([
        loadEndpoints(look.claims.map(({ endpoint_id: id }) => id)),
        bounded(
          sql`
            select due_id, blocked, (event).* from read_deliveries(${asJson(sql, look.claims)}, ${HISTORY_TYPES}::text[])`.values(),
        ),
      ]);
      const events = Map.groupBy(await toEvents(camelRows<DeliveryRow>(rows)), ({ row }) => row.dueId);
      const claims = look.claims.flatMap(
        ({ due_id: dueId, claim, endpoint_id, purge_on, attempts, manual }) => {
          const endpoint = endpoints.get(endpoint_id);
          if (endpoint === undefined) return [];
          const told = events.get(dueId) ?? [];
          return {
            dueId,
            claim,
            endpoint,
            purgeOn: purge_on,
            attempts,
            manual,
            events: told.map(({ row, event }) => ({ seq: row.seq, event, messageSeq: messageSeqOf(row) })),
            blocked: new Set(told.filter(({ row }) => row.blocked).map(({ row }) => row.messageSeq)),
            leaseEndsAt,
          };
        },
      );
      return { claims, next: look.next };
    },

    /**
     * Stores the results of claims. `stale`: the number of claims that belonged to another worker by then; nothing of them is
     * stored.
     */
    async completeDeliveries(
      completions: readonly DeliveryCompletion[],
    ): Promise<{ readonly stale: number }> {
      const now = Date.now();
      const rows = completions.map((one) => toCompletion(one, now));
      const [row] = await bounded(
        sql<{ stale: number }[]>`select complete_deliveries(${asJson(sql, rows)}) as stale`,
      );
      return { stale: row?.stale ?? 0 };
    },

    /**
     * Changes an endpoint's health under a lock on its row. Each change makes a new row version, so outcomes of the same moment
     * should be decided together.
     * @param version of the endpoint that was called; nothing is decided if it has changed since.
     * @param decide returns undefined to leave the health as it is.
     * @returns the health after the decision; undefined if the endpoint is deleted or changed.
     */
    changeEndpoint: (
      id: string,
      version: number,
      decide: (now: EndpointHealth) => EndpointHealth | undefined,
    ): Promise<EndpointHealth | undefined> =>
      bounded(
        sql.begin(async (tx: TransactionSql) => {
          const [now] = await tx<EndpointHealth[]>`
            select status, status_reason as "statusReason", failures, failing_since as "failingSince", call_at as "callAt"
            from lock_endpoint_health(${id}, ${version})`;
          const next = now && decide(now);
          if (next === undefined) return now;
          await tx`select store_endpoint_health(${id}, ${next.status}, ${next.statusReason}, ${next.failures},
            ${next.failingSince}, ${next.callAt})`;
          return next;
        }),
      ),

    /** Returns those of these endpoints that have changed since or are deleted. */
    async changedEndpoints(known: readonly Pick<WebhookEndpoint, 'id' | 'version'>[]): Promise<string[]> {
      const rows = await bounded(
        sql<{ id: string; version: number }[]>`
          select id, version from endpoint_versions(${known.map(({ id }) => id)}::uuid[])`,
      );
      const versions = new Map(rows.map(({ id, version }) => [id, version]));
      return known.filter(({ id, version }) => versions.get(id) !== version).map(({ id }) => id);
    },

    /** Takes test calls for which people wait. A test without a stored result can be taken again after half a minute. */
    async takeEndpointTests(
      most: number,
    ): Promise<readonly { readonly id: string; readonly endpoint: WebhookEndpoint }[]> {
      const taken = await bounded(
        sql<{ id: string; endpointId: string }[]>`
          select id, endpoint_id as "endpointId" from take_endpoint_tests(${most})`,
      );
      const endpoints = await loadEndpoints(taken.map(({ endpointId }) => endpointId));
      return taken.flatMap(({ id, endpointId }) => {
        const endpoint = endpoints.get(endpointId);
        return endpoint === undefined ? [] : { id, endpoint };
      });
    },

    async storeEndpointTest(id: string, result: unknown): Promise<void> {
      await bounded(sql`select store_endpoint_test(${id}, ${sql.json(result as Json)})`);
    },

    /** Counts the endpoints of all tenants by status; statuses without endpoints are left out. */
    endpointCounts: (): Promise<readonly { readonly status: EndpointStatus; readonly endpoints: number }[]> =>
      bounded(
        sql<{ status: EndpointStatus; endpoints: number }[]>`select status, endpoints from count_endpoints()`,
      ),

    /**
     * Returns how long the oldest event has waited to be matched since it got its number; 0 if none waits. It reads the tenants
     * that looks have found behind, or all tenants if there was no look lately.
     */
    async oldestUnmatchedSeconds(): Promise<number> {
      const asked = looked.all();
      const [row] = await bounded(
        sql<{ seconds: number; tenantIds: string[] }[]>`
          select seconds, tenant_ids as "tenantIds" from oldest_unmatched(${asked === undefined ? null : [...asked]}::uuid[])`,
      );
      if (asked !== undefined && row !== undefined) looked.left(asked, row.tenantIds);
      return row?.seconds ?? 0;
    },

    /** Returns how long the oldest row has waited that a worker should have taken; 0 if there is none. */
    oldestDueSeconds: () => count(sql`select oldest_due_seconds() as n`),
  };
}

export type WebhookStore = ReturnType<typeof webhookStore>;

type EndpointRow = Omit<WebhookEndpoint, 'signingKey'> & {
  readonly keyId: string | null;
  readonly keyCiphertext: string | null;
};

/** An endpoint with how far its tenant's feed is matched for it. */
type MatchedEndpoint = EndpointFilters & {
  readonly id: string;
  readonly tenantId: string;
  readonly version: number;
  readonly matchedTo: number;
  readonly server: number;
  /** Whether rows inserted for it may be claimed at once. */
  readonly ready: boolean;
};

/** Events to append to an endpoint's feed. Without events only the matched position advances. */
type Ask = {
  readonly endpoint: MatchedEndpoint;
  readonly upto: number;
  readonly passed: readonly { readonly row: EventRow; readonly event: StoredEvent }[];
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

type ClaimLook = {
  readonly claims: readonly {
    readonly due_id: number;
    readonly claim: number;
    readonly endpoint_id: string;
    readonly purge_on: string;
    readonly attempts: number;
    readonly manual: boolean;
  }[];
  readonly seen: readonly string[];
  readonly earliest: readonly (Date | null)[];
  readonly next: string | null;
  readonly lookedAt: Date;
};

type DeliveryRow = EventRow & { readonly dueId: number; readonly blocked: boolean };

function toEndpoint({ keyId, keyCiphertext, ...endpoint }: EndpointRow): WebhookEndpoint {
  const signingKey =
    keyId === null || keyCiphertext === null ? null : { id: keyId, ciphertext: keyCiphertext };
  return { ...endpoint, signingKey };
}

function messageSeqOf({ messageSeq: seq }: EventRow): number | null {
  return seq === 0 ? null : seq;
}

const toMatch = ({ endpoint, upto, passed, isClaimable }: Ask) => ({
  endpoint_id: endpoint.id,
  expected: endpoint.matchedTo,
  server: endpoint.server,
  upto,
  claimable: isClaimable,
  feed_seqs: passed.map(({ event }) => event.seq),
  message_seqs: passed.map(({ row }) => row.messageSeq),
  numbers: passed.map(({ row }) => row.number),
  days: passed.map(({ row }) => row.purgeOn),
});

function toCompletion({ claim, attempts, again, uncalled }: DeliveryCompletion, now: number) {
  const { ordered } = claim.endpoint;
  return {
    due_id: claim.dueId,
    claim: claim.claim,
    messages: ordered ? claim.events.flatMap(({ messageSeq }) => messageSeq ?? []) : [],
    attempts: attempts.map(({ durationMs, ...attempt }) => ({ ...attempt, duration_ms: durationMs })),
    again: again.map(({ seq, attempts: made, dueAt, messageSeq }) => ({
      seq,
      attempts: made,
      due_in_ms: dueAt === 'after_earlier' ? null : Math.max(0, dueAt.getTime() - now),
      message_seq: ordered ? messageSeq : null,
    })),
    uncalled,
  };
}
