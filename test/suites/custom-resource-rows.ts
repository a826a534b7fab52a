import { writtenLimits } from '../../services/controller/resources/limit-fields.ts';
import { LIMIT_BOUNDS } from '#core/domain/tenant/limit-bounds.ts';
import { isRateLimit, LIMIT_NAMES, BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { RESERVED_SLUGS } from '#core/domain/tenant/slug.ts';

/** An object that a user might write, and the expected result. */
export type WrittenRow = {
  readonly what: string;
  /** Default `acme`. */
  readonly name?: string;
  /** Absent: the object has no spec at all. */
  readonly spec?: unknown;
  /** Text that the API server's message must contain. Absent: the object is accepted. */
  readonly refused?: string;
};

/** A status that a controller might report. */
export type StatusRow = { readonly what: string; readonly status: unknown; readonly refused?: string };

const text = (length: number, character = 'a'): string => character.repeat(length);
const email = (length: number): string => `${text(length - 9)}@acme.com`;

/** Returns values on both sides of each bound of each limit, and values of other types. */
function limitRows(around: (limits: Record<string, unknown>) => unknown): WrittenRow[] {
  return LIMIT_NAMES.flatMap((name) => {
    const { min, max } = LIMIT_BOUNDS[name];
    const row = (value: unknown, refused?: string): WrittenRow => ({
      what: `${name} of ${JSON.stringify(value)}`,
      spec: around({ [name]: value }),
      ...(refused === undefined ? {} : { refused: `spec.limits.${name}: Invalid value: ${refused}` }),
    });
    if (isRateLimit(name))
      return [
        ...['0.0001', '0.10', '0.0030', '1', '1.0'].map((value) => row(value)),
        ...['0', '0.0', '0.0000', '1.5', '2', '.1', '10%', ''].map((value) => row(value, `"${value}": `)),
        row(0.1, '"number": '),
      ];
    return [
      row(min),
      row(max),
      row(min - 1, `${min - 1}: `),
      row(max + 1, `${max + 1}: `),
      row(`${max}`, '"string": '),
      row(min + 0.5, `"float64": `),
    ];
  });
}

const owners = (count: number): { email: string }[] =>
  Array.from({ length: count }, (_, index) => ({ email: `owner-${index}@acme.com` }));

export const TENANT_ROWS: readonly WrittenRow[] = [
  { what: 'nothing but a name' },
  { what: 'an empty spec', spec: {} },
  {
    what: 'everything set',
    spec: {
      slug: 'acme-corp',
      displayName: 'Acme Corporation',
      planRef: { name: 'growth' },
      limits: writtenLimits(BUILT_IN_PLANS.enterprise),
      state: 'Suspended',
      suspendReason: 'billing',
      owners: [{ email: 'ann@acme.com' }, { subject: 'auth0|123' }],
      encryption: { keyRotationPeriodDays: 30 },
      deletionPolicy: 'Purge',
    },
  },
  { what: 'a spec that is text', spec: 'active', refused: 'spec: Invalid value: "string"' },

  { what: 'a slug of 1 character', spec: { slug: 'a' } },
  { what: 'a slug of 63 characters', spec: { slug: text(63) } },
  { what: 'a slug of 64 characters', spec: { slug: text(64) }, refused: 'spec.slug: Too long' },
  { what: 'an empty slug', spec: { slug: '' }, refused: 'spec.slug' },
  ...['Acme', '-acme', 'acme-', 'ac_me', 'ac.me', 'äcme', 'acme\n'].map((slug) => ({
    what: `the slug ${JSON.stringify(slug)}`,
    spec: { slug },
    refused: 'spec.slug: Invalid value',
  })),
  ...RESERVED_SLUGS.map((slug) => ({
    what: `the reserved slug ${slug}`,
    spec: { slug },
    refused: 'slug is reserved for the platform',
  })),

  { what: 'a name of 63 characters', name: text(63) },
  { what: 'a name of 64 characters', name: text(64), refused: 'metadata.name must be 1 to 63' },
  { what: 'a name that is no slug', name: 'acme.example', refused: 'metadata.name must be 1 to 63' },
  { what: 'a name that is no slug, beside a slug', name: 'acme.example', spec: { slug: 'acme' } },
  { what: 'a long name beside a slug', name: text(253), spec: { slug: 'acme' } },
  ...RESERVED_SLUGS.map((name) => ({
    what: `the reserved name ${name}`,
    name,
    refused: 'metadata.name is reserved for the platform',
  })),
  { what: 'a reserved name beside a slug', name: 'admin', spec: { slug: 'acme' } },

  { what: 'a display name of 2 characters', spec: { displayName: 'ab' } },
  { what: 'a display name of 80 characters', spec: { displayName: text(80) } },
  { what: 'a display name of 80 characters beyond the basic plane', spec: { displayName: text(80, '😀') } },
  { what: 'a display name of 1 character', spec: { displayName: 'a' }, refused: 'spec.displayName' },
  {
    what: 'a display name of 1 character beyond the basic plane',
    spec: { displayName: '😀' },
    refused: 'spec.displayName',
  },
  {
    what: 'a display name of 81 characters',
    spec: { displayName: text(81) },
    refused: 'spec.displayName: Too long',
  },
  {
    what: 'a display name of two lines',
    spec: { displayName: 'Acme\nCorporation' },
    refused: 'spec.displayName',
  },

  { what: 'a plan of 63 characters', spec: { planRef: { name: text(63) } } },
  {
    what: 'a plan of 64 characters',
    spec: { planRef: { name: text(64) } },
    refused: 'spec.planRef.name: Too long',
  },
  { what: 'an empty plan name', spec: { planRef: { name: '' } }, refused: 'spec.planRef.name' },
  {
    what: 'a plan that would leave its place in a path',
    spec: { planRef: { name: '../free' } },
    refused: 'spec.planRef.name',
  },

  ...limitRows((limits) => ({ limits })),
  { what: 'no limit overridden', spec: { limits: {} } },

  { what: 'another state', spec: { state: 'Paused' }, refused: 'spec.state: Unsupported value: "Paused"' },
  { what: 'a state in lower case', spec: { state: 'active' }, refused: 'spec.state: Unsupported value' },
  { what: 'a suspension without a reason', spec: { state: 'Suspended' } },
  ...['manual', 'billing', 'abuse'].flatMap((suspendReason) => [
    { what: `a suspension for ${suspendReason}`, spec: { state: 'Suspended', suspendReason } },
    {
      what: `an active tenant suspended for ${suspendReason}`,
      spec: { state: 'Active', suspendReason },
      refused: 'suspendReason may be set only while state is Suspended',
    },
  ]),
  {
    what: 'a reason to suspend without a state',
    spec: { suspendReason: 'manual' },
    refused: 'suspendReason may be set only while state is Suspended',
  },
  {
    what: 'another reason to suspend',
    spec: { state: 'Suspended', suspendReason: 'boredom' },
    refused: 'spec.suspendReason: Unsupported value',
  },

  { what: 'no owner', spec: { owners: [] } },
  { what: '20 owners', spec: { owners: owners(20) } },
  { what: '21 owners', spec: { owners: owners(21) }, refused: 'spec.owners: Too many' },
  {
    what: '20 owners with the longest addresses',
    spec: {
      owners: owners(20).map((_, index) => ({ email: `${String(index).padStart(2, '0')}${email(252)}` })),
    },
  },
  {
    what: 'an owner with an address of 255 characters',
    spec: { owners: [{ email: email(255) }] },
    refused: 'spec.owners[0].email: Too long',
  },
  ...[
    'ann',
    'ann@',
    '@acme.com',
    'ann@acme',
    'Ann <ann@acme.com>',
    'a b@acme.com',
    'ann@acme.com,b@acme.com',
    'ann@x-.com',
    'ann@-x.com',
    'ann@acme..com',
    'ann@acme.com.',
    '.ann@acme.com',
    'ann..b@acme.com',
    'ann@acme.com\n',
    // The API accepts these.
    'ann@ac_me.com',
    '"ann b"@acme.com',
    'ann@[192.0.2.1]',
    'ann@exämple.de',
    'änn@acme.com',
  ].map((address) => ({
    what: `an owner with the address ${JSON.stringify(address)}`,
    spec: { owners: [{ email: address }] },
    refused: 'spec.owners[0].email',
  })),
  ...[
    'ann@acme.com',
    'Ann.Example+mail@sub.acme.co',
    "o'hara@acme-corp.io",
    'ann@example.xn--p1ai',
    'ann@xn--exmple-cua.de',
    'a&b@example.com',
    'ann~b@example.com',
    "!#$%&'*+/=?^_`{|}~-@example.com",
    'ann@a.b',
    'ann@1.2',
    'ann@acme--corp.com',
  ].map((address) => ({
    what: `an owner with the address ${address}`,
    spec: { owners: [{ email: address }] },
  })),
  { what: 'an owner with a subject of 255 characters', spec: { owners: [{ subject: text(255) }] } },
  {
    what: 'an owner with a subject of 256 characters',
    spec: { owners: [{ subject: text(256) }] },
    refused: 'spec.owners[0].subject: Too long',
  },
  {
    what: 'an owner with an empty subject',
    spec: { owners: [{ subject: '' }] },
    refused: 'spec.owners[0].subject',
  },
  {
    what: 'an owner with a subject of two lines',
    spec: { owners: [{ subject: 'a\nb' }] },
    refused: 'spec.owners[0].subject',
  },
  {
    what: 'an owner that is nobody',
    spec: { owners: [{}] },
    refused: 'exactly one of email and subject must be set',
  },
  {
    what: 'an owner with both an address and a subject',
    spec: { owners: [{ email: 'ann@acme.com', subject: 'ann' }] },
    refused: 'exactly one of email and subject must be set',
  },
  {
    what: 'the same address twice',
    spec: { owners: [{ email: 'ann@acme.com' }, { subject: 'bob' }, { email: 'ann@acme.com' }] },
    refused: 'every owner may be named once',
  },
  {
    what: 'the same address twice, in another case',
    spec: { owners: [{ email: 'ann@acme.com' }, { email: 'Ann@ACME.com' }] },
    refused: 'every owner may be named once',
  },
  {
    what: 'the same subject twice',
    spec: { owners: [{ subject: 'ann' }, { subject: 'ann' }] },
    refused: 'every owner may be named once',
  },
  {
    what: 'subjects that differ in case',
    spec: { owners: [{ subject: 'ann' }, { subject: 'Ann' }] },
  },

  { what: 'no key rotation', spec: { encryption: { keyRotationPeriodDays: 0 } } },
  { what: 'a key rotation every 10 years', spec: { encryption: { keyRotationPeriodDays: 3_650 } } },
  {
    what: 'a key rotation of less than no days',
    spec: { encryption: { keyRotationPeriodDays: -1 } },
    refused: 'spec.encryption.keyRotationPeriodDays: Invalid value: -1',
  },
  {
    what: 'a key rotation after more than 10 years',
    spec: { encryption: { keyRotationPeriodDays: 3_651 } },
    refused: 'spec.encryption.keyRotationPeriodDays: Invalid value: 3651',
  },

  { what: 'another deletion policy', spec: { deletionPolicy: 'Orphan' }, refused: 'spec.deletionPolicy' },
];

const plan = (change: object = {}): object => ({
  displayName: 'Gold',
  limits: writtenLimits(BUILT_IN_PLANS.growth),
  ...change,
});

export const PLAN_ROWS: readonly WrittenRow[] = [
  { what: 'a plan', name: 'gold', spec: plan() },
  { what: 'nothing but a name', refused: 'spec: Required value' },
  { what: 'no limits', spec: { displayName: 'Gold' }, refused: 'spec.limits: Required value' },
  {
    what: 'no display name',
    spec: { limits: writtenLimits(BUILT_IN_PLANS.free) },
    refused: 'spec.displayName: Required value',
  },
  ...LIMIT_NAMES.map((name) => ({
    what: `limits without ${name}`,
    spec: plan({
      limits: Object.fromEntries(
        Object.entries(writtenLimits(BUILT_IN_PLANS.free)).filter(([key]) => key !== name),
      ),
    }),
    refused: `spec.limits.${name}: Required value`,
  })),
  ...limitRows((limits) => plan({ limits: { ...writtenLimits(BUILT_IN_PLANS.free), ...limits } })),
  { what: 'a display name of 2 characters', spec: plan({ displayName: 'ab' }) },
  { what: 'a display name of 80 characters', spec: plan({ displayName: text(80) }) },
  { what: 'a display name of 1 character', spec: plan({ displayName: 'a' }), refused: 'spec.displayName' },
  {
    what: 'a display name of 81 characters',
    spec: plan({ displayName: text(81) }),
    refused: 'spec.displayName',
  },
  { what: 'a display name of two lines', spec: plan({ displayName: 'a\nb' }), refused: 'spec.displayName' },
  { what: 'a name of 63 characters', name: text(63), spec: plan() },
  { what: 'a name of 64 characters', name: text(64), spec: plan(), refused: 'metadata.name must be 1 to 63' },
  { what: 'a name with a dot', name: 'gold.v2', spec: plan(), refused: 'metadata.name must be 1 to 63' },
];

const condition = (change: object = {}): object => ({
  type: 'Ready',
  status: 'True',
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00Z',
  reason: 'Reconciled',
  message: '',
  ...change,
});

/** Rows that apply to the status of every kind. */
export const CONDITION_ROWS: readonly StatusRow[] = [
  { what: 'an empty status', status: {} },
  { what: 'a condition', status: { observedGeneration: 1, conditions: [condition()] } },
  { what: 'an unknown condition', status: { conditions: [condition({ status: 'Unknown' })] } },
  {
    what: '16 conditions',
    status: { conditions: Array.from({ length: 16 }, (_, index) => condition({ type: `Type${index}` })) },
  },
  {
    what: '17 conditions',
    status: { conditions: Array.from({ length: 17 }, (_, index) => condition({ type: `Type${index}` })) },
    refused: 'status.conditions: Too many',
  },
  {
    what: 'two conditions of one type',
    status: { conditions: [condition(), condition({ status: 'False' })] },
    refused: 'status.conditions[1]: Duplicate value',
  },
  ...['type', 'status', 'observedGeneration', 'lastTransitionTime', 'reason', 'message'].map((name) => ({
    what: `a condition without ${name}`,
    status: { conditions: [Object.fromEntries(Object.entries(condition()).filter(([key]) => key !== name))] },
    refused: `status.conditions[0].${name}: Required value`,
  })),
  ...(
    [
      ['type', 'not ready'],
      ['type', text(65, 'A')],
      ['status', 'true'],
      ['observedGeneration', -1],
      ['observedGeneration', 2 ** 53],
      ['lastTransitionTime', 'yesterday'],
      ['lastTransitionTime', `2026-01-01T00:00:00.${text(20, '0')}Z`],
      ['reason', ''],
      ['reason', 'no words'],
      ['reason', text(65, 'A')],
      ['message', text(2_049)],
    ] as const
  ).map(([name, value]) => ({
    what: `a condition whose ${name} is ${String(value).slice(0, 30)}`,
    status: { conditions: [condition({ [name]: value })] },
    refused: `status.conditions[0].${name}`,
  })),
  {
    what: 'a condition with a reason of 64 characters and a message of 2048',
    status: { conditions: [condition({ reason: text(64, 'A'), message: text(2_048) })] },
  },
  {
    what: 'a negative generation',
    status: { observedGeneration: -1 },
    refused: 'status.observedGeneration: Invalid value: -1',
  },
  { what: 'the largest generation', status: { observedGeneration: Number.MAX_SAFE_INTEGER } },
  {
    what: 'a generation that JSON readers round',
    status: { observedGeneration: 2 ** 53 },
    refused: 'status.observedGeneration: Invalid value',
  },
];

export const TENANT_STATUS_ROWS: readonly StatusRow[] = [
  {
    what: 'everything set',
    status: {
      observedGeneration: 3,
      tenantId: '0b7e6f2c-6a55-4f0a-9d3e-3f1f4f0f9c11',
      slug: 'acme',
      plan: { name: 'growth', generation: 2 },
      effectiveLimits: writtenLimits(BUILT_IN_PLANS.growth),
      encryption: {
        keyName: 'tenant-0b7e6f2c-6a55-4f0a-9d3e-3f1f4f0f9c11',
        latestVersion: 4,
        lastRotationTime: '2026-01-01T00:00:00Z',
      },
      conditions: ['Ready', 'PlanResolved', 'KeyProvisioned', 'Applied', 'Suspended'].map((type) =>
        condition({ type }),
      ),
    },
  },
  { what: 'a tenant id that is none', status: { tenantId: 'acme' }, refused: 'status.tenantId' },
  { what: 'a slug that is none', status: { slug: 'Acme' }, refused: 'status.slug' },
  {
    what: 'a plan without a generation',
    status: { plan: { name: 'free' } },
    refused: 'status.plan.generation',
  },
  { what: 'a plan without a name', status: { plan: { generation: 1 } }, refused: 'status.plan.name' },
  ...[
    { name: 'Free', generation: 1 },
    { name: 'free', generation: -1 },
    { name: 'free', generation: 2 ** 53 },
  ].map((plan) => ({
    what: `the plan ${JSON.stringify(plan)}`,
    status: { plan },
    refused: 'status.plan.',
  })),
  {
    what: 'a limit beyond its bound',
    status: { effectiveLimits: { retentionDays: 366 } },
    refused: 'status.effectiveLimits.retentionDays',
  },
  {
    what: 'a negative key version',
    status: { encryption: { latestVersion: -1 } },
    refused: 'status.encryption.latestVersion',
  },
  {
    what: 'a time of rotation that is none',
    status: { encryption: { lastRotationTime: 'yesterday' } },
    refused: 'status.encryption.lastRotationTime',
  },
  {
    what: 'a key version beyond 31 bits',
    status: { encryption: { latestVersion: 2 ** 31 } },
    refused: 'status.encryption.latestVersion',
  },
  {
    what: 'a time of rotation in yoctoseconds',
    status: { encryption: { lastRotationTime: `2026-01-01T00:00:00.${text(24, '0')}Z` } },
    refused: 'status.encryption.lastRotationTime',
  },
  ...['', 'a\nb'].map((keyName) => ({
    what: `the key name ${JSON.stringify(keyName)}`,
    status: { encryption: { keyName } },
    refused: 'status.encryption.keyName',
  })),
  {
    what: 'a key name of 254 characters',
    status: { encryption: { keyName: text(254) } },
    refused: 'status.encryption.keyName',
  },
];
