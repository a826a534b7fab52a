import type { DeliveryStatus } from '#core/domain/webhooks/delivery-state.ts';
import type { EventIds, EventPlace } from '#core/domain/webhooks/event-id.ts';
import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import type { FeedEventFilter } from '#core/domain/webhooks/feed-event.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { HISTORY_TYPES, scanFeed } from './feed.ts';
import type { ScanRange, Scanned } from '../query/scan.ts';
import type { EndpointRecord } from './webhook-endpoints.ts';

/** How a call ended. */
export type CallOutcome = {
  readonly at: Date;
  readonly durationMs: number;
  /** Status code of the answer; null if none arrived. */
  readonly responseStatus: number | null;
  /** Why no answer arrived. */
  readonly error: string | null;
  /** The first KiB of the answer's body. */
  readonly responseBody: string | null;
};

/** One event for one endpoint, and the state of its delivery. */
export type Delivery = {
  /** The event's number in the endpoint's feed. */
  readonly seq: number;
  readonly event: StoredEvent;
  readonly status: DeliveryStatus;
  /** Number of finished calls. */
  readonly attempts: number;
  /** Null if no call is to be made, or its time is unknown because it waits for an earlier event or for its endpoint. */
  readonly nextAttemptAt: Date | null;
  readonly lastCall: CallOutcome | null;
};

export type LoggedCall = CallOutcome & { readonly number: number };

export type DeliveryFilter = {
  readonly status?: DeliveryStatus | undefined;
  readonly type?: FeedEventFilter | undefined;
  /** Only events that happened at `since` or later, and before `until`. */
  readonly since?: string | undefined;
  readonly until?: string | undefined;
};

type StateRow = {
  readonly seq: number;
  readonly status: DeliveryStatus;
  readonly attempts: number;
  readonly next_at: Date | null;
  readonly at: Date | null;
  readonly duration_ms: number;
  readonly response_status: number | null;
  readonly error: string | null;
  readonly answer: string | null;
};

/**
 * Reads an endpoint's deliveries, newest first. Numbers have gaps only where events are purged, so a scan reads a contiguous
 * stretch below the newest event that is kept.
 * @param floor only numbers above it.
 */
export async function scanDeliveries(
  tenantId: TenantId,
  tx: TransactionSql,
  ids: EventIds,
  endpoint: EndpointRecord,
  { status, type, floor, since, until }: DeliveryFilter & { readonly floor: number },
  { before = endpoint.lastSeq + 1, rows, most }: ScanRange<number>,
): Promise<Scanned<Delivery, number>> {
  const to = await newestKept(tenantId, tx, endpoint.id, before);
  const from = Math.max(floor + 1, to - rows + 1);
  if (to < from) return { found: [], scanned: 0, end: undefined };
  const scanned = to - from + 1;
  const states = await deliveryStates(tenantId, tx, endpoint, { from, to, status });
  const [first, last] = [states.at(0)?.seq, states.at(-1)?.seq];
  if (first === undefined || last === undefined) return { found: [], scanned, end: from };
  const span = last - first + 1;
  const filter = { type, since, endpointId: endpoint.id };
  const events = await scanFeed(tenantId, tx, ids, filter, { before: first - 1, rows: span, most: span });
  const isEarly = ({ at }: StoredEvent) => until === undefined || at.getTime() < Date.parse(until);
  const eventOf = new Map(events.found.filter(isEarly).map((event) => [event.seq, event]));
  const found = states.flatMap((state) => {
    const event = eventOf.get(state.seq);
    return event === undefined ? [] : [toDelivery(state, event)];
  });
  return { found: found.toReversed().slice(0, most), scanned, end: from };
}

export async function findDelivery(
  tenantId: TenantId,
  tx: TransactionSql,
  ids: EventIds,
  endpoint: EndpointRecord,
  seq: number,
): Promise<Delivery | undefined> {
  const range = { before: seq + 1, rows: 1, most: 1 };
  const { found } = await scanDeliveries(tenantId, tx, ids, endpoint, { floor: seq - 1 }, range);
  return found[0];
}

/** Returns the highest number below `before` that is in a run that is still stored; 0 if there is none. */
async function newestKept(
  tenantId: TenantId,
  tx: TransactionSql,
  endpointId: string,
  before: number,
): Promise<number> {
  const [row] = await tx<{ seq: number | null }[]>`
    select coalesce(
      (select case when r.first_seq < ${before} then ${before - 1}::bigint end from (
        select f.first_seq from endpoint_feed f
        where f.tenant_id = ${tenantId} and f.endpoint_id = ${endpointId} and f.last_seq >= ${before - 1}
        order by f.last_seq limit 1) r),
      (select f.last_seq from endpoint_feed f
        where f.tenant_id = ${tenantId} and f.endpoint_id = ${endpointId} and f.last_seq < ${before - 1}
        order by f.last_seq desc limit 1)) as seq`;
  return row?.seq ?? 0;
}

/** Maximum number of calls shown; a delivery with more was mostly called at people's request. */
const CALLS_MAX = 100;

/** Returns the calls of one delivery, the newest last. */
export async function listCalls(
  tenantId: TenantId,
  tx: TransactionSql,
  endpointId: string,
  seq: number,
): Promise<LoggedCall[]> {
  const rows = await tx<(Omit<StateRow, 'at'> & { number: number; at: Date })[]>`
    select a.attempt as number, a.at, a.duration_ms, a.status as response_status, a.error, a.answer from delivery_attempts a
    where a.tenant_id = ${tenantId} and a.endpoint_id = ${endpointId} and a.seq = ${seq}
    order by a.attempt desc limit ${CALLS_MAX}`;
  return rows.map((row) => ({ ...callOf(row), number: row.number })).toReversed();
}

