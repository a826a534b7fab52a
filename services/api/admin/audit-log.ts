import { z } from 'zod';
import { AUDIT_ACTIONS } from '#core/domain/tenant/audit-action.ts';
import { scanAudit, type AuditPosition, type ListedAudit } from '#core/store/tenants/audit-log.ts';
import type { AdminDeps } from './admin-deps.ts';
import { filteredPage } from '../http/lists/filtered-page.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import type { RouteModule } from '../http/routes/route.ts';
import { pageOf, pageQuery } from '../http/lists/page.ts';
import { text } from '../http/input/fields.ts';
import { timeField } from '../http/input/time-field.ts';

const AuditEntry = z
  .object({
    id: z.uuid(),
    actor: z.string().describe('User id of the person who made the change, or the name of another actor.'),
    actorName: z
      .string()
      .nullable()
      .describe('Name of the person at that time; null if they are not a member.'),
    actorEmail: z.string().nullable().describe('Null if the tenant does not know it.'),
    action: z.string().describe('For example `provider.created`.'),
    target: z.string().describe('Id of the changed object.'),
    targetName: z
      .string()
      .nullable()
      .describe('Name or label of the object at that time; for a suppressed recipient the masked address.'),
    changes: z
      .array(
        z
          .object({ field: z.string(), from: z.unknown().optional(), to: z.unknown().optional() })
          .meta({ id: 'AuditChange', description: 'One field that changed.' }),
      )
      .describe(
        'The changed fields; long values are cut. Changed secrets are listed without `from` and `to`.',
      ),
    at: z.iso.datetime(),
    ip: z.string().nullable(),
    requestId: z.string().nullable(),
    appName: z.string().nullable().describe('Name of the client, from `X-App-Name`.'),
  })
  .meta({
    id: 'AuditEntry',
    description: 'One change.',
    examples: [
      {
        id: '5d0f3b7e-1c2a-4e9b-8d6f-7a8b9c0d1e2f',
        actor: '9a7b6c5d-4e3f-4a1b-8c0d-1e2f3a4b5c6d',
        actorName: 'Ann Example',
        actorEmail: 'ann@example.com',
        action: 'provider.updated',
        target: '3f0a1c52-8a4e-4d0b-9f57-2c6f5f1f7a10',
        targetName: 'Twilio, main account',
        changes: [{ field: 'rateLimitPerSecond', from: null, to: 20 }],
        at: '2026-01-15T09:30:00.000Z',
        ip: '203.0.113.7',
        requestId: '6f1f9c1e-7a52-4d8e-9a3b-0c5d2e4f6a7b',
        appName: 'dashboard',
      },
    ],
  });

export function auditLogRoute({ read, cursors }: AdminDeps): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/audit-log',
    operation: 'listAuditEntries',
    summary: 'List changes, by whom and from where',
    description:
      'Newest first: every change by a member, and changes that the service makes to a tenant by itself. A page reads at most 5,000 entries or 100 ms: with a filter it may be short, even empty, and still have a `nextCursor`.',
    tag: 'Audit log',
    auth: { kind: 'bearer', role: 'admin' },
    query: z.object({
      ...pageQuery,
      actor: text(1, 200).optional().describe('Only changes by this user or other actor.'),
      action: z.enum(AUDIT_ACTIONS).optional().describe('Only this action, such as `provider.created`.'),
      since: timeField().optional().describe('Only changes at or after this time.'),
    }),
    response: pageOf(AuditEntry),
    errors: ['invalid_cursor'],
    handler: async ({ caller: { tenant }, query: { limit, cursor, actor, action, since }, gone }) => {
      const pages = { list: 'audit-log', of: tenant.id, actor, action, since };
      const before = cursors.position<AuditPosition>(pages, cursor);
      const filter = { actor, action, since: since && new Date(since).toISOString() };
      const { rows, next } = await read(tenant.id, gone(), (tx) =>
        filteredPage({
          limit,
          before,
          isFiltered: actor !== undefined || action !== undefined,
          positionOf: ({ position }: ListedAudit) => position,
          scan: (range) => scanAudit(tenant.id, tx, filter, range),
        }),
      );
      return {
        body: {
          items: rows.map(({ record }) => ({
            ...record,
            changes: [...record.changes],
            at: record.at.toISOString(),
          })),
          nextCursor: cursors.next(pages, next),
        },
      };
    },
  });
}
