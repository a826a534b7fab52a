import type { z } from 'zod';
import { validationFailed, type ErrorDetail } from '#core/domain/fault/app-error.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import { routeByAge } from '#core/domain/routing/route.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { listSendingAccounts } from '#core/store/accounts/sending-accounts.ts';
import { listChannelAccounts } from '#core/store/accounts/provider-accounts.ts';
import { findRoute, type NewRoute, type StoredRoute } from '#core/store/accounts/routes.ts';
import type { SetRoute } from './route-schemas.ts';

/** A channel's route as it is shown: stored, or by the age of its accounts. */
export type ShownRoute = Omit<StoredRoute, 'createdAt'> & { readonly createdAt: Date | null };

/** Returns the channel's current route; until one is set, its accounts by age. */
export async function currentRoute(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel,
): Promise<ShownRoute> {
  const route = await findRoute(tenantId, tx, channel);
  if (route !== undefined) return route;
  return { ...routeByAge(channel, await listSendingAccounts(tenantId, tx)), channel, createdAt: null };
}

export function toNewRoute({
  strategy,
  steps,
  failoverOn,
  maxWaitMs,
  receiptTimeoutMs,
}: z.output<typeof SetRoute>): NewRoute {
  return {
    strategy,
    steps: steps.map(({ providerId: accountId, weight }) => ({ accountId, weight })),
    failoverOn,
    maxWaitMs,
    receiptTimeoutMs,
  };
}

export function isSameRoute(one: NewRoute, other: NewRoute): boolean {
  return JSON.stringify(routeFields(one)) === JSON.stringify(routeFields(other));
}

/** Returns what of a route can be set, under the names of the API. */
export const routeFields = ({
  strategy,
  steps,
  failoverOn,
  maxWaitMs = null,
  receiptTimeoutMs = null,
}: NewRoute) => ({
  strategy,
  steps: steps.map(({ accountId, weight }) => ({ providerId: accountId, weight })),
  failoverOn: [...failoverOn],
  maxWaitMs,
  receiptTimeoutMs,
});

/**
 * The current route may name accounts that were deleted since; a new one may keep them, so that it can be sent back as it was read.
 * @param at path of the steps in the body.
 * @throws AppError `validation_failed` unless the steps are the tenant's own accounts of the channel, each once.
 */
export async function assertSteps(
  tenantId: TenantId,
  tx: TransactionSql,
  { steps }: NewRoute,
  { channel, steps: current }: ShownRoute,
  at = 'steps',
): Promise<void> {
  const ids = steps.map(({ accountId }) => accountId);
  const own = new Set<string>([
    ...(await listChannelAccounts(tenantId, tx, channel)),
    ...current.map(({ accountId }) => accountId),
  ]);
  const faults = ids.flatMap((id, i): ErrorDetail[] => {
    const field = `${at}.${i}.providerId`;
    if (!own.has(id))
      return [
        {
          field,
          rule: 'provider',
          message: `Must be a provider account of this tenant for channel '${channel}'`,
        },
      ];
    if (ids.indexOf(id) < i) return [{ field, rule: 'unique', message: 'Must not be in the route twice' }];
    return [];
  });
  if (faults.length > 0) throw validationFailed(...faults);
}
