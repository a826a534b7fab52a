import { z } from 'zod';
import { validationFailed } from '#core/domain/fault/app-error.ts';
import { USAGE_DAYS_MAX, USAGE_STATUSES } from '#core/domain/tenant/usage-query.ts';
import { prefersCsv } from '../http/lists/prefers-csv.ts';
import type { RequestFacts } from '../http/routes/route.ts';
import { timeField } from '../http/input/time-field.ts';

export const USAGE_ITEMS_MAX = 10_000;
/** An item has one row for each state in which it has messages. */
export const USAGE_ROWS_MAX = USAGE_STATUSES.length * USAGE_ITEMS_MAX;

/** The query parameters of both usage routes. */
export const usageQuery = {
  since: timeField()
    .optional()
    .describe(
      `Messages accepted at or after this time; the day (UTC) that contains it counts as a whole, when grouped by \`hour\` the hour. Defaults to 30 days before the end, when grouped by \`hour\` to one day. At most ${USAGE_DAYS_MAX.day} days, when grouped by \`hour\` ${USAGE_DAYS_MAX.hour}.`,
    ),
  until: timeField()
    .optional()
    .describe(
      'Messages accepted before this time; the day or hour that contains it counts as a whole. Defaults to now.',
    ),
  format: z
    .enum(['json', 'csv'])
    .optional()
    .describe('`csv`: the items as `text/csv`, with a header row. Overrides the header `Accept`.'),
};

export function asksForCsv(format: 'json' | 'csv' | undefined, { accept }: RequestFacts): boolean {
  return format === undefined ? prefersCsv(accept, 'application/json') : format === 'csv';
}

export const tooManyItems = () =>
  validationFailed({
    field: 'groupBy',
    rule: 'max',
    message: `Would have more than ${USAGE_ITEMS_MAX} items: ask for a shorter time or fewer groups`,
  });

/** Returns the field `groupBy`. @param example some of the groups, for the document. */
export function groupByField(groups: readonly string[], example: string) {
  const names = groups.join('|');
  return z
    .string()
    .regex(
      new RegExp(`^(?:${names})(?:,(?:${names}))*$`),
      `Must be some of ${groups.join(', ')}, with commas between them`,
    )
    .max(200)
    .optional()
    .describe(`Groups to count by, such as \`${example}\`.`);
}

/** Returns each group once, in the order in which the caller named them. */
export function groupsOf<Group extends string>(groupBy: string | undefined): ReadonlySet<Group> {
  return new Set((groupBy?.split(',') ?? []) as Group[]);
}

export function askedSpan(since: string | undefined, until: string | undefined) {
  return {
    since: since === undefined ? undefined : Date.parse(since),
    until: until === undefined ? undefined : Date.parse(until),
  };
}

export function spanShown(span: { readonly since: number; readonly until: number }) {
  return { since: new Date(span.since).toISOString(), until: new Date(span.until).toISOString() };
}

export function shownPeriod(period: Date, unit: 'hour' | 'day') {
  const time = period.toISOString();
  return unit === 'hour' ? { hour: time } : { day: time.slice(0, 10) };
}
