import type { AuditAction } from '#core/domain/tenant/audit-action.ts';
import type { AuditChange } from '#core/domain/tenant/audit-change.ts';
import type { AuditEntry, AuditFacts } from '#core/domain/tenant/audit-entry.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Json, TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { ScanRange, Scanned } from '../query/scan.ts';

/** Who made a change, and from where. */
export type AuditOrigin = {
  /** The user's id. */
  readonly actor: string;
  readonly ip: string;
  readonly requestId: string;
  readonly appName: string | null;
};

/** What people want to know about a change. Kept in the database only, because names and addresses must not be logged. */
export type AuditDetails = {
  /** The target's name before the change. */
  readonly name?: string | null;
  readonly changes?: readonly AuditChange[];
};

export type AuditRecord = AuditOrigin & {
  readonly id: string;
  readonly actorName: string | null;
  readonly actorEmail: string | null;
  readonly targetName: string | null;
  readonly changes: readonly AuditChange[];
  /** What was done, for example `provider.created`. */
  readonly action: string;
  /** The id of the changed object. */
  readonly target: string;
  readonly at: Date;
};

/** What was done. `facts`: only for the log line outside the database. */
type Audited = { readonly action: AuditAction; readonly target: string; readonly facts: AuditFacts };

/** Writes an audit log entry, in the transaction of the change, so that neither is stored without the other. */
export async function recordAudit(
  tenantId: TenantId,
  tx: TransactionSql,
  origin: AuditOrigin,
  { action, target, facts }: Audited,
  { name = null, changes = [] }: AuditDetails = {},
): Promise<AuditEntry> {
  const { actor, requestId } = origin;
  const [row] = await tx<{ id: string; seq: number; at: Date }[]>`
    insert into audit_log (tenant_id, actor, actor_name, actor_email, action, target, target_name, changes, ip, request_id,
      app_name)
    select ${tenantId}, ${actor}, who.name, who.email, ${action}, ${target}, ${name},
      ${changes.length === 0 ? null : tx.json([...changes] as Json)}, ${origin.ip}, ${requestId}, ${origin.appName}
    from (select) one left join lateral (
      select coalesce(u.name, u.subject) as name, case when m.email_known then u.email end as email
      from members m join users u on u.id = m.user_id where m.tenant_id = ${tenantId} and m.user_id::text = ${actor}
    ) who on true
    returning id, seq, at`;
  if (row === undefined) throw new Error('an audit entry returned no row');
  return { ...row, at: row.at.toISOString(), tenantId, actor, action, target, requestId, facts };
}

export type AuditFilter = {
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  /** Made at this time or later. */
  readonly since?: string | undefined;
};

/** An entry's position in the list. The time is text, because it is finer than a `Date`. */
export type AuditPosition = { readonly at: string; readonly seq: number };

export type ListedAudit = { readonly record: AuditRecord; readonly position: AuditPosition };

type AuditRow = {
  readonly scanned: number;
  readonly end_at: string;
  readonly end_seq: number;
  readonly seq: number;
  readonly id: string | null;
  readonly actor: string;
  readonly actor_name: string | null;
  readonly actor_email: string | null;
  readonly action: string;
  readonly target: string;
  readonly target_name: string | null;
  readonly changes: readonly AuditChange[] | null;
  readonly at: Date;
  readonly position: string;
  readonly ip: string;
  readonly request_id: string;
  readonly app_name: string | null;
};

/** Reads entries, newest first. */
export async function scanAudit(
  tenantId: TenantId,
  tx: TransactionSql,
  { actor, action, since }: AuditFilter,
  { before, rows, most }: ScanRange<AuditPosition>,
): Promise<Scanned<ListedAudit, AuditPosition>> {
  const scanned = await tx<AuditRow[]>`
    with scanned as materialized (
      select seq, id, actor, actor_name, actor_email, action, target, target_name, changes, at, ip, request_id, app_name
      from audit_log
      where tenant_id = ${tenantId}
        ${since === undefined ? tx`` : tx`and at >= ${since}::text::timestamptz`}
        ${before === undefined ? tx`` : tx`and (at, seq) < (${before.at}::text::timestamptz, ${before.seq})`}
      order by at desc, seq desc limit ${rows}
    ), found as (
      select * from scanned
      where true
        ${actor === undefined ? tx`` : tx`and actor = ${actor}`}
        ${action === undefined ? tx`` : tx`and action = ${action}`}
      order by at desc, seq desc limit ${most}
    ), reach as (
      select count(*) over ()::integer as scanned, r.at::text as end_at, r.seq as end_seq
      from scanned r order by r.at, r.seq limit 1
    )
    select r.*, f.*, f.at::text as position from reach r left join found f on true order by f.at desc, f.seq desc`;
  const [first] = scanned;
  return {
    found: scanned.flatMap((row) => (row.id === null ? [] : [listed({ ...row, id: row.id })])),
    scanned: first?.scanned ?? 0,
    end: first && { at: first.end_at, seq: first.end_seq },
  };
}

function listed(row: AuditRow & { readonly id: string }): ListedAudit {
  const { id, actor, action, target, at, ip, position, seq } = row;
  const record: AuditRecord = {
    id,
    actor,
    actorName: row.actor_name,
    actorEmail: row.actor_email,
    action,
    target,
    targetName: row.target_name,
    changes: row.changes ?? [],
    at,
    ip,
    requestId: row.request_id,
    appName: row.app_name,
  };
  return { record, position: { at: position, seq } };
}
