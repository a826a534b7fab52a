import type { z } from 'zod';
import { explainRoute, type RouteFacts } from '#core/domain/routing/explain-route.ts';
import { PRIORITIES } from '#core/domain/message/message-options.ts';
import { isWaiting } from '#core/domain/message/message-state.ts';
import { orderOf } from '#core/domain/routing/route.ts';
import type { MessageRow } from '#core/store/messages/messages.ts';
import type { Engagement, Message, RouteStep } from './message-schema.ts';
import { iso } from '../http/iso.ts';
import { findProvider, reportsDeliveries } from '#providers/registry.ts';

/** The API calls an account's id `providerId`, because accounts are created at `/v1/admin/providers`. */
export function toMessage(row: MessageRow): z.output<typeof Message> {
  const { failure } = row;
  return {
    id: row.id,
    externalId: row.external_id,
    batchId: row.batch_id,
    channel: row.channel,
    to: row.recipient,
    from: row.sender,
    status: row.status,
    statusReason: row.reason,
    finality: finalityOf(row),
    failure: failure && {
      class: failure.class,
      code: failure.code,
      retryable: failure.retryable ?? false,
      providerCode: failure.providerCode ?? null,
      providerMessage: failure.providerMessage ?? null,
    },
    category: row.category,
    priority: PRIORITIES[row.priority] ?? 'normal',
    test: row.test,
    segments: row.segments,
    encoding: row.encoding,
    providerId: row.account_id,
    provider: row.provider,
    providerMessageId: row.provider_message_id,
    attemptCount: row.attempt,
    nextAttemptAt: iso(byOwnClock(row, row.next_attempt_at)),
    duplicateRisk: row.duplicate_risk,
    partial: row.partial,
    lateBounce: row.late_bounce,
    expiresAt: byOwnClock(row, row.expires_at).toISOString(),
    scheduledAt: iso(row.scheduled_at),
    enqueuedAt: row.enqueued_at.toISOString(),
    sentAt: iso(row.sent_at),
    deliveredAt: iso(row.delivered_at),
    completedAt: iso(row.completed_at),
    updatedAt: row.updated_at.toISOString(),
    engagement: engagementOf(row),
    route: routeOf(row),
    routeVersion: routeVersionOf(row),
    parentMessageId: row.parent_id,
    metadata: row.metadata,
    tags: row.tags ?? [],
  };
}

function routeOf(row: MessageRow): z.output<typeof RouteStep>[] {
  const considered = explainRoute({
    enqueuedAt: row.enqueued_at.toISOString(),
    isPinned: row.pinned_account_id !== null,
    routeVersion: row.route_version,
    skipped: row.route_skipped ?? [],
    left: (row.left_accounts ?? []).map((one) => ({ ...one, at: new Date(one.at).toISOString() })),
    ambiguous: ambiguousOf(row),
    accountId: row.account_id,
    attempts: row.attempt,
    sentAttempt: row.sent_attempt,
    endedBy: row.status === 'failed' ? (row.failure?.class ?? null) : null,
    endedAt: iso(row.completed_at),
  });
  return considered.map(({ accountId, ...one }) => ({
    providerId: accountId,
    label: row.labels[accountId] ?? null,
    ...one,
  }));
}

/** Returns the alternative accounts of the route at the time when a call got no answer. */
function ambiguousOf({ id, channel, ambiguous_call: call }: MessageRow): RouteFacts['ambiguous'] {
  if (call === null) return null;
  const { at, strategy, version, steps } = call;
  const route = {
    channel,
    strategy: strategy ?? 'priority',
    version: version ?? 0,
    steps: steps ?? [],
    failoverOn: [],
  };
  return { at: new Date(at).toISOString(), accounts: [...orderOf(route, id)] };
}

function routeVersionOf(row: MessageRow): number | null {
  if (row.test || row.pinned_account_id !== null) return null;
  const later = row.left_accounts?.findLast(({ version }) => version !== null)?.version;
  return later ?? row.route_version ?? 0;
}

/**
 * Converts an instant to the message's clock: times that a test message still waits for are on the tenant's test clock,
 * past times on the real clock.
 */
function byOwnClock<T extends Date | null>({ ahead_ms: aheadMs, status }: MessageRow, instant: T): Date | T {
  if (instant === null || aheadMs === null || aheadMs === 0) return instant;
  return isWaiting(status) ? new Date(instant.getTime() + aheadMs) : instant;
}

function engagementOf({ engagement }: MessageRow): z.output<typeof Engagement> {
  const at = (what: keyof NonNullable<MessageRow['engagement']>): string | null => {
    const time = engagement?.[what];
    return time === undefined ? null : new Date(time).toISOString();
  };
  return {
    openedAt: at('opened'),
    clickedAt: at('clicked'),
    readAt: at('read'),
    complainedAt: at('complained'),
    unsubscribedAt: at('unsubscribed'),
  };
}

function finalityOf({ status, final, provider }: MessageRow): 'final' | 'accepted_only' | 'pending' {
  const known = provider === null ? undefined : findProvider(provider);
  // No receipt is pending once the state is final, and some providers never send any.
  const isSilent = known !== undefined && !reportsDeliveries(known);
  if (status === 'sent') return final || isSilent ? 'accepted_only' : 'pending';
  return final || (status === 'unknown' && isSilent) ? 'final' : 'pending';
}
