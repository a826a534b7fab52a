import { z } from 'zod';
import { BRAKE_LEVELS, BRAKE_REASONS } from '#core/domain/tenant/brake.ts';
import { CHANNELS } from '#core/domain/message/channel.ts';
import { TENANT_STATES } from '#core/domain/tenant/tenant-state.ts';
import type { TenantFacts } from '#core/store/tenants/directory.ts';
import { SUSPENSION_REASONS, type SuspensionReason } from '#core/store/tenants/tenants.ts';
import { warningsField } from '../../http/routes/request-warnings.ts';

export const Brake = z
  .object({
    channel: z.enum(CHANNELS),
    level: z
      .enum(BRAKE_LEVELS)
      .describe('`slowed`: the channel sends a tenth of what it sent before; `held`: its messages wait.'),
    reason: z.enum(BRAKE_REASONS),
    rate: z
      .number()
      .min(0)
      .max(1)
      .describe('Share of the final messages over which it was measured, 1,000 or more of the channel.'),
    bound: z
      .number()
      .min(0)
      .max(1)
      .describe('The limit that the rate exceeded: `hardBounceRateMax` or `complaintRateMax`.'),
    at: z.iso.datetime(),
  })
  .meta({
    id: 'Brake',
    description: 'An abuse brake on a channel.',
    examples: [
      {
        channel: 'email',
        level: 'slowed',
        reason: 'hard_bounce_rate',
        rate: 0.124,
        bound: 0.1,
        at: '2026-01-15T09:30:00.000Z',
      },
    ],
  });

export const Tenant = z
  .object({
    id: z.uuid(),
    name: z.string(),
    slug: z.string(),
    createdAt: z.iso.datetime(),
    status: z.enum(TENANT_STATES),
    plan: z.string(),
    suspension: z
      .object({
        reason: z.enum(SUSPENSION_REASONS),
        at: z.iso.datetime(),
        by: z
          .string()
          .nullable()
          .describe('User id of the platform admin, or the name of another actor that suspended it.'),
      })
      .nullable(),
    brake: z
      .array(Brake)
      .describe(
        'Channels that are slowed or held because too many messages bounced or too many recipients complained.',
      ),
    managedBy: z
      .string()
      .nullable()
      .describe('Namespace and name of the cluster resource that owns plan, suspension and deletion.'),
    ...warningsField,
  })
  .meta({
    id: 'Tenant',
    description: 'A tenant.',
    examples: [
      {
        id: '1c9e4b2a-6d5f-4e3c-8b7a-9f0e1d2c3b4a',
        name: 'Acme',
        slug: 'acme',
        createdAt: '2026-01-15T09:30:00.000Z',
        status: 'active',
        plan: 'free',
        suspension: null,
        brake: [],
        managedBy: null,
      },
    ],
  });

export function viewTenant(tenant: TenantFacts): z.output<typeof Tenant> {
  const { suspensionReason: reason, suspendedAt: at, suspendedBy: by } = tenant;
  return {
    id: tenant.id,
    name: tenant.name,
    slug: tenant.slug,
    createdAt: tenant.createdAt.toISOString(),
    status: tenant.status,
    plan: tenant.plan,
    suspension:
      reason === null || at === null
        ? null
        : { reason: reason as SuspensionReason, at: at.toISOString(), by },
    brake: [...tenant.brakes],
    managedBy: tenant.ownerRef,
  };
}
