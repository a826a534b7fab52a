import type { AuditEntry, AuditFacts } from '#core/domain/audit-entry.ts';
import type { TenantId } from '#core/domain/ids.ts';
import type { TransactionSql } from '#core/platform/postgres.ts';

/** Who did something, from where. */
export type AuditOrigin = {
  /** The user's id. */
  readonly actor: string;
  readonly ip: string;
  readonly requestId: string;
  readonly appName: string | null;
};

export type AuditRecord = AuditOrigin & {
  readonly id: string;
  /** What was done, for example `provider.created`. */
  readonly action: string;
  /** The id of what it was done to. */
  readonly target: string;
  readonly at: Date;
};

/**
 * Belongs in the transaction of the change that it tells of, so that neither is kept without the other.
 * @param facts For the entry outside the database alone.
 */
export async function recordAudit(
  tenantId: TenantId,
  tx: TransactionSql,
  origin: AuditOrigin,
  { action, target, facts }: Pick<AuditEntry, 'action' | 'target'> & { readonly facts: AuditFacts },
): Promise<AuditEntry> {
  const { actor, requestId } = origin;
  const [row] = await tx<{ id: string; seq: number; at: Date }[]>`
    insert into audit_log (tenant_id, actor, action, target, ip, request_id, app_name)
    values (${tenantId}, ${actor}, ${action}, ${target}, ${origin.ip}, ${requestId}, ${origin.appName})
    returning id, seq, at`;
  if (row === undefined) throw new Error('an audit entry returned no row');
  return { ...row, at: row.at.toISOString(), tenantId, actor, action, target, requestId, facts };
}

export type AuditQuery = {
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  readonly since?: Date | undefined;
  /** Only what is older than this position. */
  readonly before: number | undefined;
  readonly most: number;
};

type AuditRow = {
  readonly seq: number;
  readonly id: string;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly at: Date;
  readonly ip: string;
  readonly request_id: string;
  readonly app_name: string | null;
};

/** Newest first. */
export async function listAudit(
  tenantId: TenantId,
  tx: TransactionSql,
  query: AuditQuery,
): Promise<{ readonly record: AuditRecord; readonly seq: number }[]> {
  const { actor, action, since, before, most } = query;
  const rows = await tx<AuditRow[]>`
    select seq, id, actor, action, target, at, ip, request_id, app_name from audit_log
    where tenant_id = ${tenantId}
      ${actor === undefined ? tx`` : tx`and actor = ${actor}`}
      ${action === undefined ? tx`` : tx`and action = ${action}`}
      ${since === undefined ? tx`` : tx`and at >= ${since}`}
      ${before === undefined ? tx`` : tx`and seq < ${before}`}
    order by seq desc limit ${most}`;
  return rows.map(({ seq, request_id, app_name, ...row }) => ({
    seq,
    record: { ...row, requestId: request_id, appName: app_name },
  }));
}
