import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';
import type { boundedQueries } from '../query/bounded-queries.ts';
import type { DeliveryClaim, WebhookEndpoint } from './delivery-claim.ts';
import { messageSeqOf } from './feed.ts';
import type { AppendRequest } from './match-tenant.ts';
import type { MatchedPositions } from './matched-positions.ts';

export type AppendMatchesDeps = Pick<ReturnType<typeof boundedQueries>, 'rowsOf'> & {
  readonly sql: Sql;
  readonly positions: Pick<MatchedPositions, 'forget'>;
  readonly loadEndpoints: (ids: readonly string[]) => Promise<ReadonlyMap<string, WebhookEndpoint>>;
};

export type AppendTerms = {
  /** The most due rows for which the caller has room; they are claimed as they are inserted. */
  readonly claimsMax: number;
  /** The most of these for one tenant. */
  readonly tenantClaimsMax: number;
  readonly leaseMs: number;
};

/** What came of one statement. */
export type Appended = {
  readonly claims: readonly DeliveryClaim[];
  /** Whether due rows were inserted that no worker has claimed. */
  readonly isLeftDue: boolean;
  /** Tenants with matches that were stored. */
  readonly advanced: readonly string[];
  /** Tenants with an endpoint that another worker has locked or has just matched, or that has just changed. */
  readonly missed: readonly string[];
  /** Why matches of tenants could not be stored, by tenant. */
  readonly failed: ReadonlyMap<string, unknown>;
};

type StretchRow = {
  readonly endpointId: string;
  readonly dueId: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly purgeOn: string;
  readonly claim: number;
};

/**
 * Appends the matches to the endpoints' feeds, one statement after the other. A row of one tenant that the database refuses does
 * not keep back the other tenants' rows.
 */
export async function appendMatches(
  deps: AppendMatchesDeps,
  statements: readonly (readonly AppendRequest[])[],
  terms: AppendTerms,
): Promise<readonly Appended[]> {
  const done: Appended[] = [];
  for (const requests of statements) {
    const claimed = done.reduce((sum, { claims }) => sum + claims.length, 0);
    const left = { ...terms, claimsMax: terms.claimsMax - claimed };
    try {
      done.push(await append(deps, requests, left));
    } catch (error) {
      const theirs = Map.groupBy(requests, ({ endpoint }) => endpoint.tenantId);
      if (theirs.size > 1 && databaseFaultOf(error) === 'row')
        done.push(...(await appendMatches(deps, [...theirs.values()], left)));
      else done.push(nothing(new Map([...theirs.keys()].map((tenantId) => [tenantId, error]))));
    }
  }
  return done;
}

const nothing = (failed: Appended['failed']): Appended => ({
  claims: [],
  isLeftDue: false,
  advanced: [],
  missed: [],
  failed,
});

async function append(
  { sql, positions, rowsOf, loadEndpoints }: AppendMatchesDeps,
  requests: readonly AppendRequest[],
  { claimsMax, tenantClaimsMax, leaseMs }: AppendTerms,
): Promise<Appended> {
  const leaseEndsAt = performance.now() + leaseMs;
  const rows = await rowsOf<StretchRow>(
    sql`select * from append_matches(${asJson(sql, requests.map(toMatch))}, ${claimsMax}, ${tenantClaimsMax}, ${leaseMs})`,
  );
  const stretches = rows.filter(({ dueId }) => dueId !== null);
  const claimed = stretches.filter(({ claim }) => claim !== null);
  const appended = new Set(rows.map(({ endpointId }) => endpointId));
  for (const id of appended) positions.forget(id);
  const tenantsOf = (some: readonly AppendRequest[]): string[] =>
    some.map(({ endpoint }) => endpoint.tenantId);
  const endpoints = await loadEndpoints(claimed.map(({ endpointId }) => endpointId));
  return {
    claims: claimed.flatMap((row) => {
      const endpoint = endpoints.get(row.endpointId);
      const ask = requests.find((one) => one.endpoint.id === row.endpointId);
      return endpoint === undefined || ask === undefined ? [] : [toClaim(row, ask, endpoint, leaseEndsAt)];
    }),
    isLeftDue: claimed.length < stretches.length,
    advanced: tenantsOf(requests.filter(({ endpoint }) => appended.has(endpoint.id))),
    missed: tenantsOf(requests.filter(({ endpoint }) => !appended.has(endpoint.id))),
    failed: new Map(),
  };
}

function toClaim(
  { dueId, claim, firstSeq, lastSeq, purgeOn }: StretchRow,
  { passed }: AppendRequest,
  endpoint: WebhookEndpoint,
  leaseEndsAt: number,
): DeliveryClaim {
  // Only an endpoint's first stretch is claimed.
  const events = passed.slice(0, lastSeq - firstSeq + 1).map(({ row, event }, nth) => ({
    seq: firstSeq + nth,
    event: { ...event, seq: firstSeq + nth },
    messageSeq: messageSeqOf(row),
  }));
  // A matched endpoint is only claimed if it has no pace of its own.
  const none = {
    attempts: 0,
    manual: false,
    isProbe: false,
    probeUntil: null,
    isPaced: false,
    blocked: new Set<number>(),
  };
  const waitsSince = Math.min(Date.now(), ...events.slice(0, 1).map(({ event }) => event.at.getTime()));
  return { ...none, dueId, claim, endpoint, purgeOn, events, waitsSince, leaseEndsAt };
}

const toMatch = ({ endpoint, upto, passed, isClaimable }: AppendRequest) => ({
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
