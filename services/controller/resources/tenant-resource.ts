import { z } from 'zod';
import { RESERVED_SLUGS, SLUG } from '#core/domain/tenant/slug.ts';
import { GROUP_VERSION } from './api-group.ts';
import type { CustomResource } from './custom-resource.ts';
import { ObjectMeta, type NewObjectMeta } from './object-meta.ts';
import { isReserved, TenantSpec } from './tenant-spec.ts';
import { TenantStatus } from './tenant-status.ts';
import { celList, withRules, type Rule } from './with-rules.ts';

type Named = { readonly metadata: { readonly name: string }; readonly spec: { readonly slug?: string } };

const RULES: readonly Rule<Named>[] = [
  {
    rule: `has(self.spec.slug) || self.metadata.name.matches('${SLUG.source}')`,
    message:
      'metadata.name must be 1 to 63 lower-case letters, digits and inner hyphens, or spec.slug must be set',
    holds: ({ metadata, spec }) => spec.slug !== undefined || SLUG.test(metadata.name),
  },
  {
    rule: `has(self.spec.slug) || !(self.metadata.name in ${celList(RESERVED_SLUGS)})`,
    message: 'metadata.name is reserved for the platform: choose another, or set spec.slug',
    holds: ({ metadata, spec }) => spec.slug !== undefined || !isReserved(metadata.name),
  },
];

export const TenantResource = withRules(
  z
    .object({
      apiVersion: z.literal(GROUP_VERSION),
      kind: z.literal('Tenant'),
      metadata: ObjectMeta,
      spec: TenantSpec.prefault({}),
      status: TenantStatus.exactOptional(),
    })
    .meta({
      description:
        'A tenant of the messaging platform. This resource owns its plan, limits, suspension, encryption and deletion; members, provider accounts, keys and endpoints belong to the API.',
    }),
  RULES,
);
/** A Tenant as read, with the fields that the API server fills in. */
export type TenantResource = z.output<typeof TenantResource>;
/** A Tenant as written. */
export type NewTenantResource = Pick<z.input<typeof TenantResource>, 'apiVersion' | 'kind' | 'spec'> & {
  readonly metadata: NewObjectMeta;
};

export const TENANT: CustomResource = {
  kind: 'Tenant',
  plural: 'tenants',
  singular: 'tenant',
  shortNames: ['mtn'],
  categories: ['messaging'],
  scope: 'Namespaced',
  schema: TenantResource,
  columns: [
    {
      name: 'Slug',
      type: 'string',
      description: "The tenant's name in headers and URLs.",
      jsonPath: '.status.slug',
    },
    {
      name: 'Plan',
      type: 'string',
      description: 'The plan that sets the limits.',
      jsonPath: '.spec.planRef.name',
    },
    { name: 'State', type: 'string', description: 'The state that is wanted.', jsonPath: '.spec.state' },
    {
      name: 'Ready',
      type: 'string',
      description: 'Whether the tenant is as the spec says.',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
    },
    {
      name: 'Reason',
      type: 'string',
      description: 'Why it is ready or not.',
      jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
      priority: 1,
    },
    {
      name: 'Age',
      type: 'date',
      description: 'Time since the resource was made.',
      jsonPath: '.metadata.creationTimestamp',
    },
  ],
  selectableFields: ['.spec.planRef.name', '.spec.state', '.spec.slug'],
};
