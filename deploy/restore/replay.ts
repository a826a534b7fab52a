import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { createMessageIds, type MessageIds } from '#core/domain/storage/message-id.ts';
import { ROLES } from '#core/domain/tenant/role.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { eraseContent } from '#core/store/messages/erasure.ts';
import { whereMessage } from '#core/store/messages/messages.ts';
import { commitUnlessDry } from './commit-unless-dry.ts';
import { purgeTenant } from './purge-tenant.ts';
import { suppressAgain } from './suppress-again.ts';
import { tenantHistories } from './tenant-histories.ts';
import type { LastBrake, LastKey, LastMembership, LastReceiptUrl, TenantHistory } from './tenant-history.ts';

export type ReplaySummary = {
  /** Number of entries that the database did not contain: they happened after the time that it was restored to. */
  readonly entries: number;
  /** Number of changed rows, by kind of change. */
  readonly done: Readonly<Record<string, number>>;
  /** Tenants that were purged, whether or not the restore brought them back: their keys must be destroyed. */
  readonly purged: readonly string[];
  /** Tenants without an owner. */
  readonly ownerless: readonly string[];
  /** Number of members whom the tenant's resource may make owners again, by tenant. */
  readonly mayReturn: Readonly<Record<string, number>>;
  /** Number of changes that only people can repeat, by action. */
  readonly lost: Readonly<Record<string, number>>;
};

type ReplayOptions = {
  /** False: a dry run that rolls everything back. */
  readonly apply: boolean;
  readonly destroyKey: (tenantId: string) => Promise<void>;
};

/**
 * Repeats, in a database that was restored to an earlier time, the changes that take rights away: keys revoked, members
 * removed or given a lower role, accounts disabled or deleted, webhook endpoints paused or deleted, recipients suppressed,
 * contents of messages erased, tenants suspended and purged, channels braked. Nobody gains a right that they did not have at
 * that time, except that a suspension or a brake that was lifted is lifted again. Skips what the database already contains, and
 * writes what it repeated into the database's audit log: a second run finds nothing to do and does not undo decisions made in
 * between.
 *
 * No service may run meanwhile.
 * @param sql As the owner of the schema's objects, with `despatch` as search path.
 */
export async function replayAudit(
  sql: Sql,
  entries: readonly AuditEntry[],
  options: ReplayOptions,
): Promise<ReplaySummary> {
  const done: Record<string, number> = {};
  const count = (what: string, rows: number): void => {
    if (rows > 0) done[what] = (done[what] ?? 0) + rows;
  };
  const unknown = await onlyUnknown(sql, entries);
  const tenants = tenantHistories(unknown);
  const lost: Record<string, number> = {};
  const ownerless: string[] = [];
  const mayReturn: Record<string, number> = {};
  const purges = [...tenants].flatMap(([id, { purge }]) => (purge === null ? [] : [{ id, ...purge }]));

  await commitUnlessDry(sql, options.apply, async (tx) => {
    const ids = await messageIds(tx);
    const kept = new Set<string>();
    for (const [tenantId, history] of tenants) {
      for (const uid of history.gone)
        await tx`insert into gone_resources (uid) values (${uid}) on conflict do nothing`;
      if (history.purge !== null) continue;
      // Even if the restored database has no such tenant: the resource creates it again.
      if (history.mayReturn.size > 0) mayReturn[tenantId] = history.mayReturn.size;
      for (const [action, n] of history.lost) lost[action] = (lost[action] ?? 0) + n;
      const [present] = await tx`select from tenants where id = ${tenantId} for update`;
      if (present === undefined) continue;
      await settleTenant(tx, tenantId, history, count);
      for (const id of await settleErasures(tx, tenantId, history.erased, ids, count)) kept.add(id);
      const [owner] = await tx`select from members where tenant_id = ${tenantId} and role = 'owner' limit 1`;
      if (owner === undefined) ownerless.push(tenantId);
    }
    if (kept.size > 0) lost['message.content_erased'] = kept.size;
    // An erasure that is not done yet stays unknown, so that a later run does it.
    const isSettled = ({ tenantId, action, target }: AuditEntry): boolean =>
      tenants.get(tenantId)?.purge === null && !(action === 'message.content_erased' && kept.has(target));
    await writeLog(tx, unknown.filter(isSettled));
  });

  for (const purge of purges) {
    const [present] = await sql`select from tenants where id = ${purge.id}`;
    if (present !== undefined) count('tenants purged', 1);
    if (!options.apply) continue;
    if (present !== undefined) await purgeTenant(sql, purge, () => options.destroyKey(purge.id));
    else await options.destroyKey(purge.id);
  }
  return { entries: unknown.length, done, purged: purges.map(({ id }) => id), ownerless, mayReturn, lost };
}

