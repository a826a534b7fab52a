import { addressKey, type AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { isUnsubscribed, unsubscribeRecipient } from '#core/store/suppressions/suppressions.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { changeTenant } from '../changes/change-tenant.ts';
import type { AdminDeps } from '../admin/admin-deps.ts';
import { inSlot } from '../http/admission/shared-slots.ts';
import { factsOf, nameOf } from '../suppressions/suppression-facts.ts';
import type { UnsubscribeRequest } from './unsubscribe-routes.ts';

export type UnsubscribeRecipientDeps = Pick<AdminDeps, 'sql' | 'slots' | 'audit'> & {
  readonly addressKeys: AddressKeyRoot;
  /** Called after the commit if the recipient was not on the list before. */
  readonly onUnsubscribed: () => void;
};

/** Adds the recipient to the tenant's suppression list. @throws AppError `not_found` where the tenant no longer exists. */
export async function suppressRecipient(
  deps: UnsubscribeRecipientDeps,
  { about: { tenantId: id, address, messageId }, id: requestId, ip }: UnsubscribeRequest,
): Promise<void> {
  const tenantId = id as TenantId;
  const origin = { actor: 'recipient', ip, requestId, appName: null };
  const key = addressKey(deps.addressKeys, tenantId, 'email', address);
  // A repeated call does not lock the tenant.
  const isRepeated = await inSlot(deps.slots, tenantId, () =>
    withTenant(deps.sql, tenantId, (tx) => isUnsubscribed(tx, key)),
  );
  if (isRepeated) return;
  const isNew = await changeTenant(deps, { tenantId, origin, by: null }, async ({ tx, audit }) => {
    const added = await unsubscribeRecipient(tenantId, tx, { key, address, messageId });
    if (added === undefined) return false;
    await audit('suppression.added', added.id, factsOf(added, key), { name: nameOf(added) });
    return true;
  });
  if (isNew) deps.onUnsubscribed();
}
