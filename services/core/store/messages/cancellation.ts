import type { Channel } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';

/**
 * Cancels those of these messages that wait. The rows of all of them stay locked until the transaction ends.
 * @returns the states of the live messages as they were found; those that `decideCancel` permits are canceled.
 */
export async function cancelMessages(
  tx: TransactionSql,
  seqs: readonly number[],
): Promise<ReadonlyMap<number, MessageState>> {
  const rows = await tx<{ seq: number; found: MessageState }[]>`
    select seq, found from cancel_messages(${[...seqs]}::bigint[])`;
  return new Map(rows.map(({ seq, found }) => [seq, found]));
}

/** At least one of the five criteria; a message must match all that are given. */
export type CancelFilter = {
  readonly batchId?: string | undefined;
  readonly externalId?: string | undefined;
  readonly tag?: string | undefined;
  readonly channel?: Channel | undefined;
  readonly category?: string | undefined;
  /** Only messages of this mode; of both if undefined. */
  readonly test?: boolean | undefined;
};

export type Cancelable = { readonly seq: number; readonly channel: Channel };

export type FoundCancelable = {
  /** Live messages that were not sent before, the oldest first. */
  readonly live: readonly Cancelable[];
  /** Number of messages that were sent or have ended, if a batch or a reference names them. */
  readonly ended: number;
  /**
   * Set if the time ran out before all live messages were read: `live` then has the oldest of those read, and the search stopped
   * here. Undefined if all were read.
   */
  readonly stoppedAt: LivePosition | undefined;
};

/** A live row's position among its tenant's rows. */
export type LivePosition = {
  readonly accountId: string;
  readonly priority: number;
  /** As the database prints it, with microseconds. Any number of messages may be due at one instant. */
  readonly dueAt: string;
  readonly seq: number;
};

export type CancelBounds = {
  /** Maximum number of messages in the answer. */
  readonly most: number;
  /** Milliseconds after the first rows, after which no further ones are read. */
  readonly ms: number;
  /** Where an earlier search stopped. */
  readonly from?: LivePosition | undefined;
};

/**
 * Returns the messages that match a filter, at most `most`. If it names a batch or reference with no more messages than that,
 * these are looked up; otherwise the tenant's live rows are scanned once, as far as the time permits.
 */
export async function findCancelable(
  tenantId: TenantId,
  tx: TransactionSql,
  filter: CancelFilter,
  bounds: CancelBounds,
): Promise<FoundCancelable> {
  const names =
    bounds.from === undefined && (filter.batchId !== undefined || filter.externalId !== undefined);
  const named = names ? await findNamed(tenantId, tx, filter, bounds.most) : undefined;
  return named ?? (await findLive(tenantId, tx, filter, bounds));
}

/** Looks up the messages of a batch or reference. @returns undefined if it has more than `most`. */
async function findNamed(
  tenantId: TenantId,
  tx: TransactionSql,
  filter: CancelFilter,
  most: number,
): Promise<FoundCancelable | undefined> {
  const { batchId, externalId = '' } = filter;
  // A batch has some hundreds of messages; the number for a reference is unbounded.
  const isNamed = batchId === undefined ? tx`m.external_id = ${externalId}` : tx`m.batch_id = ${batchId}`;
  const rows = await tx<{ seq: number; channel: Channel; fits: boolean; is_live: boolean }[]>`
    with named as materialized (
      select m.seq, m.channel, (true ${fits(tx, filter)}) as fits from messages m
      where m.tenant_id = ${tenantId} and ${isNamed}
      order by m.enqueued_at desc, m.seq desc limit ${most + 1}
    )
    -- One that was sent before cannot be canceled. It counts as ended, and does not keep back those behind it.
    select n.seq, n.channel, n.fits, exists (
      select from live_messages l where l.seq = any (array[n.seq]) and l.sent_attempt is null) as is_live
    from named n order by n.seq`;
  if (rows.length > most) return undefined;
  const fitting = rows.filter((row) => row.fits);
  const live = fitting.filter((row) => row.is_live);
  return { live, ended: fitting.length - live.length, stoppedAt: undefined };
}

/** Rows per fetch, which take about ten milliseconds. */
const LIVE_AT_ONCE = 2_000;

