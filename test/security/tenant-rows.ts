import type { Sql } from '#core/platform/postgres/postgres.ts';
import { plantAttempt, plantResult } from '#test/support/planted-messages.ts';

/** Plants rows that the api cannot write: the attempts of a message and their results. */
export async function plantHistory(
  admin: Sql,
  message: { readonly id: string; readonly mark: string; readonly accountId: string },
): Promise<void> {
  const { id, mark, accountId } = message;
  const failure = {
    class: 'unknown',
    code: mark,
    retryable: true,
    providerCode: mark,
    providerMessage: mark,
  };
  const provider = 'twilio';
  for (const number of [1, 2]) {
    await plantAttempt(admin, id, {
      number,
      outcome: 'rejected_transient',
      status: 'deferred',
      accountId,
      provider,
      failure,
      mark,
    });
    await admin`insert into event_log (message_seq, purge_on, tenant_id, type, source, at, details)
      select seq, purge_on, tenant_id, 'message.sent', 'worker', now(), ${admin.json({ mark })} from messages where id = ${id}`;
  }
  await admin`insert into receipts (tenant_id, message_seq, purge_on, attempt, receipt, failure, apply_at)
    select tenant_id, seq, purge_on, 1, 'sent', ${admin.json({ code: mark })}, now() + interval '1 day' from messages where id = ${id}`;
  await plantResult(admin, id, { status: 'sent', accountId, provider, providerMessageId: mark, failure });
}

/** Plants rows that only workers write: the deliveries of these messages to an endpoint. */
export async function plantDeliveries(
  admin: Sql,
  told: { readonly endpointId: string; readonly messages: readonly string[]; readonly mark: string },
): Promise<void> {
  const { endpointId, messages, mark } = told;
  for (const [index, id] of messages.entries()) {
    await admin`insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
      select ${index + 1}, ${index + 1}, 0, now(), ${endpointId}, tenant_id, purge_on, array[seq], '{0}' from messages where id = ${id}`;
    await admin`insert into delivery_attempts (endpoint_id, seq, attempt, purge_on, tenant_id, at, duration_ms, status, answer, succeeded)
      select ${endpointId}, ${index + 1}, 1, purge_on, tenant_id, now(), 1, 500, ${mark}, false from messages where id = ${id}`;
  }
  const [last] = messages.slice(-1);
  await admin`insert into endpoint_heads (endpoint_id, feed_seq, last_seq, matched_at, tenant_id)
    select ${endpointId}, 0, ${messages.length}, now(), tenant_id from messages where id = ${last ?? ''}`;
}

/**
 * Returns every row of a tenant, in every table with a `tenant_id`, without the time of a key's last use, which changes by
 * itself.
 */
export async function rowsOf(admin: Sql, tenantId: string): Promise<Record<string, unknown[]>> {
  const tables = await admin<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
    where c.relnamespace = 'despatch'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> 'api_key_uses' order by 1`;
  const rows: Record<string, unknown[]> = {};
  for (const { name } of tables) {
    const found = await admin<{ row: unknown }[]>`
      select to_jsonb(t) as row from ${admin(name)} t where tenant_id = ${tenantId} order by to_jsonb(t)::text`;
    rows[name] = found.map(({ row }) => row);
  }
  rows['tenants'] = [...(await admin`select * from tenants where id = ${tenantId}`)];
  rows['users'] = [
    ...(await admin`select u.* from users u join members m on m.user_id = u.id
      where m.tenant_id = ${tenantId} order by u.id`),
  ];
  return rows;
}

export type MessageFate = {
  readonly status: string;
  readonly reason: string | null;
  /** Null once no further attempt is planned. */
  readonly retries: number | null;
  /** Codes of the ended attempts, in order. */
  readonly codes: readonly (string | null)[];
};

/** Returns the current state of a message and the results of its attempts. */
export async function fateOf(admin: Sql, messageId: string): Promise<MessageFate> {
  const [row] = await admin<MessageFate[]>`
    select s.status, s.reason, l.retries::integer as retries, array(
      select a.failure ->> 'code' from attempts a where a.message_seq = m.seq and a.ended_at is not null order by a.number) as codes
    from messages m join message_states s on s.seq = m.seq left join live_messages l on l.seq = m.seq
    where m.id = ${messageId}`;
  if (row === undefined) throw new Error('no such message');
  return row;
}

/** Returns the whole content of the database as text. */
export async function everythingIn(admin: Sql): Promise<string> {
  const tables = await admin<{ name: string }[]>`
    select relname as name from pg_class
    where relnamespace = 'despatch'::regnamespace and relkind in ('r', 'p') and not relispartition`;
  const texts: string[] = [];
  for (const { name } of tables) {
    const [row] = await admin<{ text: string | null }[]>`
      select string_agg(to_jsonb(t)::text, ' ') as text from ${admin(name)} t`;
    texts.push(row?.text ?? '');
  }
  return texts.join('\n');
}
