import type { AddressKeyRoot } from '#core/domain/address-key.ts';
import type { Limits } from '#core/domain/plan.ts';
import type { TenantId } from '#core/domain/ids.ts';
import { lifetimeOf } from '#core/domain/lifetime.ts';
import type { AcceptRow } from '#core/store/acceptance.ts';
import type { RetriedRow } from '#core/store/retries.ts';
import type { RequestFacts } from '../http/routes-kit.ts';
import { routeColumns, type Routed } from './account-for.ts';
import type { NewPlace } from './message-places.ts';
import { acceptedBody, addressKeyColumn, type Accepted } from './new-message.ts';

/** The body of a retry's 202. */
export type Retried = Accepted & { readonly parentMessageId: RetriedRow['id'] };

type Given = {
  readonly tenant: { readonly id: TenantId; readonly limits: Limits };
  readonly place: NewPlace;
  /** The account that is to send it, and how it was chosen. */
  readonly routed: Routed;
  /** The account that no other may stand in for. */
  readonly pinned: string | null;
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly addressKeys: AddressKeyRoot;
};

/** More than any minute has: calls of people are counted by another limit. */
const UNCOUNTED = 2_147_483_647;

/**
 * Makes of a message the row of a new one that says the same, its 202 included. It lives as long as its category gives by
 * itself: the time that its sender gave the first one is over.
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
    messages_per_day: limits.messagesPerDay,
    backlog_max: limits.backlogMax,
    // The key of the request is claimed beside its entry in the audit log.
    scope: null,
    fingerprint: null,
    response: {
      ...acceptedBody({ id: place.id, channel, to, test }, enqueuedAt, size),
      parentMessageId: parentId,
    },
  };
}
