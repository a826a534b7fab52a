import { chunks } from '#core/domain/chunks.ts';
import { PRIORITIES } from '#core/domain/message/message-options.ts';
import { encodeWakes, WAKES_PER_MESSAGE_MAX } from '#core/domain/queue/wake.ts';
import type { WakePublication } from '#core/platform/nats/nats-types.ts';
import type { AcceptRow } from '#core/store/messages/acceptance.ts';

/** Returns the wake-ups for messages that were just committed; scheduled messages need none yet. */
export function acceptWakes(rows: readonly AcceptRow[]): WakePublication[] {
  // Messages of one commit share a wake-up; a traced message gets one of its own that carries its trace context.
  const groups = Map.groupBy(
    rows.filter(({ status }) => status !== 'scheduled'),
    ({ traceparent, priority }) => `${traceparent ?? ''} ${priority}`,
  );
  return [...groups.values()].flatMap((group) => chunks(group, WAKES_PER_MESSAGE_MAX).map(publication));
}

function publication(rows: readonly AcceptRow[]): WakePublication {
  const { id, priority, traceparent } = rows[0] as AcceptRow;
  return {
    kind: PRIORITIES[priority],
    // Unique, because each message is accepted only once.
    id,
    payload: encodeWakes(
      rows.map(({ seq, tenant_id, account_id }) => ({ seq, tenantId: tenant_id, accountId: account_id })),
    ),
    traceparent: traceparent ?? undefined,
  };
}
