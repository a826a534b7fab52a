import { DAY_MS, HOUR_MS } from '../text/duration.ts';
import { MESSAGE_STATES, LIVE_STATES, type MessageState } from '../message/message-state.ts';

/** Groups by which usage is shown, in the order of an answer's fields. */
export const USAGE_GROUPS = ['day', 'hour', 'channel', 'provider', 'status', 'tag', 'key'] as const;
export type UsageGroup = (typeof USAGE_GROUPS)[number];

/** Groups by which the usage of all tenants is shown. */
export const PLATFORM_USAGE_GROUPS = ['tenant', 'day', 'channel', 'status'] as const;
export type PlatformUsageGroup = (typeof PLATFORM_USAGE_GROUPS)[number];

/** A state, or `in_progress` for the states in which a provider may still be called. */
export type UsageStatus = 'in_progress' | Exclude<MessageState, (typeof LIVE_STATES)[number]>;
export const USAGE_STATUSES: readonly UsageStatus[] = [
  'in_progress',
  ...MESSAGE_STATES.filter(
    (state): state is Exclude<UsageStatus, 'in_progress'> =>
      !(LIVE_STATES as readonly string[]).includes(state),
  ),
];

/** The stored dimensions of counts; see table `usage_counts`. */
export type UsageDimension = 'hour' | 'day' | 'key' | 'tag';

/** Collective name of a day's tags beyond `TAGS_PER_DAY`; a tag of that name is included. */
export const OTHER_TAG = 'other';
export const TAGS_PER_DAY = 100;

/** Maximum span of an answer, in days. */
export const USAGE_DAYS_MAX = { hour: 31, day: 400 } as const;
const DEFAULT_DAYS = { hour: 1, day: 30 } as const;
/** An answer can express years 1 to 9999. */
const EARLIEST = Date.parse('0001-01-01T00:00:00Z');
const LATEST = Date.parse('9999-12-31T00:00:00Z');

/** A combination of groups for which no counts are stored. */
export type RefusedGroups = { readonly refused: string };

const OFFERED =
  'Can be at most one of `day` and `hour` with any of `channel`, `provider` and `status`, or one of `tag` and `key` with any of `day` and `status`';

/** Returns the dimension of the counts that answer a query for these groups. */
export function usageDimensionOf(groups: ReadonlySet<UsageGroup>): UsageDimension | RefusedGroups {
  const narrow = groups.has('tag') ? 'tag' : groups.has('key') ? 'key' : undefined;
  if (narrow === undefined) {
    if (groups.has('day') && groups.has('hour')) return { refused: OFFERED };
    return groups.has('hour') ? 'hour' : 'day';
  }
  const others = [...groups].filter((group) => group !== narrow && group !== 'day' && group !== 'status');
  return others.length > 0 ? { refused: OFFERED } : narrow;
}

/** From `since` inclusive to `until` exclusive, in ms since the epoch. */
export type UsageSpan = { readonly since: number; readonly until: number };

/**
 * Returns the span of an answer: the whole days (UTC), or whole hours if hours are shown, that contain the requested span.
 * @param asked `until` defaults to now; `since` defaults to 30 days (with hours one day) before the end.
 */
export function usageSpanOf(
  asked: { readonly since?: number | undefined; readonly until?: number | undefined },
  dimension: UsageDimension,
  now: number,
): UsageSpan | { readonly field: 'since' | 'until'; readonly refused: string } {
  const kind = dimension === 'hour' ? 'hour' : 'day';
  const unit = kind === 'hour' ? HOUR_MS : DAY_MS;
  const end = asked.until ?? now;
  const start = asked.since ?? end - DEFAULT_DAYS[kind] * DAY_MS;
  if (start >= end) {
    return asked.until === undefined
      ? { field: 'since', refused: 'Must be earlier than now, the default of `until`' }
      : { field: 'until', refused: 'Must be later than `since`' };
  }
  const since = Math.max(Math.floor(start / unit) * unit, EARLIEST);
  const until = Math.ceil(end / unit) * unit;
  if (until > LATEST) return { field: 'until', refused: 'Must not be later than 9999-12-31T00:00:00Z' };
  const daysMax = USAGE_DAYS_MAX[kind];
  if (until - since > (daysMax + 1) * DAY_MS)
    return { field: 'since', refused: `Must be at most ${daysMax} days before \`until\`` };
  return { since, until };
}

/**
 * Returns the part of the messages with a final receipt that was delivered.
 * @returns null if no message has one.
 */
export function deliveryRateOf(counts: Partial<Readonly<Record<UsageStatus, number>>>): number | null {
  const { delivered = 0, undelivered = 0 } = counts;
  const told = delivered + undelivered;
  return told === 0 ? null : Math.round((delivered / told) * 10_000) / 10_000;
}