/** The audit log shows what the database contains: each entry was committed together with its change. */
async function onlyUnknown(sql: Sql, entries: readonly AuditEntry[]): Promise<AuditEntry[]> {
  const known = new Set<string>();
  const oldest = entries[0]?.at;
  if (oldest === undefined) return [];
  // The timestamps within one transaction differ slightly.
  const rows = sql<{ id: string }[]>`
    select id from audit_log where at >= ${oldest}::timestamptz - interval '1 day'`.cursor(10_000);
  for await (const part of rows) for (const { id } of part) known.add(id);
  return entries.filter(({ id }) => !known.has(id));
}

type Count = (what: string, rows: number) => void;

async function settleTenant(
  tx: TransactionSql,
  tenantId: string,
  history: TenantHistory,
  count: Count,
): Promise<void> {
  await settleSuspension(tx, tenantId, history, count);
  for (const [channel, brake] of history.brakes)
    await settleBrake(tx, tenantId, { channel, ...brake }, count);
  for (const [userId, membership] of history.members)
    await settleMember(tx, tenantId, { userId, ...membership }, count);
  for (const [id, key] of history.keys) await settleKey(tx, tenantId, { id, ...key }, count);
  for (const [id, url] of history.receiptUrls) await settleReceiptUrl(tx, tenantId, { id, ...url }, count);
  await settleSuppressions(tx, tenantId, history, count);
  for (const [id, state] of history.endpoints) await settleEndpoint(tx, tenantId, { id, state }, count);
  for (const [id, state] of history.accounts) {
    if (state === 'deleted') {
      const { count: rows } = await tx`
        update provider_accounts set status = 'deleted', status_reason = null, ciphertext = null, previous_ciphertext = null,
          previous_until = null, verify_requested_at = null, version = version + 1, updated_at = now()
        where tenant_id = ${tenantId} and id = ${id} and may_move_account('tenant', status, 'deleted')`;
      count('provider accounts deleted', rows);
      continue;
    }
    const to = state === 'disabled' ? 'disabled' : 'active';
    const { count: rows } = await tx`
      update provider_accounts set status = ${to}, status_reason = null, version = version + 1, updated_at = now()
      where tenant_id = ${tenantId} and id = ${id} and may_move_account('tenant', status, ${to})`;
    count(`provider accounts ${state}`, rows);
  }
}

/** Workers drop the queued deliveries of a deleted endpoint. */
async function settleEndpoint(
  tx: TransactionSql,
  tenantId: string,
  { id, state }: { readonly id: string; readonly state: 'deleted' | 'paused' | 'resumed' },
  count: Count,
): Promise<void> {
  const { count: rows } =
    state === 'deleted'
      ? await tx`
          update webhook_endpoints set deleted_at = now(), secret = '', previous_secret = null, previous_until = null,
            client_certificate = null, headers = '{}', url = split_part(url, '?', 1), status = 'disabled',
            status_reason = null, version = version + 1, updated_at = now()
          where tenant_id = ${tenantId} and id = ${id} and deleted_at is null`
      : await tx`
          update webhook_endpoints set status = ${state === 'paused' ? 'paused' : 'active'}, status_reason = null, failures = 0,
            failing_since = null, call_at = '-infinity', version = version + 1, updated_at = now()
          where tenant_id = ${tenantId} and id = ${id} and deleted_at is null
            and (status = 'paused') is distinct from ${state === 'paused'}
            and may_move_endpoint('tenant', status, ${state === 'paused' ? 'paused' : 'active'})`;
  count(`webhook endpoints ${state}`, rows);
}

