import { chunks } from '#core/domain/chunks.ts';
import { PRIORITIES } from '#core/domain/message-options.ts';
import { encodeWakes, WAKES_PER_MESSAGE_MAX } from '#core/domain/wake.ts';
import type { WakePublication } from '#core/platform/nats/broker.ts';
import type { AcceptRow } from '#core/store/acceptance.ts';

/** What tells the workers of messages that have just been committed; nobody has to know yet of those that are scheduled. */
export function acceptWakes(rows: readonly AcceptRow[]): WakePublication[] {
  // Messages of one commit share a publication; a traced one has its request's own, which carries its trace.
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
    // Unique, as each message is accepted once.
    id,
    payload: encodeWakes(
      rows.map(({ seq, tenant_id, account_id }) => ({ seq, tenantId: tenant_id, accountId: account_id })),
    ),
    traceparent: traceparent ?? undefined,
  };
}
