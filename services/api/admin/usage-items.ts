import { z } from 'zod';
import { CHANNELS } from '#core/domain/channel.ts';
import { quantileOf } from '#core/domain/time-buckets.ts';
import { deliveryRateOf, USAGE_STATUSES, type UsageStatus } from '#core/domain/usage-query.ts';
import type { CsvCell } from '../http/csv.ts';

/** Larger than any real count, and still an exact number. */
const COUNT_MAX = 1e15;
const count = z.int().min(0).max(COUNT_MAX);
const Status = z.enum(USAGE_STATUSES as [UsageStatus, ...UsageStatus[]]);
const times = (what: string) =>
  z
    .object({ p50: count, p95: count })
    .nullable()
    .optional()
    .describe(
      `Milliseconds ${what}, which half and 95 % of the messages did not exceed; right to within 10 %. Null where none has, absent by \`status\`.`,
    );

/** Fields of a group of messages in every usage answer. */
export const usageFields = {
  messages: count,
  segments: count.describe('Of `sms`; other messages have none.'),
  statuses: z
    .object(
      Object.fromEntries(USAGE_STATUSES.map((status) => [status, count])) as Record<
        UsageStatus,
        typeof count
      >,
    )
    .optional()
    .describe(
      'How many of them have come to which state by now. `in_progress`: `scheduled`, `queued`, `sending`, `deferred` and `held`. Absent by `status`.',
    ),
  deliveryRate: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .optional()
    .describe(
      'The delivered part of those whose receipt said what became of them; null where none has. Absent by `status`.',
    ),
  timeToProvider: times('from the acceptance until a provider had taken it'),
  timeToReceipt: times('from then on until a receipt said what became of it'),
};

/** Fields of usage items that say which group they are. */
export const usageGroupFields = {
  day: z.iso.date().optional().describe('Of the acceptance, in UTC.'),
  hour: z.iso.datetime().optional().describe('When the hour of the acceptance begins.'),
  channel: z.enum(CHANNELS).optional(),
  status: Status.optional(),
};

export const usageStatusExample = Object.fromEntries(
  USAGE_STATUSES.map((status) => [
    status,
    { delivered: 1_180, undelivered: 20, sent: 36, in_progress: 4 }[status as string] ?? 0,
  ]),
) as Record<UsageStatus, number>;

/** A count or the times of one group; `group` holds its displayed fields, which are equal within a group. */
export type GroupedCount<Group> = {
  readonly group: Group;
  readonly status: UsageStatus;
  readonly messages: number;
  readonly segments: number;
};
export type GroupedTimes<Group> = {
  readonly group: Group;
  readonly until: 'provider' | 'receipt';
  readonly counts: readonly number[];
};

type Measures = {
  messages: number;
  segments: number;
  statuses: Record<UsageStatus, number>;
  times: Partial<Record<'provider' | 'receipt', readonly number[]>>;
};

/**
 * Merges the counts and times of each group, in the order of the counts.
 * @param byStatus makes each state of a group a separate item, without times.
 */
export function usageItems<Group extends object>(
  counts: readonly GroupedCount<Group>[],
  times: readonly GroupedTimes<Group>[],
  byStatus: boolean,
) {
  if (byStatus)
    return counts.map(({ group, status, messages, segments }) => ({ ...group, status, messages, segments }));
  const groups = new Map<string, { readonly group: Group; readonly sum: Measures }>();
  for (const { group, status, messages, segments } of counts) {
    const name = JSON.stringify(group);
    const found = groups.get(name) ?? { group, sum: noMessages() };
    groups.set(name, found);
    found.sum.messages += messages;
    found.sum.segments += segments;
    found.sum.statuses[status] += messages;
  }
  for (const { group, until, counts: buckets } of times) {
    const found = groups.get(JSON.stringify(group));
    if (found !== undefined) found.sum.times[until] = buckets;
  }
  return [...groups.values()].map(({ group, sum: { times: found, ...sum } }) => ({
    ...group,
    ...sum,
    deliveryRate: deliveryRateOf(sum.statuses),
    timeToProvider: quantilesOf(found.provider),
    timeToReceipt: quantilesOf(found.receipt),
  }));
}

function noMessages(): Measures {
  const statuses = Object.fromEntries(USAGE_STATUSES.map((status) => [status, 0]));
  return { messages: 0, segments: 0, statuses: statuses as Record<UsageStatus, number>, times: {} };
}

function quantilesOf(counts: readonly number[] = []) {
  const [p50, p95] = [quantileOf(counts, 0.5), quantileOf(counts, 0.95)];
  return p50 === null || p95 === null ? null : { p50, p95 };
}

/** An item as it is returned, for any grouping. */
export type UsageItem = Readonly<Record<string, unknown>> & {
  readonly messages: number;
  readonly segments: number;
  readonly statuses?: Readonly<Record<UsageStatus, number>>;
  readonly deliveryRate?: number | null;
  readonly timeToProvider?: { readonly p50: number; readonly p95: number } | null;
  readonly timeToReceipt?: { readonly p50: number; readonly p95: number } | null;
};

/**
 * Formats the items as a table with a header row.
 * @param columns field names of the group columns.
 */
export function usageTable(
  columns: readonly string[],
  items: readonly UsageItem[],
  byStatus: boolean,
): CsvCell[][] {
  const states = byStatus ? [] : USAGE_STATUSES;
  const times = byStatus
    ? []
    : ['deliveryRate', 'timeToProviderP50', 'timeToProviderP95', 'timeToReceiptP50', 'timeToReceiptP95'];
  return [
    [...columns, 'messages', 'segments', ...states, ...times],
    ...items.map((item) => [
      ...columns.map((column) => item[column] as CsvCell),
      item.messages,
      item.segments,
      ...states.map((status) => item.statuses?.[status]),
      ...(byStatus
        ? []
        : [
            item.deliveryRate,
            item.timeToProvider?.p50,
            item.timeToProvider?.p95,
            item.timeToReceipt?.p50,
            item.timeToReceipt?.p95,
          ]),
    ]),
  ];
}
