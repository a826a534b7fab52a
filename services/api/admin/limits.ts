import { z } from 'zod';
import { orNotFound } from '#core/domain/fault/app-error.ts';
import { DAY_MS } from '#core/domain/text/duration.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { LIMIT_BOUNDS } from '#core/domain/tenant/limit-bounds.ts';
import {
  effectiveLimits,
  isRateLimit,
  LIMIT_NAMES,
  limitSources,
  BUILT_IN_PLANS,
  type LimitName,
} from '#core/domain/tenant/plan.ts';
import { readLimits } from '#core/store/tenants/tenants.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { AdminDeps } from './admin-deps.ts';
import { Brake } from './tenants/tenant-view.ts';
import { defineRoute } from '../http/routes/define-route.ts';
import { warningsField } from '../http/routes/request-warnings.ts';
import type { RouteModule } from '../http/routes/route.ts';

const source = z
  .enum(['plan', 'override', 'default'])
  .describe(
    '`plan`: the Plan that the tenant names in the cluster, or, for a tenant that was created through the API, the built-in plan of that name. `override`: a limit of this tenant alone. `default`: the built-in default.',
  );

const limit = (name: LimitName) => {
  const { min, max } = LIMIT_BOUNDS[name];
  return z.object({ value: (isRateLimit(name) ? z.number() : z.int()).min(min).max(max), source });
};

const Limits = z
  .object({
    plan: z.string(),
    limits: z.object(
      Object.fromEntries(LIMIT_NAMES.map((name) => [name, limit(name)])) as Record<
        LimitName,
        ReturnType<typeof limit>
      >,
    ),
    brake: z
      .array(Brake)
      .describe(
        'Channels that are slowed or held because they exceeded `hardBounceRateMax` or `complaintRateMax`.',
      ),
    usage: z.object({
      day: z.iso.date().describe('The current day, in UTC.'),
      messages: z
        .int()
        .min(0)
        .max(INT32_MAX)
        .describe("Number of messages that count against the day's quota."),
      resetsAt: z.iso.datetime(),
    }),
    ...warningsField,
  })
  .meta({
    id: 'Limits',
    description: 'Limits of a tenant, and its usage today.',
    examples: [
      {
        plan: 'free',
        limits: Object.fromEntries(
          LIMIT_NAMES.map((name) => [name, { value: BUILT_IN_PLANS.free[name], source: 'plan' }]),
        ),
        brake: [],
        usage: { day: '2026-01-15', messages: 1_240, resetsAt: '2026-01-16T00:00:00.000Z' },
      },
    ],
  });

export function limitsRoute({ sql }: Pick<AdminDeps, 'sql'>): RouteModule {
  return defineRoute({
    method: 'GET',
    path: '/v1/admin/limits',
    operation: 'getLimits',
    summary: "Show the tenant's limits, where they come from, and today's usage",
    description: 'The limits of the tenant by its plan and its own overrides.',
    tag: 'Account',
    auth: { kind: 'bearer', role: 'viewer' },
    response: Limits,
    handler: async ({ caller: { tenant } }) => {
      const row = orNotFound(await withTenant(sql, tenant.id, (tx) => readLimits(tenant.id, tx)));
      const values = effectiveLimits(row.limits);
      const sources = limitSources(row.limits, row.overrides);
      const limits = Object.fromEntries(
        LIMIT_NAMES.map((name) => [name, { value: values[name], source: sources[name] }]),
      ) as z.output<typeof Limits>['limits'];
      const resetsAt = new Date(Date.parse(row.day) + DAY_MS).toISOString();
      const usage = { day: row.day, messages: row.used, resetsAt };
      return { body: { plan: row.plan, limits, brake: [...tenant.brakes], usage } };
    },
  });
}
