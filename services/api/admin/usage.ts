import { z } from 'zod';
import { validationFailed } from '#core/domain/fault/app-error.ts';
import {
  OTHER_TAG,
  TAGS_PER_DAY,
  USAGE_GROUPS,
  usageDimensionOf,
  usageSpanOf,
  type UsageGroup,
} from '#core/domain/tenant/usage-query.ts';
import { readUsage, usageAccounts, type UsageKey } from '#core/store/tenants/usage.ts';
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
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';

const Usage = z
  .object({
    since: z.iso.datetime().describe('Start of the counted period, which ends at `until`.'),
    until: z.iso.datetime(),
    groupBy: z.array(z.enum(USAGE_GROUPS)),
    items: z
      .array(
        z
          .object({
            ...usageGroupFields,
            providerId: z
              .uuid()
              .nullable()
              .optional()
              .describe(
                'The account that sent the message; null while it is in progress, and if it was never sent.',
              ),
            provider: z.string().nullable().optional(),
            providerLabel: z.string().nullable().optional(),
            tag: z
              .string()
              .optional()
              .describe(`\`${OTHER_TAG}\`: all tags beyond the first ${TAGS_PER_DAY} of a day, together.`),
            keyId: z
              .uuid()
              .nullable()
              .optional()
              .describe('The key that sent the messages; null for messages that people sent.'),
            ...usageFields,
          })
          .meta({ id: 'UsageItem', description: 'The messages of one group.' }),
      )
      .max(USAGE_ITEMS_MAX),
    ...warningsField,
  })
  .meta({
    id: 'Usage',
    description: 'How many messages were accepted in a period, and their states.',
    examples: [
      {
        since: '2026-01-15T00:00:00.000Z',
        until: '2026-01-16T00:00:00.000Z',
        groupBy: ['day', 'channel'],
        items: [
          {
            day: '2026-01-15',
            channel: 'sms',
            messages: 1_240,
            segments: 1_302,
            statuses: usageStatusExample,
            deliveryRate: 0.9833,
            timeToProvider: { p50: 44, p95: 91 },
            timeToReceipt: { p50: 2_048, p95: 9_742 },
          },
        ],
      },
    ],
  });

const DESCRIPTION = `Every live message counts once, in the hour and the day (UTC) of its acceptance, with its current state; grouped by \`tag\`, a message counts once for each of its tags, and messages without tags do not count. Test messages never count. The counts are exact and up to half a minute late; they are kept for 13 months, longer than the messages.

\`groupBy\` accepts at most one of \`day\` and \`hour\` with any of \`channel\`, \`provider\` and \`status\`, or one of \`tag\` and \`key\` with any of \`day\` and \`status\`. Without it all messages are one item. At most 10,000 items.`;

export function usageRoute({ read, pauses }: Pick<AdminDeps, 'read' | 'pauses'>): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/usage',
    operation: 'getUsage',
    summary: 'Count messages by state',
    description: DESCRIPTION,
    tag: 'Usage',
    auth: { kind: 'bearer', role: 'viewer' },
    query: z.object({
      ...usageQuery,
      groupBy: groupByField(USAGE_GROUPS, 'day,channel'),
    }),
    response: Usage,
    csv: true,
    handler: async ({ caller: { tenant }, query: { since, until, groupBy, format }, request, gone }) => {
      const groups = groupsOf<UsageGroup>(groupBy);
      const dimension = usageDimensionOf(groups);
      if (typeof dimension === 'object')
        throw validationFailed({ field: 'groupBy', rule: 'combination', message: dimension.refused });
      const span = usageSpanOf(askedSpan(since, until), dimension, Date.now());
      if ('refused' in span)
        throw validationFailed({ field: span.field, rule: 'range', message: span.refused });

      const most = USAGE_ROWS_MAX + 1;
      const { counts, times, accounts } = await read(tenant.id, gone(), async (tx) => {
        const found = await readUsage(tenant.id, tx, { dimension, groups, span, most });
        const ids = groups.has('provider') ? [...new Set(found.counts.map(({ value }) => value ?? ''))] : [];
        return {
          ...found,
          accounts: await usageAccounts(
            tenant.id,
            tx,
            ids.filter((id) => id !== ''),
          ),
        };
      });
      if (counts.length === most) throw tooManyItems();
      const accountOf = new Map(accounts.map((account) => [account.id, account]));

      const nameOf = ({ period, channel, value }: UsageKey): string =>
        `${period?.getTime()} ${channel} ${dimension === 'tag' ? tagOf(value) : value}`;

      /** Returns the fields of a group, in their order. */
      function shown({ period, channel, value }: UsageKey) {
        const account = accountOf.get(value ?? '');
        return {
          ...(period === null ? {} : shownPeriod(period, groups.has('hour') ? 'hour' : 'day')),
          ...(channel === null ? {} : { channel }),
          ...(groups.has('provider')
            ? {
                providerId: value === '' ? null : value,
                provider: account?.provider ?? null,
                providerLabel: account?.label ?? null,
              }
            : {}),
          ...(dimension === 'tag' ? { tag: tagOf(value) } : {}),
          ...(dimension === 'key' ? { keyId: value === '' ? null : value } : {}),
        };
      }
      const byStatus = groups.has('status');
      const pause = pauses.of(tenant.id);
      const items = await usageItems(counts, times, { nameOf, shown, byStatus }, pause);
      if (items.length > USAGE_ITEMS_MAX) throw tooManyItems();
      const columns = [...groups].flatMap((group) => COLUMNS[group] ?? [group]);
      return {
        body: { ...spanShown(span), groupBy: [...groups], items },
        ...(asksForCsv(format, request) ? { csv: await usageCsv(columns, items, byStatus, pause) } : {}),
      };
    },
  });
}

function tagOf(value: string | null): string {
  return value === null || value === '' ? OTHER_TAG : value;
}

/** Groups that a table shows in columns with other names than the group's. */
const COLUMNS: Partial<Readonly<Record<UsageGroup, readonly string[]>>> = {
  provider: ['providerId', 'provider', 'providerLabel'],
  key: ['keyId'],
};
