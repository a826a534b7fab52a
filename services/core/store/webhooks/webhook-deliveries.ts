import type { EndpointHealth, EndpointStatus } from '#core/domain/webhooks/endpoint-state.ts';
import { isRowAtFault } from '#core/domain/storage/database-fault.ts';
import type { StoredEvent } from '#core/domain/webhooks/event-envelope.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import { asJson, type Json, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import { createBehindTenants } from './behind-tenants.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';
import { camelRows } from '../query/camel-rows.ts';
import { createDueEndpoints, type DueLook } from './due-endpoints.ts';
import { eventMatching } from './event-matching.ts';
import type { DeliveryClaim, WebhookEndpoint } from './delivery-claim.ts';
import { HISTORY_TYPES, messageSeqOf, toStoredEvents, type EventRow } from './feed.ts';
import { createMatchedPositions } from './matched-positions.ts';

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
  /** Without the events, so that results that wait to be recorded are small. */
  readonly claim: Omit<DeliveryClaim, 'events'>;
  /** Messages of its events. */
  readonly messages: readonly number[];
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

export type TenantsBehind = {
  readonly tenantIds: readonly string[];
  readonly newestPass: number | null;
  readonly isWhole: boolean;
};

export type DeliveryClaimTerms = {
  /** Where the previous call ended; null: start at the first endpoint. */
  readonly after: string | null;
  /** The most endpoints to look at. */
  readonly endpointsMax: number;
  readonly claimsMax: number;
  /** The most of these for one tenant. */
  readonly tenantClaimsMax: number;
  readonly busy: readonly string[];
  readonly leaseMs: number;
};

/**
 * Creates the worker's side of webhook endpoints. It remembers what its queries found, so that the next ones read less; forgetting
 * any of it, as at a restart, costs no more than another look.
 * @param bounded gives a query its deadline.
 */