/**
 * Scans the tenant's live rows by the index that starts with the tenant, a stretch at a time, in one snapshot: no statement takes
 * long, however many rows there are, and no row that moves meanwhile is missed. Messages are looked up one by one, each in the
 * partition that its row names: the planner cannot turn a lateral join with a limit into a join that reads all of them.
 */
async function findLive(
  tenantId: TenantId,
  tx: TransactionSql,
  filter: CancelFilter,
  { most, ms, from }: CancelBounds,
): Promise<FoundCancelable> {
  const { batchId, externalId, tag, channel, category, test } = filter;
  const isInRow = [batchId, externalId, tag, category].every((criterion) => criterion === undefined);
  let until: number | undefined;
  let found: Cancelable[] = [];
  let stoppedAt: LivePosition | undefined;
  // A bitmap scan or a full sort would read all rows before it returns the first one. An incremental sort reads no more than the
  // rows that are due at the same instant.
  await tx`select set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`;
  // Rows that do not match are returned too: otherwise a stretch could take unbounded time.
  const fitsRow = tx`(true ${channel === undefined ? tx`` : tx`and l.channel = ${channel}`}
    ${test === undefined ? tx`` : tx`and l.test = ${test}`})`;
  // Sorted before the join: the messages of the rows that are read are looked up, not those of all rows of an instant.
  const stretches = tx<LiveRow[]>`
    select l.seq, l.channel, ${isInRow ? fitsRow : tx`m.fits is not null`} as fits, l.account_id as "accountId", l.priority,
      l.due_at::text as "dueAt"
    from (
      -- Few columns, as a sort keeps all rows of an instant.
      select l.seq, l.channel, l.test, l.account_id, l.priority, l.due_at, l.purge_on from live_messages l
      -- One that was sent before ends in no state but \`sent\`.
      where l.tenant_id = ${tenantId} and l.sent_attempt is null
      ${
        from === undefined
          ? tx``
          : tx`and (l.account_id, l.priority, l.due_at, l.seq) >
            (${from.accountId}, ${from.priority}, ${from.dueAt}::text::timestamptz, ${from.seq})`
      }
      order by l.account_id, l.priority, l.due_at, l.seq
    ) l
    ${
      isInRow
        ? tx``
        : tx`left join lateral (
      select true as fits from messages m
      where ${fitsRow} and m.seq = l.seq and m.purge_on = l.purge_on and m.tenant_id = ${tenantId} ${fits(tx, filter)}
      limit 1) m on true`
    }
    order by l.account_id, l.priority, l.due_at, l.seq`.cursor(LIVE_AT_ONCE);
  for await (const rows of stretches) {
    // The first stretch waits for the sort of all rows of its instant, in each call again. If that were part of the time, a call
    // in a large instant would get no further than one stretch.
    until ??= performance.now() + ms;
    for (const { seq, channel: by, fits } of rows) if (fits) found.push({ seq, channel: by });
    if (found.length > 4 * most) found = oldest(found, most);
    const last = rows.at(-1);
    if (performance.now() > until && rows.length === LIVE_AT_ONCE && last !== undefined) {
      const { accountId, priority, dueAt, seq } = last;
      stoppedAt = { accountId, priority, dueAt, seq };
      break;
    }
  }
  return { live: oldest(found, most), ended: 0, stoppedAt };
}

type LiveRow = Cancelable & LivePosition & { readonly fits: boolean };

function oldest(found: readonly Cancelable[], most: number): Cancelable[] {
  return found.toSorted((a, b) => a.seq - b.seq).slice(0, most);
}

function fits(tx: TransactionSql, { batchId, externalId, tag, channel, category, test }: CancelFilter) {
  return tx`
    ${batchId === undefined ? tx`` : tx`and m.batch_id = ${batchId}`}
    ${externalId === undefined ? tx`` : tx`and m.external_id = ${externalId}`}
    ${tag === undefined ? tx`` : tx`and ${tag} in (select json_array_elements_text(m.tags))`}
    ${channel === undefined ? tx`` : tx`and m.channel = ${channel}`}
    ${category === undefined ? tx`` : tx`and m.category = ${category}`}
    ${test === undefined ? tx`` : tx`and m.test = ${test}`}`;
}
