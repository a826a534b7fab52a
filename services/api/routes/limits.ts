import { z } from 'zod';
import { notFound } from '#core/domain/app-error.ts';
import { effectiveLimits, LIMIT_NAMES, limitSources, type LimitName } from '#core/domain/plan.ts';
import { readLimits } from '#core/store/tenants.ts';
import { withTenant } from '#core/store/tenant-scope.ts';
import type { AdminDeps } from '../admin-change.ts';
import { defineRoute, type RouteModule } from '../routes-kit.ts';

const Limit = z.object({
  value: z.int().min(0),
  source: z
    .enum(['plan', 'override', 'default'])
    .describe('The plan, an override for this tenant, or the built-in default.'),
});

const Limits = z
  .object({
    plan: z.string(),
    limits: z.object(
      Object.fromEntries(LIMIT_NAMES.map((name) => [name, Limit])) as Record<LimitName, typeof Limit>,
    ),
    usage: z.object({
      day: z.iso.date().describe('The current day, in UTC.'),
      messages: z.int().min(0).describe('Messages that count to the quota of the day.'),
      resetsAt: z.iso.datetime(),
    }),
  })
  .meta({ id: 'Limits' });

export function limitsRoute({ sql }: Pick<AdminDeps, 'sql'>): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/limits',
    summary: "Show the tenant's limits, where they come from, and today's usage",
    tag: 'Account',
    auth: { kind: 'bearer', role: 'viewer' },
    response: Limits,
    handler: async ({ caller: { tenant } }) => {
      const row = await withTenant(sql, tenant.id, (tx) => readLimits(tenant.id, tx));
      if (row === undefined) throw notFound();
      const values = effectiveLimits(row.limits);
      const sources = limitSources(row.limits, row.overrides);
      const limits = Object.fromEntries(
        LIMIT_NAMES.map((name) => [name, { value: values[name], source: sources[name] }]),
      ) as z.output<typeof Limits>['limits'];
      const resetsAt = new Date(Date.parse(row.day) + 86_400_000).toISOString();
      return { body: { plan: row.plan, limits, usage: { day: row.day, messages: row.used, resetsAt } } };
    },
  });
}
