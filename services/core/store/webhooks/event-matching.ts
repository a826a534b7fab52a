import { appendMatches, type AppendMatchesDeps, type AppendTerms } from './append-matches.ts';
import type { DeliveryClaim } from './delivery-claim.ts';
import { matchStatements } from './match-statements.ts';
import { matchTenant, type MatchedEndpoint, type MatchTenantTerms } from './match-tenant.ts';
import type { MatchedPositions } from './matched-positions.ts';
import { readFeeds, type ReadFeedsDeps } from './read-feeds.ts';
import { stillBehind } from './still-behind.ts';

export type EventMatchingDeps = ReadFeedsDeps & AppendMatchesDeps & { readonly positions: MatchedPositions };

export type MatchTerms = AppendTerms & Pick<MatchTenantTerms, 'match' | 'busy'>;

export type Matched = {
  readonly claims: readonly DeliveryClaim[];
  /** Whether due rows were inserted that no worker has claimed. */
  readonly isLeftDue: boolean;
  /** Tenants with events that are not matched yet. */
  readonly behind: readonly string[];
  /**
   * Tenants with an endpoint that another worker has locked or has just matched, or that has just changed; they are matched again
   * in a moment.
   */
  readonly missed: readonly string[];
  /** One error for each tenant that could not be matched. A later look finds these tenants as ones that are behind. */
  readonly failures: readonly Error[];
};

/**
 * Creates the matching of tenants' events with their endpoints: it reads the next events of these tenants, and inserts due rows for
 * the events that `match` accepts. How far feeds are matched where no event passed, it notes in `positions`.
 */
export function eventMatching(deps: EventMatchingDeps) {
  const { sql, positions, rowsOf } = deps;

  return async (tenantIds: readonly string[], terms: MatchTerms): Promise<Matched> => {
    const endpoints = await rowsOf<MatchedEndpoint>(
      sql`select * from endpoints_to_match(${[...tenantIds]}::uuid[])`,
    );
    const tenants = [...Map.groupBy(endpoints, ({ tenantId }) => tenantId)].map(([id, theirs]) => ({
      id,
      endpoints: theirs,
    }));
    if (tenants.length === 0) return { claims: [], isLeftDue: false, behind: [], missed: [], failures: [] };
    const read = await readFeeds(deps, tenants);
    const matched = tenants.flatMap((tenant) => {
      const stretch = read.stretches.get(tenant.id);
      if (stretch === undefined) return [];
      const { requests, isCut } = matchTenant(tenant, stretch, { ...terms, reachedOf: positions.of });
      return [{ id: tenant.id, requests, isUnread: stretch.isCut, isCut }];
    });
    const requests = matched
      .flatMap((tenant) => tenant.requests)
      .filter(({ endpoint, upto, passed }) => passed.length > 0 || positions.note(endpoint, upto));
    const appended = await appendMatches(deps, matchStatements(requests), terms);
    const idsOf = (some: typeof matched): Set<string> => new Set(some.map(({ id }) => id));
    const left = {
      unread: idsOf(matched.filter(({ isUnread }) => isUnread)),
      cut: idsOf(matched.filter(({ isCut }) => isCut)),
    };
    return {
      claims: appended.flatMap(({ claims }) => claims),
      isLeftDue: appended.some(({ isLeftDue }) => isLeftDue),
      behind: stillBehind(left, appended),
      missed: [...new Set(appended.flatMap(({ missed }) => missed))],
      failures: [
        ...(read.failure === undefined
          ? []
          : [new Error('Events of several tenants were not read together', read.failure)]),
        ...[read.unread, ...appended.map(({ failed }) => failed)].flatMap((failed) =>
          [...failed].map(notMatched),
        ),
      ],
    };
  };
}

const notMatched = ([tenantId, cause]: readonly [string, unknown]): Error =>
  new Error(`Events of tenant ${tenantId} are not matched`, { cause });
