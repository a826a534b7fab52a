import { databaseFaultOf } from '#core/domain/database-fault.ts';
import type { EndpointHealth, EndpointStatus } from '#core/domain/endpoint-state.ts';
import type { StoredEvent } from '#core/domain/event-envelope.ts';
import type { LoadIds } from '#core/domain/id-loader.ts';
import type { EndpointFilters } from '#core/domain/webhook-endpoint.ts';
import { asJson, type Json, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { behindTenants } from './behind-tenants.ts';
import type { Bounded } from './bounded-queries.ts';
import { camelRows } from './camel-rows.ts';
import { dueEndpoints } from './due-endpoints.ts';
import { HISTORY_TYPES, isEvent, toStoredEvents, type EventRow, type FeedRow } from './feed.ts';
import { matchedPositions } from './matched-positions.ts';

/** An endpoint with all that a call to it takes. */
export type WebhookEndpoint = EndpointFilters & {
  readonly id: string;
  /** With an event's number it is what a delivery's id hides. */
  readonly number: number;
  readonly tenantId: string;
  readonly url: string;
  /** The tenant's own, besides ours. */
  readonly headers: Readonly<Record<string, string>>;
  /** Events of one message are delivered one after the other. */
  readonly ordered: boolean;
  readonly maskRecipients: boolean;
  readonly signatures: readonly ('v1' | 'v1a')[];
  /** Of a claimed one `active` or `failing`; any endpoint may be tried out. */
  readonly status: EndpointStatus;
  readonly failures: number;
  readonly failingSince: Date | null;
  /** Raised with every change of a setting or a secret. */
  readonly version: number;
  /** A ciphertext. */
  readonly secret: string;
  /** A ciphertext; null where its time is over. */
  readonly previousSecret: string | null;
  /** The tenant's newest key for `v1a`; null where it has none. */
  readonly signingKey: { readonly id: string; readonly ciphertext: string } | null;
  /** A ciphertext. */
  readonly clientCertificate: string | null;
};

/** One event to tell an endpoint of. */
export type ClaimedEvent = {
  /** Its number in the endpoint's feed. */
  readonly seq: number;
  readonly event: StoredEvent;
  /** Which message it tells of; null where it is none of a message. */
  readonly messageSeq: number | null;
};

/** A due row that belongs to this worker until its lease ends. */
export type DeliveryClaim = {
  readonly dueId: number;
  /** No other claim of the row has this number. */
  readonly claim: number;
  readonly endpoint: WebhookEndpoint;
  readonly purgeOn: string;
  /** Calls that were made for it before. */
  readonly attempts: number;
  /** A person asked for it: one call, and no other after a failure. */
  readonly manual: boolean;
  /** In their order; without those whose message is purged. */
  readonly events: readonly ClaimedEvent[];
  /** Messages of which an earlier event still waits; of an ordered endpoint alone. */
  readonly blocked: ReadonlySet<number>;
  /** By `performance.now()`. */
  readonly leaseEndsAt: number;
};

/** A call that was made, as it ended. */
export type DeliveryAttempt = {
  /** The event's number in the endpoint's feed. */
  readonly seq: number;
  /** 1 and up. */
  readonly attempt: number;
  readonly at: Date;
  readonly durationMs: number;
  /** Of the answer; null where none came. */
  readonly status: number | null;
  /** Why there is none. */
  readonly error: string | null;
  /** The first KiB of the answer's body. */
  readonly answer: string | null;
  readonly succeeded: boolean;
};

/** What became of a claim. Events that are neither in `again` nor `uncalled` are done with. */
export type DeliveryCompletion = {
  readonly claim: DeliveryClaim;
  readonly attempts: readonly DeliveryAttempt[];
  /** Events that have a row of their own from now on. */
  readonly again: readonly {
    readonly seq: number;
    readonly attempts: number;
    /** `after_earlier`: when the earlier ones of its message are done with. */
    readonly dueAt: Date | 'after_earlier';
    readonly messageSeq: number | null;
  }[];
  /** Neighbours that nobody called, by their first and last numbers: they are due as they were. */
  readonly uncalled: readonly { readonly first: number; readonly last: number }[];
};

export type MatchTerms = {
  readonly match: (endpoint: EndpointFilters, event: StoredEvent) => boolean;
  /** Most due rows that the caller has room for; they are claimed as they are made. */
  readonly claimsMax: number;
  readonly leaseMs: number;
  /** Endpoints that take no further claim now, and tenants of which none does. */
  readonly busy: readonly string[];
};

export type Matched = {
  readonly claims: readonly DeliveryClaim[];
  /** Due rows were made that nobody has claimed. */
  readonly isLeftDue: boolean;
  /** Tenants with events that are not matched yet. */
  readonly behind: readonly string[];
  /** Tenants with an endpoint that somebody else had, or has just matched: to be matched again in a moment. */
  readonly missed: readonly string[];
  /** Why tenants could not be matched, an error for each; they are found again as ones that are behind. */
  readonly failures: readonly Error[];
};

export type TenantsBehind = {
  readonly tenantIds: readonly string[];
  readonly newestPass: number | null;
  readonly isWhole: boolean;
};

export type ClaimTerms = {
  /** Where the call before ended; null: at the first endpoint. */
  readonly after: string | null;
  /** Most endpoints to look at. */
  readonly endpointsMax: number;
  readonly claimsMax: number;
  readonly busy: readonly string[];
  readonly leaseMs: number;
};

/** Most events of a tenant that are read and matched at once. */
const EVENTS_MAX = 500;
/** Most matched events that go to the database in one call, give or take those of one tenant. */
const APPENDED_MAX = 2_000;
const TENANTS_AT_ONCE = 4;

/**
 * The worker's side of webhook endpoints. It remembers how far feeds are matched where nothing passed, which endpoints
 * have something due, and which tenants are behind; each costs no more than another look where it is forgotten.
 * @param bounded gives a query its deadline.
 */
export function webhookStore(sql: Sql, bounded: Bounded, loadIds: LoadIds) {
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
    const rows = camelRows<EndpointRow>(
      await bounded(sql`select * from load_endpoints(${[...new Set(ids)]}::uuid[])`.values()),
    );
    return new Map(rows.map((row) => [row.id, toEndpoint(row)]));
  }

  /** What of the next events of a tenant goes to which of its endpoints. */
  async function matchTenant(
    tenantId: string,
    endpoints: readonly MatchedEndpoint[],
    { match, busy }: MatchTerms,
  ): Promise<{ readonly asks: readonly Ask[]; readonly isBehind: boolean }> {
    const from = new Map(endpoints.map((endpoint) => [endpoint.id, positions.of(endpoint)]));
    const start = Math.min(...from.values());
    const rows = camelRows<FeedRow>(
      await bounded(
        sql`select * from read_tenant_events(${tenantId}, ${start}, ${EVENTS_MAX}, ${HISTORY_TYPES}::text[])`.values(),
      ),
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

  /** @returns the claims that were made, whether rows were made that nobody has, and whose asks came to nothing. */
  async function append(
    asks: readonly Ask[],
    claimsMax: number,
    leaseMs: number,
  ): Promise<Pick<Matched, 'claims' | 'isLeftDue' | 'missed'>> {
    if (asks.length === 0) return { claims: [], isLeftDue: false, missed: [] };
    const leaseEndsAt = performance.now() + leaseMs;
    const rows = camelRows<StretchRow>(
      await bounded(
        sql`select * from append_matches(${asJson(sql, asks.map(toMatch))}, ${claimsMax}, ${leaseMs})`.values(),
      ),
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
    /** Reads the next events of these tenants, and makes due rows of what `match` lets pass. */
    async matchEvents(tenantIds: readonly string[], terms: MatchTerms): Promise<Matched> {
      const endpoints = camelRows<MatchedEndpoint>(
        await bounded(sql`select * from endpoints_to_match(${[...tenantIds]}::uuid[])`.values()),
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
          // What the database refuses of one tenant keeps no other tenant's back.
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
      // Where somebody has an endpoint locked, the next events are matched no sooner by asking at once.
      for (const id of missed) behind.delete(id);
      return { claims, isLeftDue, behind: [...behind], missed: [...missed], failures };
    },

    /**
     * Tenants with endpoints that are not matched as far as the tenant's feed goes: of those that passes of the numbering after
     * `afterPass` gave events to, and of `among`.
     * @returns `newestPass`: where the next look begins; `isWhole`: false where only a look at all endpoints finds every tenant.
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

    /** The same of all endpoints, some at a time; `next`: where the next look begins. */
    async endpointsBehind(
      after: string | null,
      most: number,
    ): Promise<{ readonly tenantIds: readonly string[]; readonly next: string | null }> {
      const [row] = await bounded(
        sql<{ tenantIds: string[]; next: string | null }[]>`
          select tenant_ids as "tenantIds", next_id as next from endpoints_behind(${after}, ${most})`,
      );
      // The pages before have been found by now.
      if (row !== undefined) looked.found(row.tenantIds, row.next === null);
      return row ?? { tenantIds: [], next: null };
    },

    /** Due rows, of one endpoint after the other; `next` null: that was the last one. */
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

    /** `stale`: claims that were another worker's by then; nothing of them is stored. */
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
     * Decides about an endpoint's health while nobody else does. Each change makes a version of the endpoint's row: outcomes
     * of one moment are to be decided about together.
     * @param version of the endpoint that was called; nothing is decided where it has changed since.
     * @param decide undefined: it stays as it is.
     * @returns its health now; undefined where it is deleted or changed.
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

    /** Those of these endpoints that have changed since, or are deleted. */
    async changedEndpoints(known: readonly Pick<WebhookEndpoint, 'id' | 'version'>[]): Promise<string[]> {
      const rows = await bounded(
        sql<{ id: string; version: number }[]>`
          select id, version from endpoint_versions(${known.map(({ id }) => id)}::uuid[])`,
      );
      const versions = new Map(rows.map(({ id, version }) => [id, version]));
      return known.filter(({ id, version }) => versions.get(id) !== version).map(({ id }) => id);
    },

    /** Calls that people wait for. They come again after half a minute where nothing is stored of them. */
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

    /** Of all tenants; without states that none is in. */
    endpointCounts: (): Promise<readonly { readonly status: EndpointStatus; readonly endpoints: number }[]> =>
      bounded(
        sql<{ status: EndpointStatus; endpoints: number }[]>`select status, endpoints from count_endpoints()`,
      ),

    /**
     * How long the oldest event has waited to be matched since it has its number; 0 without any. Of tenants that looks have found
     * behind, or of all where nobody has looked lately.
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

    /** How long the oldest row has waited that a worker should have taken; 0 without any. */
    async oldestDueSeconds(): Promise<number> {
      const [row] = await bounded(sql<{ seconds: number }[]>`select oldest_due_seconds() as seconds`);
      return row?.seconds ?? 0;
    },
  };
}

export type WebhookStore = ReturnType<typeof webhookStore>;

type EndpointRow = Omit<WebhookEndpoint, 'signingKey'> & {
  readonly keyId: string | null;
  readonly keyCiphertext: string | null;
};

/** An endpoint with how far its tenant's feed is matched. */
type MatchedEndpoint = EndpointFilters & {
  readonly id: string;
  readonly tenantId: string;
  readonly version: number;
  readonly matchedTo: number;
  readonly server: number;
  /** What is made for it may be claimed at once. */
  readonly ready: boolean;
};

/** What is to be appended to an endpoint's feed; without an event it is matched further all the same. */
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
