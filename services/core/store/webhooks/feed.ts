import type { Channel } from '#core/domain/message/channel.ts';
import type { EventIds } from '#core/domain/webhooks/event-id.ts';
import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import type { FeedEventFilter, FeedEventType } from '#core/domain/webhooks/feed-event.ts';
import { FEED_EVENT_TYPES } from '#core/domain/webhooks/feed-event.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Category } from '#core/domain/message/message-options.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';
import type { ScanRange, Scanned } from '../query/scan.ts';

export type FeedFilter = {
  readonly type?: FeedEventFilter | undefined;
  /** Happened at this time or later. */
  readonly since?: string | undefined;
  /** True: only events of test messages; false: all others, including events without a message. */
  readonly test?: boolean | undefined;
  /** Reads this endpoint's feed, with its own numbers. */
  readonly endpointId?: string | undefined;
};

/** A row of SQL `read_events`; without an event if none passed the filters. */
export type FeedRow = {
  readonly scanned: number;
  readonly endSeq: number;
  readonly seq: number | null;
  /** 0 for an event without a message. */
  readonly messageSeq: number;
  readonly number: number;
  readonly purgeOn: string;
  /** Called `number` in `EventPlace`. */
  readonly eventSeq: number;
  readonly type: FeedEventType;
  readonly at: Date;
  readonly details: Record<string, unknown> | null;
  readonly sequence: number;
  readonly messageId: string | null;
  readonly test: boolean;
  readonly externalId: string | null;
  readonly channel: Channel;
  readonly recipient: string;
  readonly category: Category;
  readonly metadata: Record<string, unknown> | null;
  readonly tags: string[] | null;
  readonly isFinal: boolean;
  readonly attempt: number | null;
  readonly accountId: string | null;
  readonly provider: string | null;
};

export type EventRow = FeedRow & { readonly seq: number };

/** The entries of message histories that are in feeds. */
export const HISTORY_TYPES = FEED_EVENT_TYPES.filter((type) => type.startsWith('message.'));

/**
 * Reads the events of a tenant's feed, or of an endpoint's, in the order of their numbers; `before` of the range is the number
 * after which it starts. The feed has each event's key. An event of a message is found in the message's history, which also gives
 * its `sequence`.
 */
export async function scanFeed(
  tenantId: TenantId,
  tx: TransactionSql,
  ids: EventIds,
  { type, since, test, endpointId }: FeedFilter,
  { before: after = 0, rows, most }: ScanRange<number>,
): Promise<Scanned<StoredEvent, number>> {
  const scanned = camelRows<FeedRow>(
    await tx`
      select * from read_events(${tenantId}, ${endpointId ?? null}, ${after}, ${rows}, ${HISTORY_TYPES}::text[], ${type ?? null},
        ${since ?? null}::text::timestamptz, ${test ?? null}, ${most})`.values(),
  );
  const [first] = scanned;
  return {
    found: toStoredEvents(scanned.filter(isEvent), ids),
    scanned: first?.scanned ?? 0,
    end: first === undefined || first.scanned === 0 ? undefined : first.endSeq,
  };
}

/**
 * The most by which the clock of an api, which sets a message's time, may be ahead of Postgres's, so that an event's time is after
 * its numbering. `replay_event` allows for the same.
 */
const CLOCK_SLACK_SECONDS = 300;

/**
 * Returns a number after which all numbered events are that happened at this time or later. Some events after it may have happened
 * before.
 */
export async function feedStart(
  tenantId: TenantId,
  tx: TransactionSql,
  since: string,
  endpointId?: string,
): Promise<number> {
  if (endpointId !== undefined) return endpointFeedStart(tenantId, tx, since, endpointId);
  const [row] = await tx<{ seq: number }[]>`
    select f.first_seq - 1 as seq from feed f where f.tenant_id = ${tenantId} and f.numbered_at >= ${startOf(tx, since)}
    order by f.numbered_at, f.last_seq limit 1`;
  return row?.seq ?? feedEnd(tenantId, tx);
}

/** Returns the last number of the tenant's feed, or of an endpoint's; 0 before the first event. */
export async function feedEnd(tenantId: TenantId, tx: TransactionSql, endpointId?: string): Promise<number> {
  const [row] =
    endpointId === undefined
      ? await tx<{ seq: number }[]>`
          select h.last_seq as seq from feed_heads h where h.tenant_id = ${tenantId} order by h.last_seq desc limit 1`
      : await tx<{ seq: number }[]>`
          select h.last_seq as seq from endpoint_heads h where h.tenant_id = ${tenantId} and h.endpoint_id = ${endpointId}
          order by h.feed_seq desc, h.last_seq desc limit 1`;
  return row?.seq ?? 0;
}

/**
 * Returns the same for an endpoint's feed. It only has events that are in the tenant's feed already: those matched before this
 * time happened before it, but for the clock's slack.
 */
async function endpointFeedStart(
  tenantId: TenantId,
  tx: TransactionSql,
  since: string,
  endpointId: string,
): Promise<number> {
  const [row] = await tx<{ seq: number }[]>`
    select f.first_seq - 1 as seq from endpoint_feed f
    where f.tenant_id = ${tenantId} and f.endpoint_id = ${endpointId} and f.matched_at >= ${startOf(tx, since)}
    order by f.matched_at, f.last_seq limit 1`;
  return row?.seq ?? feedEnd(tenantId, tx, endpointId);
}

function startOf(tx: TransactionSql, since: string) {
  return tx`${since}::text::timestamptz - make_interval(secs => ${CLOCK_SLACK_SECONDS})`;
}

export function isEvent<Row extends FeedRow>(row: Row): row is Row & EventRow {
  return row.seq !== null;
}

/** Returns the key of an event's message; null for an event without one. */
export function messageSeqOf({ messageSeq: seq }: EventRow): number | null {
  return seq === 0 ? null : seq;
}

export function toStoredEvents(rows: readonly EventRow[], ids: EventIds): StoredEvent[] {
  const places = rows.map((row) => ({ seq: row.messageSeq, purgeOn: row.purgeOn, number: row.eventSeq }));
  const known = ids.encode(places);
  return rows.map((row, n) => {
    const { seq, type, at, details, messageId } = row;
    const message = messageId === null ? null : { ...messageOf(row), id: messageId };
    return { seq, id: known[n] ?? '', type, at, details, message };
  });
}

function messageOf(row: FeedRow): Omit<NonNullable<StoredEvent['message']>, 'id'> {
  return {
    sequence: row.sequence,
    test: row.test,
    externalId: row.externalId,
    channel: row.channel,
    to: row.recipient,
    category: row.category,
    metadata: row.metadata,
    tags: row.tags,
    attempt: row.attempt,
    accountId: row.accountId,
    provider: row.provider,
    isFinal: row.isFinal,
  };
}
