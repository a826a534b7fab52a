import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { backlogLimit, dailyLimit } from '#core/domain/tenant/mode-limits.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { lifetimeOf } from '#core/domain/message/lifetime.ts';
import type { AcceptRow } from '#core/store/messages/acceptance.ts';
import type { RetriedRow } from '#core/store/messages/retries.ts';
import type { RequestFacts } from '../http/routes/route.ts';
import { routeColumns, type Routed } from './account-for.ts';
import type { NewPlace } from './message-places.ts';
import { acceptedBody, addressKeyColumn, type Accepted } from './new-message.ts';

/** The body of a retry's 202. */
export type Retried = Accepted & { readonly parentMessageId: RetriedRow['id'] };

type Given = {
  readonly tenant: { readonly id: TenantId; readonly limits: Limits };
  readonly place: NewPlace;
  /** The account chosen for it, and how it was chosen. */
  readonly routed: Routed;
  /** The only account that may send it. */
  readonly pinned: string | null;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly addressKeys: AddressKeyRoot;
};

/** Larger than any per-minute count: calls by people count against another limit. */
const UNCOUNTED = INT32_MAX;

/**
 * Builds the row of a new message with the same content, including its 202. Its lifetime is the default of its category,
 * because the sender's own lifetime for the first message is over.
 */
export function retriedMessage(
  parent: RetriedRow,
  { tenant, place, routed, pinned, now, addressKeys }: Given,
  { id: requestId, traceparent }: Pick<RequestFacts, 'id' | 'traceparent'>,
): AcceptRow & { readonly response: Retried } {
  const { id: parentId, status: _status, test, ...said } = parent;
  const { limits } = tenant;
  const enqueuedAt = new Date(now).toISOString();
  const lifetimeMs = lifetimeOf(parent.category, limits.retentionDays);
  const { segments, encoding, channel, recipient: to } = parent;
  const size = segments === null || encoding === null ? null : { segments, encoding };
  return {
    ...said,
    seq: place.seq,
    purge_on: place.purgeOn,
    id: place.id,
    tenant_id: tenant.id,
    api_key_id: null,
    test,
    address_key: addressKeyColumn(addressKeys, tenant.id, channel, parent.address),
    ...routeColumns(routed),
    pinned_account_id: test ? null : pinned,
    traceparent,
    request_id: requestId,
    parent_id: parentId,
    enqueued_at: enqueuedAt,
    expires_at: new Date(now + lifetimeMs).toISOString(),
    lifetime_ms: lifetimeMs,
    retention_days: limits.retentionDays,
    rate_per_minute: UNCOUNTED,
    messages_per_day: dailyLimit(limits, test).value,
    backlog_max: backlogLimit(limits, test).value,
    // The request's key is claimed together with its audit entry.
    scope: null,
    fingerprint: null,
    response: {
      ...acceptedBody({ id: place.id, channel, to, test }, enqueuedAt, size),
      parentMessageId: parentId,
    },
  };
}
