import type { Appended } from './append-matches.ts';

/** Tenants whose turn left something to match. */
export type Left = {
  /** Their feed may have more events than were read. */
  readonly unread: ReadonlySet<string>;
  /** Endpoints of theirs were left for their next turn. */
  readonly cut: ReadonlySet<string>;
};

/**
 * Returns the tenants that are to be matched again at once. If another worker has an endpoint of a tenant locked, that would be in
 * vain, unless other endpoints are left and this turn made progress. Tenants whose matches could not be stored are not among them.
 */
export function stillBehind({ unread, cut }: Left, appended: readonly Appended[]): readonly string[] {
  const advanced = new Set(appended.flatMap((one) => one.advanced));
  const missed = new Set(appended.flatMap((one) => one.missed));
  const failed = new Set(appended.flatMap((one) => [...one.failed.keys()]));
  const isInVain = (id: string): boolean => missed.has(id) && !(cut.has(id) && advanced.has(id));
  return [...new Set([...unread, ...cut])].filter((id) => !failed.has(id) && !isInVain(id));
}
