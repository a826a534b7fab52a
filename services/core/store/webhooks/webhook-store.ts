import type { EndpointHealth, EndpointStatus } from '#core/domain/webhooks/endpoint-state.ts';
import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';
import { asJson, type Json, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { createBehindTenants } from './behind-tenants.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';
import { camelRows } from '../query/camel-rows.ts';
import type { WebhookEndpoint } from './delivery-claim.ts';
import { deliveryClaiming } from './delivery-claiming.ts';
import { completionRow, type DeliveryCompletion } from './delivery-completion.ts';
import { createDueEndpoints } from './due-endpoints.ts';
import { eventMatching } from './event-matching.ts';
import { toStoredEvents, type EventRow } from './feed.ts';
import { createMatchedPositions } from './matched-positions.ts';

export type TenantsBehind = {
  readonly tenantIds: readonly string[];
  readonly newestPass: number | null;
  readonly isWhole: boolean;
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

  return {
    matchEvents: eventMatching({ sql, positions, rowsOf, toEvents, loadEndpoints }),
    claimDeliveries: deliveryClaiming({ sql, bounded, due, rowsOf, toEvents, loadEndpoints }),

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
     * Stores the results of claims. `stale`: the number of claims that belonged to another worker by then; nothing of them is
     * stored.
     */
    async completeDeliveries(
      completions: readonly DeliveryCompletion[],
    ): Promise<{ readonly stale: number }> {
      const now = Date.now();
      const rows = completions.map((one) => completionRow(one, now));
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

function toEndpoint({ keyId, keyCiphertext, ...endpoint }: EndpointRow): WebhookEndpoint {
  const signingKey =
    keyId === null || keyCiphertext === null ? null : { id: keyId, ciphertext: keyCiphertext };
  return { ...endpoint, signingKey };
}
