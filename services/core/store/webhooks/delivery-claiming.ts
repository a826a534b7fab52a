import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import { isRowAtFault } from '#core/domain/storage/database-fault.ts';
import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';
import type { Bounded, boundedQueries } from '../query/bounded-queries.ts';
import { camelRows } from '../query/camel-rows.ts';
import type { DeliveryClaim, WebhookEndpoint } from './delivery-claim.ts';
import type { DueEndpoints, DueLook } from './due-endpoints.ts';
import { HISTORY_TYPES, messageSeqOf, type EventRow } from './feed.ts';
import type { FeedEvent } from './match-tenant.ts';

export type DeliveryClaimingDeps = Pick<ReturnType<typeof boundedQueries>, 'rowsOf'> & {
  readonly sql: Sql;
  readonly bounded: Bounded;
  readonly due: DueEndpoints;
  readonly toEvents: <Row extends EventRow>(rows: readonly Row[]) => Promise<readonly FeedEvent<Row>[]>;
  readonly loadEndpoints: (ids: readonly string[]) => Promise<ReadonlyMap<string, WebhookEndpoint>>;
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

export type ClaimedDeliveries = {
  readonly claims: readonly DeliveryClaim[];
  /** Null after the last endpoint. */
  readonly next: string | null;
  /** An error for each endpoint whose events cannot be read. Its rows are claimed again when their lease ends. */
  readonly failures: readonly Error[];
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

/** Creates the claiming of due rows, of one endpoint after the other. */
export function deliveryClaiming(deps: DeliveryClaimingDeps) {
  const { sql, bounded, due, rowsOf, toEvents, loadEndpoints } = deps;

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

  return async ({
    after,
    endpointsMax,
    claimsMax,
    tenantClaimsMax,
    busy,
    leaseMs,
  }: DeliveryClaimTerms): Promise<ClaimedDeliveries> => {
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
  };
}
