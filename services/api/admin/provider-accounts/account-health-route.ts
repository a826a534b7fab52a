import { z } from 'zod';
import { accountHealthOf } from '#core/domain/account/account-health.ts';
import { notFound } from '#core/domain/fault/app-error.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { readAccountCounts, type CountsSince } from '#core/store/accounts/account-health.ts';
import { findAccount } from '#core/store/accounts/provider-accounts.ts';
import type { AdminDeps } from '../admin-deps.ts';
import { warningsField } from '../../http/routes/request-warnings.ts';
import { defineRoute } from '../../http/routes/define-route.ts';
import { IdParams, type RouteModule } from '../../http/routes/route.ts';

/** Larger than any real count, and still an exact number. */
const count = z.int().min(0).max(1e15);
const share = z.number().min(0).max(1).nullable();

const SpanHealth = z
  .object({
    since: z.iso
      .datetime()
      .describe('Start of the period: an hour or a day ago, and up to 5 minutes earlier.'),
    calls: count.describe('Calls to the provider that ended; each attempt counts.'),
    accepted: count.describe('Calls in which the provider accepted the message.'),
    refused: count.describe(
      'Calls in which the provider refused the recipient or the content, which does not concern the account.',
    ),
    failed: count.describe('Calls with any other refusal, or no answer.'),
    successRate: share.describe('Share of `accepted` in `accepted` and `failed`; null if there is neither.'),
    callTime: z
      .object({ p50: count, p95: count })
      .nullable()
      .describe(
        'Milliseconds that half and 95 % of the calls did not exceed; accurate to within 10 %. Null without calls.',
      ),
    delivered: count.describe(
      'Messages that a receipt reported as delivered in this period, whenever they were sent.',
    ),
    undelivered: count.describe('Messages that a receipt reported as not delivered.'),
    deliveryRate: share.describe(
      'Share of messages with a final receipt that were delivered; null if none has one.',
    ),
  })
  .meta({ id: 'SpanHealth', description: 'Results of the calls and receipts in a period.' });

/** Fields of an account that is read by its id, not in a list. */
export const recentFields = { lastHour: SpanHealth, lastDay: SpanHealth };

export const RECENT_EXAMPLE = {
  lastHour: {
    since: '2026-01-15T08:30:00.000Z',
    calls: 412,
    accepted: 403,
    refused: 7,
    failed: 2,
    successRate: 0.9951,
    callTime: { p50: 123, p95: 347 },
    delivered: 388,
    undelivered: 6,
    deliveryRate: 0.9848,
  },
  lastDay: {
    since: '2026-01-14T09:30:00.000Z',
    calls: 9_870,
    accepted: 9_702,
    refused: 144,
    failed: 24,
    successRate: 0.9975,
    callTime: { p50: 123, p95: 292 },
    delivered: 9_511,
    undelivered: 120,
    deliveryRate: 0.9875,
  },
};

const ProviderHealth = z
  .object({
    id: z.uuid().describe('Id of the provider account.'),
    health: z
      .enum(['healthy', 'open', 'probing'])
      .describe('`open`: the provider fails, and calls are held back. `probing`: single calls try it again.'),
    ...recentFields,
    ...warningsField,
  })
  .meta({
    id: 'ProviderHealth',
    description: 'Health of a provider account.',
    examples: [{ id: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10', health: 'healthy', ...RECENT_EXAMPLE }],
  });

/** Returns the recent call and receipt counts of an account. */
export async function readRecent(tenantId: TenantId, tx: TransactionSql, id: ProviderAccountId) {
  const { lastHour, lastDay } = await readAccountCounts(tenantId, tx, id);
  return { lastHour: shown(lastHour), lastDay: shown(lastDay) };
}

function shown({ since, ...counts }: CountsSince): z.output<typeof SpanHealth> {
  return { since: since.toISOString(), ...accountHealthOf(counts) };
}

export function providerHealthRoute({ read }: Pick<AdminDeps, 'read'>): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/providers/:id/health',
    operation: 'getProviderHealth',
    summary: 'Show the health of a provider account',
    description:
      'Results of its calls and receipts in the last hour and the last day, in periods of 5 minutes, and whether its circuit breaker holds calls back. Test messages do not count. Up to half a minute late.',
    tag: 'Providers',
    auth: { kind: 'bearer', role: 'viewer' },
    params: IdParams,
    response: ProviderHealth,
    handler: async ({ caller, params, gone }) => {
      const tenantId = caller.tenant.id;
      const id = params.id as ProviderAccountId;
      const { account, recent } = await read(tenantId, gone(), async (tx) => ({
        account: await findAccount(tenantId, tx, id),
        recent: await readRecent(tenantId, tx, id),
      }));
      if (account === undefined) throw notFound();
      return { body: { id, health: account.health, ...recent } };
    },
  });
}
