import { z } from 'zod';
import { validationFailed } from '#core/domain/fault/app-error.ts';
import {
  PLATFORM_USAGE_GROUPS,
  usageSpanOf,
  type PlatformUsageGroup,
} from '#core/domain/tenant/usage-query.ts';
import { readPlatformUsage, type PlatformUsageKey } from '#core/store/tenants/platform-usage.ts';
import { assertPlatformAdmin } from '../auth/assert-role.ts';
import type { AdminDeps } from './admin-deps.ts';
import { usageCsv, usageFields, usageGroupFields, usageItems, usageStatusExample } from './usage-items.ts';
import {
  askedSpan,
  asksForCsv,
  groupByField,
  groupsOf,
  shownPeriod,
  spanShown,
  tooManyItems,
  USAGE_ITEMS_MAX,
  USAGE_ROWS_MAX,
  usageQuery,
} from './usage-request.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import { pageQuery } from '../http/lists/page.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { inSlot } from '../http/admission/shared-slots.ts';

const { hour: _, ...groupFields } = usageGroupFields;

const PlatformUsage = z
  .object({
    since: z.iso.datetime().describe('Start of the counted period, which ends at `until`.'),
    until: z.iso.datetime(),
    groupBy: z.array(z.enum(PLATFORM_USAGE_GROUPS)),
    items: z
      .array(
        z
          .object({
            tenantId: z.uuid().optional(),
            tenantSlug: z.string().optional(),
            ...groupFields,
            ...usageFields,
          })
          .meta({
            id: 'PlatformUsageItem',
            description: 'The messages of one group, of one tenant or of all.',
          }),
      )
      .max(USAGE_ITEMS_MAX),
    nextCursor: z
      .string()
      .nullable()
      .describe('With `limit`: `cursor` of the next tenants; null if none follow, and without `limit`.'),
    ...warningsField,
  })
  .meta({
    id: 'PlatformUsage',
    description: 'How many messages tenants sent in a period, and their states.',
    examples: [
      {
        since: '2026-01-15T00:00:00.000Z',
        until: '2026-01-16T00:00:00.000Z',
        groupBy: ['tenant'],
        items: [
          {
            tenantId: '1c9e4b2a-6d5f-4e3c-8b7a-9f0e1d2c3b4a',
            tenantSlug: 'acme',
            messages: 1_240,
            segments: 1_302,
            statuses: usageStatusExample,
            deliveryRate: 0.9833,
            timeToProvider: { p50: 44, p95: 91 },
            timeToReceipt: { p50: 2_048, p95: 9_742 },
          },
        ],
        nextCursor: null,
      },
    ],
  });

/** Tenants of a page: with each day of a month they fill an answer. */
const TENANTS_MAX = 1_000;

/** In whose name slots and turns of the event loop are taken. */
const OWNER = 'platform usage';

export function platformUsageRoute({
  sql,
  slots,
  pauses,
  cursors,
}: Pick<AdminDeps, 'sql' | 'slots' | 'pauses' | 'cursors'>): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/platform/usage',
    operation: 'getPlatformUsage',
    summary: 'Count the messages of all tenants',
    description:
      'For platform admins: the counts of `GET /v1/admin/usage`, for all tenants. By any of `tenant`, `day`, `channel` and `status`; without `groupBy` everything is one item. At most 10,000 items: with many tenants ask for one of them (`tenant`), or by `tenant` for some at a time (`limit`); CSV has the address of the next ones in the header `Link`. Messages of a deleted tenant are no longer counted.',
    tag: 'Usage',
    auth: { kind: 'user' },
    query: z.object({
      ...usageQuery,
      groupBy: groupByField(PLATFORM_USAGE_GROUPS, 'tenant,channel'),
      tenant: z.string().min(1).max(63).optional().describe('Slug of the only tenant to count.'),
      limit: z
        .int()
        .min(1)
        .max(TENANTS_MAX)
        .optional()
        .describe(
          'Number of tenants to count, in the order of their slugs; only by `tenant`. Those without messages in the period are left out.',
        ),
      cursor: pageQuery.cursor.describe('`nextCursor` of the previous tenants; only with `limit`.'),
    }),
    response: PlatformUsage,
    csv: true,
    errors: ['insufficient_role', 'invalid_cursor'],
    handler: async ({ caller, query, request, gone }) => {
      const { since, until, groupBy, format, tenant, limit, cursor } = query;
      assertPlatformAdmin(caller);
      const groups = groupsOf<PlatformUsageGroup>(groupBy);
      const span = usageSpanOf(askedSpan(since, until), 'day', Date.now());
      if ('refused' in span)
        throw validationFailed({ field: span.field, rule: 'range', message: span.refused });
      if (limit !== undefined && !groups.has('tenant'))
        throw validationFailed({ field: 'limit', rule: 'combination', message: 'Needs `groupBy=tenant`' });
      if (cursor !== undefined && limit === undefined)
        throw validationFailed({ field: 'cursor', rule: 'combination', message: 'Needs `limit`' });
      // Without the span: its end may be the present.
      const list = { list: 'platform usage', tenant, groupBy };
      const after = cursors.position<string>(list, cursor);
      const page = limit === undefined ? undefined : { tenants: limit, after };
      const load = () => readPlatformUsage(sql, { span, groups, tenant, page, most: USAGE_ROWS_MAX + 1 });
      const { rows, next } = await inSlot(slots, OWNER, load, gone());
      const counts = rows.flatMap((row) => (row.counts === null ? [{ ...row, status: row.what }] : []));
      if (counts.length > USAGE_ROWS_MAX) throw tooManyItems();
      const times = rows.flatMap((row) =>
        row.counts === null ? [] : [{ ...row, until: row.what, counts: row.counts }],
      );
      const byStatus = groups.has('status');
      const pause = pauses.of(OWNER);
      const items = await usageItems(counts, times, { nameOf, shown, byStatus }, pause);
      if (items.length > USAGE_ITEMS_MAX) throw tooManyItems();
      const columns = [...groups].flatMap((group) =>
        group === 'tenant' ? ['tenantId', 'tenantSlug'] : [group],
      );
      const nextCursor = cursors.next(list, next);
      const body = { ...spanShown(span), groupBy: [...groups], items, nextCursor };
      if (!asksForCsv(format, request)) return { body };
      const csv = await usageCsv(columns, items, byStatus, pause);
      if (nextCursor === null) return { body, csv };
      return { body, csv, headers: { link: nextLink({ ...query, format: 'csv', cursor: nextCursor }) } };
    },
  });
}

/** Returns the header that leads to the next page (RFC 8288), relative to the request's address. */
function nextLink(query: Readonly<Record<string, string | string[] | number | undefined>>): string {
  const given = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  return `<?${new URLSearchParams(given).toString()}>; rel="next"`;
}

function nameOf({ tenantId, period, channel }: PlatformUsageKey): string {
  return `${tenantId} ${period?.getTime()} ${channel}`;
}

function shown({ tenantId, slug, period, channel }: PlatformUsageKey) {
  return {
    ...(tenantId === null || slug === null ? {} : { tenantId, tenantSlug: slug }),
    ...(period === null ? {} : shownPeriod(period, 'day')),
    ...(channel === null ? {} : { channel }),
  };
}
