import { z } from 'zod';
import { listAudit } from '#core/store/audit-log.ts';
import { withTenant } from '#core/store/tenant-scope.ts';
import type { AdminDeps } from '../admin-change.ts';
import { pageFrom } from '../cursor.ts';
import { defineRoute, pageOf, pageQuery, type RouteModule } from '../routes-kit.ts';
import { text } from '../fields.ts';
import { timeField } from '../time-field.ts';

const AuditEntry = z
  .object({
    id: z.uuid(),
    actor: z.string().describe('The user id of who did it, or what else did.'),
    action: z.string().describe('For example `provider.created`.'),
    target: z.string().describe('The id of what it was done to.'),
    at: z.iso.datetime(),
    ip: z.string().nullable(),
    requestId: z.string().nullable(),
    appName: z.string().nullable().describe('What the client called itself in `X-App-Name`.'),
  })
  .meta({ id: 'AuditEntry' });

export function auditLogRoute({ sql, cursors }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/audit-log',
    summary: 'List what was changed, by whom and from where',
    tag: 'Audit log',
    auth: { kind: 'bearer', role: 'admin' },
    query: z.object({
      ...pageQuery,
      actor: text(1, 200).optional(),
      action: text(1, 100).optional(),
      since: timeField().optional().describe('Only what was done at this time or later.'),
    }),
    response: pageOf(AuditEntry),
    errors: ['invalid_cursor'],
    handler: async ({ caller: { tenant }, query: { limit, cursor, actor, action, since } }) => {
      const pages = { list: 'audit-log', of: tenant.id, actor, action, since };
      const before = cursor === undefined ? undefined : Number(cursors.open(pages, cursor));
      const query = {
        actor,
        action,
        since: since === undefined ? undefined : new Date(since),
        before,
        most: limit + 1,
      };
      const rows = await withTenant(sql, tenant.id, (tx) => listAudit(tenant.id, tx, query));
      return {
        body: pageFrom(
          rows,
          limit,
          ({ record }) => ({ ...record, at: record.at.toISOString() }),
          ({ seq }) => cursors.seal(pages, String(seq)),
        ),
      };
    },
  });
}
