import type { Channel } from '#core/domain/message/channel.ts';
import type { MessageId, ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import type { MessagePlace } from '#core/domain/storage/message-id.ts';
import type { Category } from '#core/domain/message/message-options.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import type { SmsEncoding } from '#core/domain/message/segments.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { whereMessage, type MessageAddress } from './messages.ts';
import { withTenant } from '../query/tenant-scope.ts';

/** A message that is to be sent again: what its sender specified, and its state. */
export type RetriedRow = {
  readonly id: MessageId;
  readonly status: MessageState;
  readonly channel: Channel;
  readonly recipient: string;
  /** Its normal form. */
  readonly address: string;
  /** As sent. */
  readonly sender: string | null;
  /** Null if it is deleted; only the size for a content that is stored apart. */
  readonly content: unknown;
  readonly external_id: string | null;
  readonly category: Category;
  readonly priority: 0 | 1 | 2;
  readonly test: boolean;
  readonly pinned_account_id: ProviderAccountId | null;
  readonly segments: number | null;
  readonly encoding: SmsEncoding | null;
  readonly delivery_guarantee: string;
  readonly content_retention: string;
  readonly metadata: unknown;
  readonly tags: readonly string[] | null;
};

export async function findRetried(
  tenantId: TenantId,
  tx: TransactionSql,
  address: MessageAddress,
): Promise<RetriedRow | undefined> {
  const [row] = await tx<RetriedRow[]>`
    select m.id, s.status, m.channel, m.recipient, coalesce(m.address, m.recipient) as address, m.sender, m.content,
      m.external_id, m.category, m.priority, m.test, m.pinned_account_id, m.segments, m.encoding, m.delivery_guarantee,
      m.content_retention, m.metadata, m.tags
    from messages m
    cross join lateral (
      select t.status from message_states t where t.seq = m.seq and t.purge_on = ${address.purgeOn} limit 1) s
    where ${whereMessage(tenantId, tx, address)}`;
  return row;
}

/** Longer than the deadline of other transactions, because up to fifteen megabytes are written. */
const COPY_DEADLINE_MS = 10_000;

/**
 * Copies a content that is stored apart for another message, before that message is accepted.
 * @returns false if the content is deleted.
 * @throws DependencyError: it is then unknown whether the copy is stored; a content without a message is deleted later.
 */
export function copyContent(
  sql: Sql,
  tenantId: TenantId,
  from: MessagePlace,
  to: MessagePlace,
): Promise<boolean> {
  return withTenant(
    sql,
    tenantId,
    async (tx) => {
      const [row] = await tx<{ copied: boolean }[]>`
        select copy_content(${from.seq}, ${from.purgeOn}, ${to.seq}, ${to.purgeOn}) as copied`;
      return row?.copied === true;
    },
    COPY_DEADLINE_MS,
  );
}
