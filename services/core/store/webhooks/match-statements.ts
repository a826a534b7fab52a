import type { AppendRequest } from './match-tenant.ts';

/** Matched events of one statement, if it has those of several tenants. */
export const APPENDED_MAX = 2_000;

/** Splits requests into those of one statement each. A tenant's are in one, so that its part of the claims holds. */
export function matchStatements(requests: readonly AppendRequest[]): readonly (readonly AppendRequest[])[] {
  const statements: AppendRequest[][] = [];
  let matches = Number.POSITIVE_INFINITY;
  for (const theirs of Map.groupBy(requests, ({ endpoint }) => endpoint.tenantId).values()) {
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