type Redelivered = 'due' | 'in_flight' | 'gone' | 'worn';

/**
 * Makes one event due again: SQL `redeliver_event`. The tenant must be locked: two concurrent requests would make it due twice.
 * @returns `in_flight`: a worker holds it; `gone`: the event does not exist, or no longer; `worn`: it was called for 1,000 times.
 */
export async function redeliver(
  tenantId: TenantId,
  tx: TransactionSql,
  endpointId: string,
  seq: number,
): Promise<Redelivered> {
  const [row] = await tx<{ verdict: Redelivered }[]>`
    select redeliver_event(${tenantId}, ${endpointId}, ${seq}) as verdict`;
  return row?.verdict ?? 'gone';
}

type Replayed = {
  /** `early`: it is not known yet whether the event passes the endpoint's filters. */
  readonly verdict: Redelivered | 'early';
  /** The event's number in the endpoint's feed; null if it has none. */
  readonly seq: number | null;
};

/**
 * Does the same for any event of the tenant, even one that does not match the endpoint's filters: SQL `replay_event`. The tenant
 * must be locked.
 */
export async function replayEvent(
  tenantId: TenantId,
  tx: TransactionSql,
  endpointId: string,
  { seq, purgeOn, number }: EventPlace,
): Promise<Replayed> {
  const [row] = await tx<Replayed[]>`
    select * from replay_event(${tenantId}, ${endpointId}, ${seq}, ${purgeOn}::text::date, ${number}, ${HISTORY_TYPES}::text[])`;
  return row ?? { verdict: 'gone', seq: null };
}

export type Recovered = { readonly recovered: number; readonly nextSince: Date | null };

/** Maximum number of deliveries that one call makes due. */
export const RECOVERED_MAX = 10_000;
/** Well below the deadline of a transaction. */
const RECOVER_MS = 2_500;

/** Does the same for every event that was not delivered: SQL `recover_deliveries`. The tenant must be locked. */
export async function recoverDeliveries(
  tenantId: TenantId,
  tx: TransactionSql,
  endpointId: string,
  { since, until }: { readonly since: string; readonly until: string | null },
): Promise<Recovered> {
  const [row] = await tx<{ recovered: number; next_since: Date | null }[]>`
    select * from recover_deliveries(${tenantId}, ${endpointId}, ${since}::text::timestamptz, ${until}::text::timestamptz,
      ${RECOVERED_MAX}, ${RECOVER_MS})`;
  return { recovered: row?.recovered ?? 0, nextSince: row?.next_since ?? null };
}

/** Returns the states of a stretch of numbers, in their order. A due row spans at most a hundred events. */
function deliveryStates(
  tenantId: TenantId,
  tx: TransactionSql,
  { id }: EndpointRecord,
  { from, to, status }: { readonly from: number; readonly to: number } & Pick<DeliveryFilter, 'status'>,
): Promise<StateRow[]> {
  return tx<StateRow[]>`
    with state as (
      select s.seq, case
          when d.claim is not null and d.due_at > clock_timestamp() then 'in_flight'
          -- Nothing has failed since it succeeded, as where a person has one delivered again.
          when d.id is not null and (a.succeeded or greatest(d.attempts, a.attempt) = 0) then 'pending'
          when d.id is not null then 'retrying'
          when exists (select from delivery_attempts x where x.endpoint_id = ${id} and x.seq = s.seq and x.purge_on = f.purge_on
            and x.succeeded) then 'succeeded'
          else 'exhausted' end as status,
        coalesce(a.attempt, 0)::integer as attempts,
        case when d.due_at < '9999-01-01' and (d.claim is null or d.due_at <= clock_timestamp()) and e.status in ('active', 'failing')
          then greatest(d.due_at, e.call_at) end as next_at,
        a.at, a.duration_ms, a.status as response_status, a.error, a.answer
      from webhook_endpoints e
      join endpoint_feed f on f.endpoint_id = e.id and f.last_seq between ${from} and coalesce((
        select y.last_seq from endpoint_feed y where y.endpoint_id = ${id} and y.last_seq >= ${to} order by y.last_seq limit 1), ${to})
      cross join lateral generate_series(greatest(f.first_seq, ${from}), least(f.last_seq, ${to})) as s (seq)
      left join lateral (
        select x.id, x.claim, x.due_at, x.attempts from due_deliveries x
        where x.endpoint_id = ${id} and x.first_seq between s.seq - 99 and s.seq and x.last_seq >= s.seq
        order by x.first_seq desc limit 1) d on true
      left join lateral (
        select x.attempt, x.at, x.duration_ms, x.status, x.error, x.answer, x.succeeded from delivery_attempts x
        where x.endpoint_id = ${id} and x.seq = s.seq and x.purge_on = f.purge_on
        order by x.attempt desc limit 1) a on true
      where e.id = ${id} and e.tenant_id = ${tenantId} and f.tenant_id = ${tenantId}
    )
    select * from state t where true ${status === undefined ? tx`` : tx`and t.status = ${status}`} order by t.seq`;
}

function toDelivery(state: StateRow, event: StoredEvent): Delivery {
  const { seq, status, attempts, next_at: nextAttemptAt, at } = state;
  const lastCall = at === null ? null : callOf({ ...state, at });
  return { seq, event, status, attempts, nextAttemptAt, lastCall };
}

function callOf(
  row: Omit<StateRow, 'at' | 'seq' | 'status' | 'attempts' | 'next_at'> & { readonly at: Date },
): CallOutcome {
  return {
    at: row.at,
    durationMs: row.duration_ms,
    responseStatus: row.response_status,
    error: row.error,
    responseBody: row.answer,
  };
}