/** Stores the entries without addresses, which no log contains. */
async function settleSuppressions(
  tx: TransactionSql,
  tenantId: string,
  { suppressions }: TenantHistory,
  count: Count,
): Promise<void> {
  if (suppressions.size === 0) return;
  const rows = [...suppressions.values()].map(
    ({ id, at, isByRecipient, channel, addressKey, reason, scope, expiresAt }) => ({
      id,
      tenant_id: tenantId,
      channel,
      address_key: `\\x${addressKey}`,
      address: null,
      reason,
      scope,
      source: isByRecipient ? 'recipient' : 'api',
      message_id: null,
      expires_at: expiresAt,
      created_at: at,
    }),
  );
  count('recipients suppressed', await suppressAgain(tx, rows));
}

async function messageIds(tx: TransactionSql): Promise<MessageIds> {
  const [row] = await tx<{ key: Buffer }[]>`select key from message_id_key`;
  if (row === undefined) throw new Error('the database has no key of message ids');
  return createMessageIds(row.key);
}

/**
 * Erases again the contents of messages that were erased since. @returns the messages that wait in this database, as they were not
 * sent or canceled yet: a worker needs their content, so people must cancel them first.
 */
async function settleErasures(
  tx: TransactionSql,
  tenantId: string,
  erased: ReadonlySet<string>,
  ids: MessageIds,
  count: Count,
): Promise<string[]> {
  const kept: string[] = [];
  // `eraseContent` erases contents of the transaction's tenant.
  await tx`select set_config('app.tenant', ${tenantId}, true)`;
  for (const id of erased) {
    const place = ids.decode(id);
    if (place === undefined) continue;
    const [message] =
      await tx`select from messages m where ${whereMessage(tenantId as TenantId, tx, { ...place, id })}`;
    if (message === undefined) continue;
    const erasure = await eraseContent(tx, { seq: place.seq, purge_on: place.purgeOn });
    if (erasure === 'live') kept.push(id);
    if (erasure === 'erased') count('contents of messages erased', 1);
  }
  await tx`select set_config('app.tenant', '', true)`;
  return kept;
}

/** The vendor has had the new URL since then, and the grace period of the previous one is over. */
async function settleReceiptUrl(
  tx: TransactionSql,
  tenantId: string,
  { id, version, graceUntil }: LastReceiptUrl & { readonly id: string },
  count: Count,
): Promise<void> {
  const { count: rows } = await tx`
    update provider_accounts set receipt_version = ${version}, receipt_grace_until = ${graceUntil}, version = version + 1,
      updated_at = now()
    where tenant_id = ${tenantId} and id = ${id} and status <> 'deleted' and receipt_version < ${version}`;
  count('receipt URLs rotated', rows);
}

async function settleSuspension(
  tx: TransactionSql,
  tenantId: string,
  { suspension, isRetained }: TenantHistory,
  count: Count,
): Promise<void> {
  if (suspension === null) return;
  const { isSuspended, reason, at, by } = suspension;
  const why = isSuspended ? tx`coalesce(${reason}::text, t.suspension_reason, 'manual')` : tx`null::text`;
  const { count: rows } = await tx`
    update tenants t set
      status = ${isSuspended ? 'suspended' : 'active'},
      suspension_reason = ${why},
      suspended_at = case when ${isSuspended} then coalesce(t.suspended_at, ${at}) end,
      suspended_by = case when ${isSuspended} then ${by}::text end,
      updated_at = now()
    where t.id = ${tenantId} and may_move_tenant(t.status, ${isSuspended ? 'suspended' : 'active'})
      and (t.status = 'suspended', t.suspension_reason) is distinct from (${isSuspended}, ${why})`;
  count(isSuspended ? 'tenants suspended' : 'tenants resumed', rows);
  // Nobody could suspend or resume a tenant whose owner no longer exists; a resource made since takes it over again.
  if (isRetained) await tx`update tenants set owner_uid = null where id = ${tenantId}`;
}

/**
 * Releases a brake that was lifted, and applies one that was applied since. The time of the last lift is stored in either case: reports
 * about messages that were final before it do not count.
 */
