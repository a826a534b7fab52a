import { z } from 'zod';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { quantileOf } from '#core/domain/tenant/time-buckets.ts';
import { deliveryRateOf, USAGE_STATUSES, type UsageStatus } from '#core/domain/tenant/usage-query.ts';
import { toCsv, type CsvCell } from '../http/lists/csv.ts';
import { forEachPausing, type Pauses } from '../http/admission/pauses.ts';

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
      `Milliseconds ${what}, which half and 95 % of the messages did not exceed; accurate to within 10 %. Null if no message has this time; absent when grouped by \`status\`.`,
    );

/** Fields of a group of messages in every usage answer. */
export const usageFields = {
  messages: count,
  segments: count.describe('Number of `sms` segments; other messages have none.'),
  statuses: z
    .object(
      Object.fromEntries(USAGE_STATUSES.map((status) => [status, count])) as Record<
        UsageStatus,
        typeof count
      >,
    )
    .optional()
    .describe(
      'Number of messages in each current state. `in_progress`: `scheduled`, `queued`, `sending`, `deferred` and `held`. Absent when grouped by `status`.',
    ),
  deliveryRate: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .optional()
    .describe(
      'Share of messages with a final receipt that were delivered; null if none has one. Absent when grouped by `status`.',
    ),
  timeToProvider: times(
    'from acceptance, or from `sendAt` if that was later, until a provider accepted the message',
  ),
  timeToReceipt: times('from then on until the final receipt'),
};

/** Fields of usage items that say which group they are. */
export const usageGroupFields = {
  day: z.iso.date().optional().describe('Day of acceptance, in UTC.'),
  hour: z.iso.datetime().optional().describe('Start of the hour of acceptance.'),
  channel: z.enum(CHANNELS).optional(),
  status: Status.optional(),
};

export const usageStatusExample = Object.fromEntries(
  USAGE_STATUSES.map((status) => [
    status,
    { delivered: 1_180, undelivered: 20, sent: 36, in_progress: 4 }[status as string] ?? 0,
  ]),
) as Record<UsageStatus, number>;

/** A count or the times of one group, beside whatever names the group. */
export type CountRow = {
  readonly status: UsageStatus;
  readonly messages: number;
  readonly segments: number;
};
export type TimesRow = {
  readonly until: 'provider' | 'receipt';
  readonly counts: readonly number[];
};

export type UsageGrouping<Key, Group> = {
  /** Returns a text that is equal for the rows of one group and for no others. */
  readonly nameOf: (row: Key) => string;
  /** Returns the displayed fields of a row's group. */
  readonly shown: (row: Key) => Group;
  /** Makes each state of a group a separate item, without times. */
  readonly byStatus: boolean;
};

type Measures = {
  messages: number;
  segments: number;
  statuses: Record<UsageStatus, number>;
  times: Partial<Record<'provider' | 'receipt', readonly number[]>>;
};

/** Merges the counts and times of each group, in the order of the counts. Pauses between rows, because there may be tens of thousands. */
export async function usageItems<Key, Group extends object>(
  counts: readonly (Key & CountRow)[],
  times: readonly (Key & TimesRow)[],
  { nameOf, shown, byStatus }: UsageGrouping<Key, Group>,
  pause: Pauses,
): Promise<(Group & UsageItem)[]> {
  const groups = new Map<string, { readonly group: Group; readonly sum: Measures }>();
  const items: (Group & UsageItem)[] = [];
  await forEachPausing(counts, pause, (row) => {
    const name = nameOf(row);
    let found = groups.get(name);
    if (found === undefined) groups.set(name, (found = { group: shown(row), sum: noMessages() }));
    const { status, messages, segments } = row;
    if (byStatus) items.push({ ...found.group, status, messages, segments });
    found.sum.messages += messages;
    found.sum.segments += segments;
    found.sum.statuses[status] += messages;
  });
  if (byStatus) return items;
  await forEachPausing(times, pause, (row) => {
    const found = groups.get(nameOf(row));
    if (found !== undefined) found.sum.times[row.until] = row.counts;
  });
  await forEachPausing(groups.values(), pause, ({ group, sum }) => void items.push(itemOf(group, sum)));
  return items;
}

function itemOf<Group extends object>(group: Group, { times, ...sum }: Measures): Group & UsageItem {
  return {
    ...group,
    ...sum,
    deliveryRate: deliveryRateOf(sum.statuses),
    timeToProvider: quantilesOf(times.provider),
    timeToReceipt: quantilesOf(times.receipt),
  };
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
 * Formats the items as text/csv with a header row, with pauses between items.
 * @param columns field names of the group columns.
 */
export async function usageCsv(
  columns: readonly string[],
  items: readonly UsageItem[],
  byStatus: boolean,
  pause: Pauses,
): Promise<string> {
  const states = byStatus ? [] : USAGE_STATUSES;
  const times = byStatus
    ? []
    : ['deliveryRate', 'timeToProviderP50', 'timeToProviderP95', 'timeToReceiptP50', 'timeToReceiptP95'];
  const lines = [toCsv([[...columns, 'messages', 'segments', ...states, ...times]])];
  await forEachPausing(items, pause, (item) => void lines.push(toCsv([cellsOf(item, columns, byStatus)])));
  return lines.join('');
}

function cellsOf(item: UsageItem, columns: readonly string[], byStatus: boolean): CsvCell[] {
  const group = columns.map((column) => item[column] as CsvCell);
  if (byStatus) return [...group, item.messages, item.segments];
  return [
    ...group,
    item.messages,
    item.segments,
    ...USAGE_STATUSES.map((status) => item.statuses?.[status]),
    item.deliveryRate,
    item.timeToProvider?.p50,
    item.timeToProvider?.p95,
    item.timeToReceipt?.p50,
    item.timeToReceipt?.p95,
  ];
}