export function webhookStore(sql: Sql, bounded: Bounded, loadIds: LoadIds) {
  const due = createDueEndpoints();
  const behind = createBehindTenants();
  const positions = createMatchedPositions();
  const { count, rowsOf } = boundedQueries(bounded);

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

  /**
   * Reads the events of claims, by due row. The rows of an endpoint whose events cannot be read are left out, with an error, and
   * keep back no other endpoint's.
   */
  async function readClaimed(claims: ClaimLook['claims']) {
    const failures: Error[] = [];
    const byEndpoint = [...Map.groupBy(claims, ({ endpoint_id: id }) => id)];
    const read = await bisectFaults(
      byEndpoint,
      async (some) => {
        const asked = some.flatMap(([, of]) => of);
        const rows = await bounded(
          sql`
            select due_id, blocked, (event).* from read_deliveries(${asJson(sql, asked)}, ${HISTORY_TYPES}::text[])`.values(),
        );
        const events = Map.groupBy(await toEvents(camelRows<DeliveryRow>(rows)), ({ row }) => row.dueId);
        return some.map(([, of]) => of.map(({ due_id: id }) => [id, events.get(id) ?? []] as const));
      },
      (some, error) => {
        if (!isRowAtFault(error)) throw error;
        for (const [id] of some)
          failures.push(new Error(`Events of endpoint ${id} cannot be read`, { cause: error }));
        return some.map(() => []);
      },
    );
    return { events: new Map(read.flat()), failures };
  }

  return {
    matchEvents: eventMatching({ sql, positions, rowsOf, toEvents, loadEndpoints }),

    /**
     * Returns tenants with endpoints that are matched less far than the tenant's feed goes: among the tenants to which numbering
     * passes after `afterPass` gave events, and among `among`.
     * @returns `newestPass`: where the next look begins; `isWhole`: false if only a look at all endpoints finds every such
     * tenant.
     */
    async tenantsBehind(afterPass: number | null, among: readonly string[]): Promise<TenantsBehind> {
      const [row] = await rowsOf<TenantsBehind>(
        sql`
          select tenant_ids, newest_pass, is_whole
          from tenants_behind(${afterPass}, ${[...among]}::uuid[])`,
      );
      if (row !== undefined) behind.found(row.tenantIds, { isComplete: row.isWhole });
      return row ?? { tenantIds: [], newestPass: null, isWhole: false };
    },

    /** Does the same for all endpoints, some per call; `next`: where the next call begins. */
    async endpointsBehind(
      after: string | null,
      most: number,
    ): Promise<{ readonly tenantIds: readonly string[]; readonly next: string | null }> {
      const [row] = await rowsOf<{ tenantIds: string[]; next: string | null }>(
        sql`
          select tenant_ids, next_id as next from endpoints_behind(${after}, ${most})`,
      );
      // The calls before have reported the tenants of the earlier pages.
      if (row !== undefined) behind.found(row.tenantIds, { isComplete: row.next === null });
      return row ?? { tenantIds: [], next: null };
    },

    /**
     * Claims due rows, of one endpoint after the other.
     * @returns `next`: null after the last endpoint; `failures`: an error for each endpoint whose events cannot be read. Its
     * rows are claimed again when their lease ends.
     */
    async claimDeliveries({
      after,
      endpointsMax,
      claimsMax,
      tenantClaimsMax,
      busy,
      leaseMs,
    }: DeliveryClaimTerms): Promise<{
      readonly claims: readonly DeliveryClaim[];
      readonly next: string | null;
      readonly failures: readonly Error[];
    }> {
      const leaseEndsAt = performance.now() + leaseMs;
      const askedAt = Date.now();
      const { since, known } = due.look(after, endpointsMax);
      const [look] = await rowsOf<ClaimLook>(
        sql`
          select claims, seen, earliest, next_id as next, looked_at from claim_deliveries(${after}, ${endpointsMax}, ${claimsMax},
            ${tenantClaimsMax}, ${[...busy]}::uuid[], ${leaseMs}, ${since}::text::timestamptz, ${asJson(sql, known)})`,
      );
      if (look === undefined) return { claims: [], next: null, failures: [] };
      due.looked(look);
      if (look.claims.length === 0) return { claims: [], next: look.next, failures: [] };
      const [endpoints, { events, failures }] = await Promise.all([
        loadEndpoints(look.claims.map(({ endpoint_id: id }) => id)),
        readClaimed(look.claims),
      ]);
      const claims = look.claims.flatMap(
        ({
          due_id: dueId,
          claim,
          endpoint_id,
          purge_on,
          attempts,
          manual,
          probe: isProbe,
          leased_until,
          waited_ms,
          paced: isPaced,
        }) => {
          const endpoint = endpoints.get(endpoint_id);
          const told = events.get(dueId);
          if (endpoint === undefined || told === undefined) return [];
          return {
            dueId,
            claim,
            endpoint,
            purgeOn: purge_on,
            attempts,
            manual,
            isProbe,
            probeUntil: isProbe ? new Date(leased_until) : null,
            waitsSince: askedAt - waited_ms,
            isPaced,
            events: told.map(({ row, event }) => ({ seq: row.seq, event, messageSeq: messageSeqOf(row) })),
            blocked: new Set(told.filter(({ row }) => row.blocked).map(({ row }) => row.messageSeq)),
            leaseEndsAt,
          };
        },
      );
      return { claims, next: look.next, failures };
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
     * @param decide returns undefined to leave the health as it is. `at`: Postgres's time, in milliseconds since the epoch; the
     * times of the health are compared with it by all workers.
     * @returns the health after the decision; undefined if the endpoint is deleted or changed.
     */
    changeEndpoint: (
      id: string,
      version: number,
      decide: (now: EndpointHealth, at: number) => EndpointHealth | undefined,
    ): Promise<EndpointHealth | undefined> =>
      bounded(
        sql.begin(async (tx: TransactionSql) => {
          const [row] = camelRows<EndpointHealth & { readonly at: Date }>(
            await tx`
              select status, status_reason, failures, failing_since, call_at, at
              from lock_endpoint_health(${id}, ${version})`.values(),
          );
          if (row === undefined) return undefined;
          const { at, ...now } = row;
          const next = decide(now, at.getTime());
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
      const taken = await rowsOf<{ id: string; endpointId: string }>(
        sql`select id, endpoint_id from take_endpoint_tests(${most})`,
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
      const asked = behind.all();
      const [row] = await rowsOf<{ seconds: number; tenantIds: string[] }>(
        sql`
          select seconds, tenant_ids from oldest_unmatched(${asked === undefined ? null : [...asked]}::uuid[])`,
      );
      if (asked !== undefined && row !== undefined) behind.left(asked, row.tenantIds);
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

type ClaimLook = DueLook & {
  readonly claims: readonly {
    readonly due_id: number;
    readonly claim: number;
    readonly endpoint_id: string;
    readonly purge_on: string;
    readonly attempts: number;
    readonly manual: boolean;
    readonly probe: boolean;
    readonly leased_until: string;
    readonly waited_ms: number;
    readonly paced: boolean;
  }[];
};

type DeliveryRow = EventRow & { readonly dueId: number; readonly blocked: boolean };

function toEndpoint({ keyId, keyCiphertext, ...endpoint }: EndpointRow): WebhookEndpoint {
  const signingKey =
    keyId === null || keyCiphertext === null ? null : { id: keyId, ciphertext: keyCiphertext };
  return { ...endpoint, signingKey };
}

function toCompletion({ claim, messages, attempts, again, uncalled }: DeliveryCompletion, now: number) {
  return {
    due_id: claim.dueId,
    claim: claim.claim,
    messages,
    attempts: attempts.map(({ durationMs, ...attempt }) => ({ ...attempt, duration_ms: durationMs })),
    again: again.map(({ seq, attempts: made, dueAt, messageSeq }) => ({
      seq,
      attempts: made,
      due_in_ms: dueAt === 'after_earlier' ? null : Math.max(0, dueAt.getTime() - now),
      message_seq: messageSeq,
    })),
    uncalled,
  };
}