async function settleBrake(
  tx: TransactionSql,
  tenantId: string,
  { channel, applied, liftedAt, isLifted }: LastBrake & { readonly channel: string },
  count: Count,
): Promise<void> {
  if (liftedAt !== null) await tx`select restart_rates(${tenantId}, ${channel})`;
  if (applied === null) {
    const { count: rows } = await tx`
      update brakes set level = null, lifted_at = ${liftedAt}
      where tenant_id = ${tenantId} and channel = ${channel} and level is not null`;
    count('brakes lifted', rows);
    return;
  }
  const { reason, rate, bound, gapMs, at } = applied;
  const level = isLifted ? null : applied.level;
  const [brake] = await tx<{ was: string | null }[]>`
    insert into brakes as b (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at, lifted_at)
    values (${tenantId}, ${channel}, ${level}, ${reason}, ${rate}, ${bound}, ${at}, ${gapMs}, now(), ${liftedAt})
    on conflict (tenant_id, channel) do update set level = excluded.level, reason = excluded.reason, rate = excluded.rate,
      bound = excluded.bound, applied_at = excluded.applied_at, gap_ms = excluded.gap_ms, next_at = excluded.next_at,
      lifted_at = coalesce(excluded.lifted_at, b.lifted_at)
    returning old.level as was`;
  const was = brake?.was ?? null;
  if (was !== level) count(level === null ? 'brakes lifted' : `channels ${level}`, 1);
}

async function settleMember(
  tx: TransactionSql,
  tenantId: string,
  { userId, isRemoved, role, since, invitations }: LastMembership & { readonly userId: string },
  count: Count,
): Promise<void> {
  // A member who accepted an invitation since then is still invited in this database, under another id, which the entry of the
  // acceptance names. Where that entry is missing, a membership that an invitation began is still known by its time.
  const isMeant = tx`m.tenant_id = ${tenantId} and (m.user_id = ${userId} or m.user_id = any (${[...invitations]}::uuid[])
    or (date_trunc('milliseconds', m.created_at) = ${since}::timestamptz
      and exists (select from users u where u.id = m.user_id and u.subject is null)))`;
  if (isRemoved) {
    const { count: rows } = await tx`delete from members m where ${isMeant}`;
    count('members removed', rows);
  } else if (role !== null) {
    const { count: rows } = await tx`
      update members m set role = ${role}
      where ${isMeant} and array_position(${[...ROLES]}::text[], m.role) < array_position(${[...ROLES]}::text[], ${role})`;
    count('roles lowered', rows);
  }
}

async function settleKey(
  tx: TransactionSql,
  tenantId: string,
  { id, isRevoked, scopes, until }: LastKey & { readonly id: string },
  count: Count,
): Promise<void> {
  if (scopes !== null) {
    const { count: rows } = await tx`
      update api_keys k set scopes = array(select s from unnest(k.scopes) s where s = any (${[...scopes]}))
      where k.tenant_id = ${tenantId} and k.id = ${id} and not k.scopes <@ ${[...scopes]}`;
    count('keys narrowed', rows);
  }
  if (until !== null) {
    const { count: rows } = await tx`
      update api_keys k set expires_at = ${until}, previous_secret_hash = null, grace_until = null
      where k.tenant_id = ${tenantId} and k.id = ${id} and coalesce(k.expires_at, 'infinity') > ${until}::timestamptz`;
    count('keys expired', rows);
  }
  const { count: rows } = await tx`
    update api_keys k set revoked_at = now(), grace_until = null, previous_secret_hash = null
    where k.tenant_id = ${tenantId} and k.id = ${id} and k.revoked_at is null
      and (${isRevoked} or cardinality(k.scopes) = 0)`;
  count('keys revoked', rows);
}

/**
 * Writes the entries into the tenant's audit log again, with their original times. Tenants that do not exist have no log.
 */
async function writeLog(tx: TransactionSql, entries: readonly AuditEntry[]): Promise<void> {
  const ROWS = 1_000;
  for (let from = 0; from < entries.length; from += ROWS) {
    const rows = entries.slice(from, from + ROWS);
    await tx`
      insert into audit_log (id, tenant_id, actor, action, target, request_id, at, details)
      select x.id, x."tenantId", x.actor, x.action, x.target, x."requestId", x.at,
        jsonb_build_object('replayed', true, 'facts', x.facts)
      from jsonb_to_recordset(${tx.json(rows)}) as x (id uuid, "tenantId" uuid, actor text, action text,
        target text, "requestId" text, at timestamptz, facts jsonb)
      where exists (select from tenants t where t.id = x."tenantId")`;
  }
}
