import { z } from 'zod';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { SLUG } from '#core/domain/tenant/slug.ts';
import { conditions } from './condition.ts';
import { DNS_LABEL, generation, ONE_LINE, text, timestamp, wholeNumber } from './fields.ts';
import { SomeLimits } from './limit-fields.ts';

export const TenantStatus = z
  .object({
    observedGeneration: generation('Generation of the spec that this status describes.').exactOptional(),
    tenantId: text({
      description: 'Identifier of the tenant in the API and in the database.',
      max: 36,
      pattern: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
    }).exactOptional(),
    slug: text({
      description: "The tenant's name in headers and URLs.",
      max: 63,
      pattern: SLUG,
    }).exactOptional(),
    plan: z
      .object({
        name: text({ description: 'Name of the plan.', max: 63, pattern: DNS_LABEL }),
        generation: generation('Generation of the plan that was applied.'),
      })
      .meta({ description: 'The plan whose limits are in force.', 'x-kubernetes-map-type': 'atomic' })
      .exactOptional(),
    effectiveLimits: SomeLimits.meta({
      description: 'The limits in force: the overrides of the spec, else those of the plan.',
    }).exactOptional(),
    encryption: z
      .object({
        keyName: text({
          description: 'Name of the key in the transit engine.',
          max: 253,
          pattern: ONE_LINE,
        }).exactOptional(),
        latestVersion: wholeNumber({
          description: 'Version of the key that encrypts.',
          min: 0,
          max: INT32_MAX,
        }).exactOptional(),
        lastRotationTime: timestamp('When that version was made.').exactOptional(),
      })
      .meta({ description: "Facts about the tenant's encryption key. Never key material." })
      .exactOptional(),
    conditions: conditions(
      'PlanResolved (the plan exists), Applied (the database has the plan, limits, owners and suspension of this generation), KeyProvisioned (the encryption key exists), Ready (all three hold), Suspended (no calls are accepted).',
    ).exactOptional(),
  })
  .meta({ description: 'The tenant as the controller last saw it.' });
export type TenantStatus = z.output<typeof TenantStatus>;
