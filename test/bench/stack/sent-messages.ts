import { randomBytes } from 'node:crypto';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { messageText } from '../load/request-text.ts';
import { placeMessages } from './layout.ts';
import type { BenchTenant } from './seed.ts';

/** A message that the provider has accepted and that waits for its receipt. */
export type SentMessage = {
  readonly id: string;
  readonly tenant: BenchTenant;
  /** The provider's id of the message. */
  readonly sid: string;
  readonly to: string;
};

const AT_ONCE = 5_000;

/** Stores messages as the worker leaves them after the call, with tenants interleaved. */
export async function storeSentMessages(
  sql: Sql,
  tenants: readonly BenchTenant[],
  messages: number,
): Promise<SentMessage[]> {
  const stored: SentMessage[] = [];
  for (let from = 0; from < messages; from += AT_ONCE)
    stored.push(...(await storeSome(sql, tenants, from, Math.min(AT_ONCE, messages - from))));
  await sql`vacuum (analyze) messages, message_results, awaited_receipts`;
  return stored;
}

async function storeSome(
  sql: Sql,
  tenants: readonly BenchTenant[],
  from: number,
  count: number,
): Promise<SentMessage[]> {
  const placed = await placeMessages(sql, Array<number>(count).fill(Date.now()));
  const rows = placed.map((place, i) => ({
    ...place,
    ...messageText(from + i),
    tenant: tenants[(from + i) % tenants.length] as BenchTenant,
    sid: `SM${randomBytes(16).toString('hex')}`,
  }));
  await sql`
    with fresh as materialized (
      select * from unnest(${rows.map(({ seq }) => seq)}::bigint[], ${rows.map(({ purgeOn }) => purgeOn)}::date[],
        ${rows.map(({ id }) => id)}::uuid[], ${rows.map(({ tenant }) => tenant.tenantId)}::uuid[],
        ${rows.map(({ tenant }) => tenant.accountId)}::uuid[], ${rows.map(({ sid }) => sid)}::text[],
        ${rows.map(({ to }) => to)}::text[], ${rows.map(({ body }) => body)}::text[])
        as f (seq, purge_on, id, tenant, account, sid, recipient, body)
    ), stored as (
      insert into messages (seq, purge_on, id, tenant_id, channel, recipient, address, content, category, priority, test,
        segments, encoding, delivery_guarantee, content_retention, enqueued_at)
      select seq, purge_on, id, tenant, 'sms', recipient, recipient, json_build_object('body', body), 'transactional', 1,
        false, 1, 'GSM-7', 'at_least_once', 'retain', now()
      from fresh order by seq
    ), results as (
      insert into message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, account_id, provider,
        provider_message_id, final, expires_at, sent_at, updated_at, event_seq, started_at, worker, http_status)
      select seq, purge_on, tenant, 'sent', 1, false, account, 'twilio', sid, false, now() + interval '1 day', now(), now(),
        nextval('event_seq'), now(), 0, 201
      from fresh order by seq
    )
    insert into awaited_receipts (seq, purge_on, tenant_id, due_at)
    select seq, purge_on, tenant, now() + interval '3 days' from fresh order by seq`;
  return rows.map(({ id, tenant, sid, to }) => ({ id, tenant, sid, to }));
}
