import { z } from 'zod';
import { GROUP_VERSION } from './api-group.ts';
import { conditions } from './condition.ts';
import type { CustomResource } from './custom-resource.ts';
import { DNS_LABEL, generation, ONE_LINE, text } from './fields.ts';
import { AllLimits } from './limit-fields.ts';
import { ObjectMeta, type NewObjectMeta } from './object-meta.ts';
import { withRules } from './with-rules.ts';

const Spec = z
  .object({
    displayName: text({ description: 'Name for people.', min: 2, max: 80, pattern: ONE_LINE }),
    limits: AllLimits.meta({
      description:
        'What each tenant of this plan may use, unless the tenant overrides it. A change reaches every tenant of the plan.',
    }),
  })
  .meta({ description: 'Desired state.' });

const Status = z
  .object({
    observedGeneration: generation('Generation of the spec that this status describes.').exactOptional(),
    conditions: conditions(
      'Ready (tenants may use the plan), InUse (tenants are bound to it: it cannot be deleted before they move).',
    ).exactOptional(),
  })
  .meta({ description: 'The plan as the controllers last saw it.' });
export type PlanStatus = z.output<typeof Status>;

export const PlanResource = withRules(
  z
    .object({
      apiVersion: z.literal(GROUP_VERSION),
      kind: z.literal('Plan'),
      metadata: ObjectMeta,
      spec: Spec,
      status: Status.exactOptional(),
    })
    .meta({
      description:
        'A set of limits that Tenants of the messaging platform share. The plans free, starter, growth and enterprise are made where they are absent and never overwritten. Tenants that were made through the API follow no Plan.',
    }),
  [
    {
      rule: `self.metadata.name.matches('${DNS_LABEL.source}')`,
      message: 'metadata.name must be 1 to 63 lower-case letters, digits and inner hyphens',
      holds: ({ metadata }) => DNS_LABEL.test(metadata.name),
    },
  ],
);
/** A Plan as read. */
export type PlanResource = z.output<typeof PlanResource>;
/** A Plan as written. */
export type NewPlanResource = Pick<z.input<typeof PlanResource>, 'apiVersion' | 'kind' | 'spec'> & {
  readonly metadata: NewObjectMeta;
};

export const PLAN: CustomResource = {
  kind: 'Plan',
  plural: 'plans',
  singular: 'plan',
  shortNames: ['mplan'],
  categories: ['messaging'],
  scope: 'Cluster',
  schema: PlanResource,
  columns: [
    { name: 'Display name', type: 'string', description: 'Name for people.', jsonPath: '.spec.displayName' },
    {
      name: 'Messages per day',
      type: 'integer',
      description: 'Messages that a tenant may send in one UTC day.',
      jsonPath: '.spec.limits.messagesPerDay',
    },
    {
      name: 'In use',
      type: 'string',
      description: 'Whether tenants are bound to the plan.',
      jsonPath: '.status.conditions[?(@.type=="InUse")].status',
    },
    {
      name: 'Ready',
      type: 'string',
      description: 'Whether tenants may use the plan.',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
    },
    {
      name: 'Age',
      type: 'date',
      description: 'Time since the resource was made.',
      jsonPath: '.metadata.creationTimestamp',
    },
  ],
  selectableFields: [],
};
