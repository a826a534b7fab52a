import type { AcceptRow } from './acceptance.ts';

/** A batch as the three lists that SQL `accept` reads. Undefined fields are not sent. */
export type AcceptBatch = {
  /** The fields that all messages of one key share. */
  readonly callers: readonly Caller[];
  readonly messages: readonly object[];
  /** Of the messages with an idempotency key. */
  readonly keys: readonly object[];
};

type Caller = Limits & Pick<AcceptRow, 'tenant_id' | 'api_key_id' | 'test'> & { readonly caller: number };
type Limits = { -readonly [name in LimitName]: number };
type LimitName = (typeof LIMITS)[number];
const LIMITS = ['retention_days', 'rate_per_minute', 'messages_per_day', 'backlog_max'] as const;

/**
 * Splits rows into the three lists: keys, limits and idempotency data that repeat are kept apart from the messages, which are
 * numbered in their order, from 1.
 */
export function toAcceptBatch(rows: readonly AcceptRow[]): AcceptBatch {
  const callers = new Map<string, Caller>();
  const keys: object[] = [];
  const messages = rows.map((row, i) => {
    const ord = i + 1;
    const { tenant_id, scope, fingerprint, response } = row;
    // Needed only to answer a repeated idempotency key from stored data.
    if (scope != null) keys.push({ ord, tenant_id, scope, fingerprint, response });
    return messageOf(ord, callerOf(callers, row).caller, row);
  });
  return { callers: [...callers.values()], messages, keys };
}

function callerOf(callers: Map<string, Caller>, row: AcceptRow): Caller {
  const { tenant_id, api_key_id, test, retention_days, rate_per_minute, messages_per_day, backlog_max } = row;
  // A person has no key, and sends both live and test messages.
  const owner = api_key_id ?? `${tenant_id} ${test}`;
  const known = callers.get(owner);
  if (known !== undefined) {
    // If rows carry different limits, because they have just changed, the stricter ones apply.
    for (const name of LIMITS) known[name] = Math.min(known[name], row[name]);
    return known;
  }
  const limits = { retention_days, rate_per_minute, messages_per_day, backlog_max };
  const caller = { caller: callers.size, tenant_id, api_key_id, test, ...limits };
  callers.set(owner, caller);
  return caller;
}

function messageOf(ord: number, caller: number, row: AcceptRow) {
  return {
    ord,
    caller,
    seq: row.seq,
    purge_on: row.purge_on,
    id: row.id,
    channel: row.channel,
    recipient: row.recipient,
    // Usually the same as the recipient.
    address: row.address === row.recipient ? undefined : row.address,
    address_key: row.address_key,
    sender: row.sender ?? undefined,
    content: row.content,
    external_id: row.external_id ?? undefined,
    category: row.category,
    priority: row.priority,
    account_id: row.account_id,
    pinned_account_id: row.pinned_account_id ?? undefined,
    segments: row.segments ?? undefined,
    content_bytes: row.content_bytes,
    encoding: row.encoding ?? undefined,
    delivery_guarantee: row.delivery_guarantee,
    content_retention: row.content_retention,
    metadata: row.metadata ?? undefined,
    tags: row.tags ?? undefined,
    traceparent: row.traceparent ?? undefined,
    request_id: row.request_id,
    batch_id: row.batch_id,
    route_version: row.route_version,
    route_skipped: row.route_skipped,
    parent_id: row.parent_id,
    enqueued_at: row.enqueued_at,
    expires_at: row.expires_at,
    lifetime_ms: row.lifetime_ms ?? undefined,
    status: row.status,
    send_at: row.send_at,
    scheduled_at: row.scheduled_at,
    // Stored with the message, unlike the limits: that of its caller is the shortest one of the batch.
    retention_days: row.status === 'scheduled' ? row.retention_days : undefined,
  };
}
