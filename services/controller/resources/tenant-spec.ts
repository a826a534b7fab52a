import { z } from 'zod';
import { DOTTED_ADDRESS } from '#core/domain/recipient/mailbox.ts';
import { RESERVED_SLUGS, SLUG } from '#core/domain/tenant/slug.ts';
import { SUSPENSION_REASONS } from '#core/store/tenants/tenants.ts';
import { DNS_LABEL, ONE_LINE, text, wholeNumber } from './fields.ts';
import { SomeLimits } from './limit-fields.ts';
import { celList, withRules } from './with-rules.ts';

/** Returns whether the slug is reserved, so that no tenant may have it. */
export const isReserved = (slug: string): boolean => RESERVED_SLUGS.includes(slug);

const Slug = withRules(
  text({
    description:
      "The tenant's name in headers and URLs, unique over all clusters that share a database. Default: the name of the resource. It can be neither changed, nor added, nor removed later.",
    max: 63,
    pattern: SLUG,
  }),
  [
    { rule: 'self == oldSelf', message: 'slug cannot be changed' },
    {
      rule: `!(self in ${celList(RESERVED_SLUGS)})`,
      message: 'slug is reserved for the platform',
      holds: (slug) => !isReserved(slug),
    },
  ],
);

const PlanRef = z
  .object({
    name: text({
      description: 'Name of a Plan, a resource of the cluster.',
      max: 63,
      pattern: DNS_LABEL,
    }).default('free'),
  })
  .meta({ description: 'The plan that sets the limits.', 'x-kubernetes-map-type': 'atomic' });

const Owner = withRules(
  z
    .object({
      // Accepts what an invitation through the API does, except an address that is not ASCII or needs quotes, or whose domain
      // is no host name with a dot.
      email: text({
        description:
          'Email address in ASCII characters without quotes, its domain with a dot; an internationalized domain in its ASCII form, such as xn--exmple-cua.de. The first user who signs in with this address, verified by the issuer, becomes an owner.',
        max: 254,
        pattern: DOTTED_ADDRESS,
      }).exactOptional(),
      subject: text({
        description: 'Subject (`sub`) that the issuer gives the user.',
        max: 255,
        pattern: ONE_LINE,
      }).exactOptional(),
    })
    .meta({
      description: 'A user, named by exactly one of email address and subject.',
      'x-kubernetes-map-type': 'atomic',
    }),
  [
    {
      rule: 'has(self.email) != has(self.subject)',
      message: 'exactly one of email and subject must be set',
      holds: ({ email, subject }) => (email === undefined) !== (subject === undefined),
    },
  ],
);
type Owner = z.output<typeof Owner>;

/** Addresses are compared without regard to case, as at sign-in. */
const ownerKey = ({ email, subject }: Owner): string => `${email?.toLowerCase() ?? ''} ${subject ?? ''}`;

const Owners = withRules(
  z.array(Owner).max(20).meta({
    description:
      'Users who are given the role of an owner when they are first named here. Members are managed through the API: what it changes later stands, and taking a name off this list removes nobody.',
    'x-kubernetes-list-type': 'atomic',
  }),
  [
    {
      rule: 'self.all(a, !has(a.email) || self.exists_one(b, has(b.email) && b.email.lowerAscii() == a.email.lowerAscii())) && self.all(a, !has(a.subject) || self.exists_one(b, has(b.subject) && b.subject == a.subject))',
      message: 'every owner may be named once',
      holds: (owners) => new Set(owners.map(ownerKey)).size === owners.length,
    },
  ],
);

const Encryption = z
  .object({
    keyRotationPeriodDays: wholeNumber({
      description:
        "Days after which the tenant's encryption key gets a new version. Older versions still decrypt. 0: never.",
      min: 0,
      max: 3_650,
    }).default(90),
  })
  .meta({
    description: "The key that encrypts the secrets of the tenant's provider accounts and webhook endpoints.",
  });

export const TenantSpec = withRules(
  z
    .object({
      slug: Slug.exactOptional(),
      displayName: text({
        description: 'Name for people. Default: the slug.',
        min: 2,
        max: 80,
        pattern: ONE_LINE,
      }).exactOptional(),
      planRef: PlanRef.prefault({}),
      limits: SomeLimits.meta({
        description:
          'Limits that hold for this tenant instead of those of its plan. What is not set follows the plan.',
      }).exactOptional(),
      state: z
        .enum(['Active', 'Suspended'])
        .meta({
          description:
            'Suspended: no call with a key and no change through the API is accepted, queued messages wait, nothing is lost.',
        })
        .default('Active'),
      suspendReason: z
        .enum(SUSPENSION_REASONS)
        .meta({ description: 'Why the tenant is suspended. Only with state Suspended; absent: manual.' })
        .exactOptional(),
      owners: Owners.exactOptional(),
      encryption: Encryption.prefault({}),
      deletionPolicy: z
        .enum(['Retain', 'Purge'])
        .meta({
          description:
            'What deleting this resource does. Retain: the tenant is suspended and keeps its data and its key; a resource of the same namespace and name takes it back, but not while it is suspended by a platform admin through the API. Purge: accepted messages end, then all data and the key are destroyed, for good. May be changed at any time before the deletion.',
        })
        .default('Retain'),
    })
    .meta({ description: 'Desired state.' }),
  [
    {
      rule: 'has(self.slug) == has(oldSelf.slug)',
      message: 'slug can be neither added nor removed after creation',
    },
    {
      rule: "!has(self.suspendReason) || self.state == 'Suspended'",
      message: 'suspendReason may be set only while state is Suspended',
      fieldPath: '.suspendReason',
      holds: ({ suspendReason, state }) => suspendReason === undefined || state === 'Suspended',
    },
  ],
);
