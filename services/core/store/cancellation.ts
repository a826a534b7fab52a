import type { Channel } from '#core/domain/channel.ts';
import type { TenantId } from '#core/domain/ids.ts';
import type { MessageState } from '#core/domain/message-state.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';

/**
 * Cancels those of these messages that wait. The rows of all stay locked until the transaction ends.
 * @returns the states in which they were found, of those that no end is known of; what `decideCancel` lets be is canceled.
 */
export async function cancelMessages(
  tx: TransactionSql,
  seqs: readonly number[],
): Promise<ReadonlyMap<number, MessageState>> {
  const rows = await tx<{ seq: number; found: MessageState }[]>`
    select seq, found from cancel_messages(${[...seqs]}::bigint[])`;
  return new Map(rows.map(({ seq, found }) => [seq, found]));
}

/** At least one of the five criteria; messages fit all that are given. */
export type CancelFilter = {
  readonly batchId?: string | undefined;
  readonly externalId?: string | undefined;
  readonly tag?: string | undefined;
  readonly channel?: Channel | undefined;
  readonly category?: string | undefined;
  /** Of this mode alone; of both where undefined. */
  readonly test?: boolean | undefined;
};

export type Cancelable = { readonly seq: number; readonly channel: Channel };

export type FoundCancelable = {
  /** Live ones, the oldest first. */
  readonly live: readonly Cancelable[];
  /** Those that have come to an end, where a batch or a reference names them. */
  readonly ended: number;
};

/**
 * The messages that a filter means, `most` at most. A batch or a reference leads to its messages, if they are no more than
 * that; else each of the tenant's live rows is looked at once, by the one index that has the tenant's first.
 */
export async function findCancelable(
  tenantId: TenantId,
  tx: TransactionSql,
  filter: CancelFilter,
  most: number,
): Promise<FoundCancelable> {
  const names = filter.batchId !== undefined || filter.externalId !== undefined;
  const named = names ? await findNamed(tenantId, tx, filter, most) : undefined;
  return named ?? { live: await findLive(tenantId, tx, filter, most), ended: 0 };
}

/** @returns undefined where more messages than `most` are of the batch, or bear the reference. */
async function findNamed(
  tenantId: TenantId,
  tx: TransactionSql,
  filter: CancelFilter,
  most: number,
): Promise<FoundCancelable | undefined> {
  const { batchId, externalId = '' } = filter;
  // A batch has some hundreds of messages; of a reference nobody knows.
  const isNamed = batchId === undefined ? tx`m.external_id = ${externalId}` : tx`m.batch_id = ${batchId}`;
  const rows = await tx<{ seq: number; channel: Channel; fits: boolean; is_live: boolean }[]>`
    with named as materialized (
      select m.seq, m.channel, (true ${fits(tx, filter)}) as fits from messages m
      where m.tenant_id = ${tenantId} and ${isNamed}
      order by m.enqueued_at desc, m.seq desc limit ${most + 1}
    )
    select n.seq, n.channel, n.fits, exists (select from live_messages l where l.seq = any (array[n.seq])) as is_live
    from named n order by n.seq`;
  if (rows.length > most) return undefined;
  const fitting = rows.filter((row) => row.fits);
  const live = fitting.filter((row) => row.is_live);
  return { live, ended: fitting.length - live.length };
}

/**
 * Materialized, or the planner might go through all tenants' rows in the order of their numbers; and messages are looked up
 * one by one, each in the partition that its row names.
 */
async function findLive(
  tenantId: TenantId,
  tx: TransactionSql,
  filter: CancelFilter,
  most: number,
): Promise<Cancelable[]> {
  const { batchId, externalId, tag, channel, category, test } = filter;
  const isInRow = [batchId, externalId, tag, category].every((criterion) => criterion === undefined);
  return tx<Cancelable[]>`
    with own as materialized (
      select l.seq, l.purge_on, l.channel from live_messages l
      where l.tenant_id = ${tenantId}
        ${channel === undefined ? tx`` : tx`and l.channel = ${channel}`}
        ${test === undefined ? tx`` : tx`and l.test = ${test}`}
    )
    select o.seq, o.channel from own o
    ${
      isInRow
        ? tx``
        : tx`cross join lateral (
      select from messages m where m.seq = o.seq and m.purge_on = o.purge_on and m.tenant_id = ${tenantId}
        ${fits(tx, filter)} limit 1) m`
    }
    order by o.seq limit ${most}`;
}

function fits(tx: TransactionSql, { batchId, externalId, tag, channel, category, test }: CancelFilter) {
  return tx`
    ${batchId === undefined ? tx`` : tx`and m.batch_id = ${batchId}`}
    ${externalId === undefined ? tx`` : tx`and m.external_id = ${externalId}`}
    ${tag === undefined ? tx`` : tx`and ${tag} = any (m.tags)`}
    ${channel === undefined ? tx`` : tx`and m.channel = ${channel}`}
    ${category === undefined ? tx`` : tx`and m.category = ${category}`}
    ${test === undefined ? tx`` : tx`and m.test = ${test}`}`;
}
