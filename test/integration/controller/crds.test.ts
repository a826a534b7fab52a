import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { GROUP_VERSION } from '../../../services/controller/resources/api-group.ts';
import { builtInPlans } from '../../../services/controller/plan/built-in-plans.ts';
import type { KubeAnswer, KubeConnection } from '#test/support/kube-connection.ts';
import { testKube } from '#test/support/servers.ts';
import {
  CONDITION_ROWS,
  PLAN_ROWS,
  TENANT_ROWS,
  TENANT_STATUS_ROWS,
  type WrittenRow,
} from '#test/suites/custom-resource-rows.ts';

const ROOT = `/apis/${GROUP_VERSION}`;
const CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const MERGE = { contentType: 'application/merge-patch+json' };
const APPLY = { contentType: 'application/apply-patch+yaml' };
const AS_TABLE = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' };

let kube: KubeConnection;
/** The path of the tenants in this file's namespace. */
let tenants: string;
/** Plans have no namespace; the names of the plans of this file begin with this prefix. */
let ownPrefix: string;

beforeAll(async () => {
  kube = await testKube();
  ownPrefix = await kube.createNamespace();
  tenants = `${ROOT}/namespaces/${ownPrefix}/tenants`;
});
afterAll(() => kube[Symbol.asyncDispose]());

let count = 0;
const freshName = (): string => `tenant-${++count}`;

const tenant = (name: string, spec?: unknown): object => ({
  apiVersion: GROUP_VERSION,
  kind: 'Tenant',
  metadata: { name },
  ...(spec === undefined ? {} : { spec }),
});

/** Creates a tenant. @returns it as the server stored it. */
async function stored(spec?: unknown, name = freshName()) {
  const { status, body } = await kube.request('POST', tenants, tenant(name, spec));
  expect([status, body.message]).toEqual([201, undefined]);
  return body;
}

/** The parts of an answer that the tests compare; a mismatch shows all of them. */
const said = ({ status, body, warnings }: KubeAnswer) => ({ status, message: body.message, warnings });

const verdict = (accepted: number, refused?: string) => ({
  status: refused === undefined ? accepted : 422,
  message: refused === undefined ? undefined : expect.stringContaining(refused),
  warnings: [],
});

describe('the custom resource definitions', () => {
  test.each(['tenants', 'plans'])('of %s are established, and their names are accepted', async (plural) => {
    const { body } = await kube.request('GET', `${CRDS}/${plural}.despatch.dev`);
    const conditions = body.status.conditions as { type: string; status: string }[];
    expect(Object.fromEntries(conditions.map(({ type, status }) => [type, status]))).toEqual({
      NamesAccepted: 'True',
      Established: 'True',
    });
    expect(body.status.storedVersions).toEqual(['v1alpha1']);
  });

  test('have short names, a category and a status subresource', async () => {
    const { body } = await kube.request('GET', ROOT);
    const resources = body.resources as { name: string }[];
    expect(resources.map(({ name }) => name).toSorted()).toEqual([
      'plans',
      'plans/status',
      'tenants',
      'tenants/status',
    ]);
    expect(resources.find(({ name }) => name === 'tenants')).toMatchObject({
      namespaced: true,
      singularName: 'tenant',
      shortNames: ['mtn'],
      categories: ['messaging'],
    });
    expect(resources.find(({ name }) => name === 'plans')).toMatchObject({
      namespaced: false,
      singularName: 'plan',
      shortNames: ['mplan'],
      categories: ['messaging'],
    });
  });

  test('are rejected without a bound on owners, because the rules then exceed the cost budget', async () => {
    const { body: definition } = await kube.request('GET', `${CRDS}/tenants.despatch.dev`);
    const owners = definition.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.owners;
    delete owners.maxItems;
    const { status, body } = await kube.request('PUT', `${CRDS}/tenants.despatch.dev?dryRun=All`, definition);
    expect([status, body.message]).toEqual([422, expect.stringContaining('exceeds budget')]);
  });

  test('describe every field in the OpenAPI schema', async () => {
    const documents = async () => {
      const { body } = await kube.request('GET', `/openapi/v3${ROOT}`);
      return (body.components?.schemas ?? {}) as Record<string, Documented>;
    };
    await expect.poll(documents).toHaveProperty('dev.despatch.v1alpha1.Plan');
    const schemas = await documents();
    for (const kind of ['Tenant', 'Plan']) {
      const schema = schemas[`dev.despatch.v1alpha1.${kind}`];
      expect(schema?.description).toMatch(/\w/);
      const fields = ['spec', 'status'].flatMap((name) => documented(schema?.properties?.[name], name));
      expect(fields.length).toBeGreaterThan(20);
      expect(fields.filter(([, description]) => !/^[A-Z].*[.]$/s.test(description))).toEqual([]);
    }
  });
});

type Documented = {
  description?: string;
  properties?: Record<string, Documented>;
  items?: Documented;
};

/** Returns the path and description of a field and of every field below it. */
function documented(field: Documented | undefined, path: string): (readonly [string, string])[] {
  return [
    [path, field?.description ?? ''],
    ...Object.entries(field?.properties ?? {}).flatMap(([name, one]) => documented(one, `${path}.${name}`)),
    ...(field?.items === undefined ? [] : documented(field.items, `${path}[]`)),
  ];
}

describe('a tenant', () => {
  test.each(TENANT_ROWS)('is validated: $what', async ({ name = 'acme', spec, refused }) => {
    const answer = await kube.request(
      'POST',
      `${tenants}?dryRun=All&fieldValidation=Strict`,
      tenant(name, spec),
    );
    expect(said(answer)).toEqual(verdict(201, refused));
  });

  test('gets defaults for omitted fields, but no value that depends on other objects', async () => {
    const { spec, metadata } = await stored();
    expect(spec).toEqual({
      planRef: { name: 'free' },
      state: 'Active',
      encryption: { keyRotationPeriodDays: 90 },
      deletionPolicy: 'Retain',
    });
    expect(metadata.generation).toBe(1);
  });

  test('gets defaults for fields set to null', async () => {
    const { spec } = await stored({
      planRef: null,
      state: null,
      encryption: { keyRotationPeriodDays: null },
    });
    expect(spec).toMatchObject({
      planRef: { name: 'free' },
      state: 'Active',
      encryption: { keyRotationPeriodDays: 90 },
    });
  });

  const UNKNOWN: readonly (readonly [path: string, spec: object])[] = [
    ['spec.replicas', { replicas: 3 }],
    ['spec.limits.messagesPerHour', { limits: { messagesPerHour: 3 } }],
    ['spec.planRef.namespace', { planRef: { name: 'free', namespace: 'other' } }],
    ['spec.owners[0].role', { owners: [{ subject: 'ann', role: 'viewer' }] }],
  ];

  test.each(UNKNOWN)(
    'with the unknown field %s is rejected under strict field validation',
    async (path, spec) => {
      const object = tenant('acme', spec);
      const strict = await kube.request('POST', `${tenants}?dryRun=All&fieldValidation=Strict`, object);
      expect([strict.status, strict.body.message]).toEqual([
        400,
        expect.stringContaining(`unknown field "${path}"`),
      ]);
    },
  );

  test.each(UNKNOWN)(
    'with the unknown field %s is otherwise stored without it, with a warning',
    async (path, spec) => {
      const loose = await kube.request('POST', `${tenants}?fieldValidation=Warn`, tenant(freshName(), spec));
      expect([loose.status, loose.warnings]).toEqual([201, [`unknown field "${path}"`]]);
      const { body } = await kube.request('GET', `${tenants}/${loose.body.metadata.name}`);
      expect(JSON.stringify(body.spec)).not.toContain(path.split('.').at(-1));
    },
  );

  type ChangeRow = { what: string; from?: object; to?: object; refused?: string };
  const CHANGES: readonly ChangeRow[] = [
    { what: 'keeps its slug', from: { slug: 'kept' }, to: { slug: 'kept', displayName: 'Kept' } },
    {
      what: 'changes its slug',
      from: { slug: 'one' },
      to: { slug: 'two' },
      refused: 'slug cannot be changed',
    },
    {
      what: 'is given a slug later',
      to: { slug: 'late' },
      refused: 'slug can be neither added nor removed',
    },
    {
      what: 'loses its slug',
      from: { slug: 'gone' },
      to: {},
      refused: 'slug can be neither added nor removed',
    },
    {
      what: 'loses its slug with its whole spec',
      from: { slug: 'gone' },
      refused: 'slug can be neither added nor removed',
    },
    { what: 'moves to another plan', to: { planRef: { name: 'growth' } } },
    { what: 'is suspended', to: { state: 'Suspended', suspendReason: 'abuse' } },
    {
      what: 'is resumed and keeps the reason',
      from: { state: 'Suspended', suspendReason: 'abuse' },
      to: { state: 'Active', suspendReason: 'abuse' },
      refused: 'suspendReason may be set only while state is Suspended',
    },
    { what: 'is resumed', from: { state: 'Suspended', suspendReason: 'abuse' }, to: { state: 'Active' } },
    { what: 'changes its deletionPolicy to Purge', to: { deletionPolicy: 'Purge' } },
    {
      what: 'changes its deletionPolicy to Retain',
      from: { deletionPolicy: 'Purge' },
      to: { deletionPolicy: 'Retain' },
    },
  ];

  test.each(CHANGES)('that $what is validated', async ({ from, to, refused }) => {
    const { metadata } = await stored(from);
    const changed = { ...tenant(metadata.name, to), metadata };
    expect(said(await kube.request('PUT', `${tenants}/${metadata.name}`, changed))).toEqual(
      verdict(200, refused),
    );
  });

  test('cannot get or lose its slug through a patch', async () => {
    const { metadata } = await stored({ slug: 'patched' });
    const { metadata: bare } = await stored();
    const patch = (name: string, slug: string | null) =>
      kube.request('PATCH', `${tenants}/${name}`, { spec: { slug } }, MERGE);
    expect(said(await patch(metadata.name, null))).toEqual(
      verdict(200, 'slug can be neither added nor removed'),
    );
    expect(said(await patch(bare.name, 'patched'))).toEqual(
      verdict(200, 'slug can be neither added nor removed'),
    );
  });

  test('can be selected by plan, state and slug', async () => {
    await stored({ slug: 'selected', planRef: { name: 'gold' }, state: 'Suspended' }, 'selected-one');
    await stored({ planRef: { name: 'gold' } }, 'selected-two');
    const names = async (selector: string): Promise<string[]> => {
      const { status, body } = await kube.request(
        'GET',
        `${tenants}?fieldSelector=${encodeURIComponent(selector)}`,
      );
      expect([selector, status]).toEqual([selector, 200]);
      return body.items.map((one: { metadata: { name: string } }) => one.metadata.name);
    };
    expect(await names('spec.planRef.name=gold')).toEqual(['selected-one', 'selected-two']);
    expect(await names('spec.planRef.name=gold,spec.state=Active')).toEqual(['selected-two']);
    expect(await names('spec.slug=selected')).toEqual(['selected-one']);
    const other = await kube.request('GET', `${tenants}?fieldSelector=spec.displayName%3DAcme`);
    expect([other.status, other.body.message]).toEqual([400, expect.stringContaining('not supported')]);
  });

  test('is printed in tables with its slug, plan, state and readiness', async () => {
    const { metadata } = await stored({ planRef: { name: 'growth' } }, 'shown');
    await kube.request(
      'PATCH',
      `${tenants}/shown/status`,
      { status: { slug: 'shown', conditions: [condition('Ready', 'False', 'PlanNotFound')] } },
      MERGE,
    );
    const { body } = await kube.request('GET', `${tenants}/${metadata.name}`, undefined, AS_TABLE);
    const columns = body.columnDefinitions as { name: string; priority: number; description: string }[];
    expect(columns.map(({ name, priority }) => [name, priority])).toEqual([
      ['Name', 0],
      ['Slug', 0],
      ['Plan', 0],
      ['State', 0],
      ['Ready', 0],
      ['Reason', 1],
      ['Age', 0],
    ]);
    expect(columns.every(({ description }) => description !== '')).toBe(true);
    expect(body.rows[0].cells).toEqual([
      'shown',
      'shown',
      'growth',
      'Active',
      'False',
      'PlanNotFound',
      expect.stringMatching(/^\d+s$/),
    ]);
  });
});

const condition = (type: string, status: string, reason: string): object => ({
  type,
  status,
  reason,
  message: '',
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00Z',
});

describe("a tenant's status", () => {
  test.each([...CONDITION_ROWS, ...TENANT_STATUS_ROWS])(
    'is validated: $what',
    async ({ status, refused }) => {
      const name = 'with-status';
      await kube.request('POST', tenants, tenant(name));
      const patch = { apiVersion: GROUP_VERSION, kind: 'Tenant', status };
      const path = `${tenants}/${name}/status?dryRun=All&fieldValidation=Strict`;
      expect(said(await kube.request('PATCH', path, patch, MERGE))).toEqual(verdict(200, refused));
    },
  );

  test('cannot be changed by a write to the main resource', async () => {
    const name = freshName();
    const status = { slug: 'forged', tenantId: '0b7e6f2c-6a55-4f0a-9d3e-3f1f4f0f9c11' };
    const created = await kube.request('POST', tenants, { ...tenant(name), status });
    expect([created.status, created.body.status]).toEqual([201, undefined]);
    const updated = await kube.request('PATCH', `${tenants}/${name}`, { status }, MERGE);
    expect([updated.status, updated.body.status]).toEqual([200, undefined]);
  });

  test('is all that a write to the status subresource changes; the generation stays', async () => {
    const { metadata, spec } = await stored();
    const patch = {
      metadata: { labels: { forged: 'yes' }, finalizers: ['forged.example.com/x'] },
      spec: { displayName: 'Forged' },
      status: { slug: 'true' },
    };
    const { status, body } = await kube.request('PATCH', `${tenants}/${metadata.name}/status`, patch, MERGE);
    expect([status, body.status]).toEqual([200, { slug: 'true' }]);
    expect(body.spec).toEqual(spec);
    expect([body.metadata.labels, body.metadata.finalizers]).toEqual([undefined, undefined]);
    expect(body.metadata.generation).toBe(1);
  });

  test('has conditions that are owned individually by their field managers', async () => {
    const { metadata } = await stored();
    const report = (manager: string, conditions: readonly object[], force = false) =>
      kube.request(
        'PATCH',
        `${tenants}/${metadata.name}/status?fieldManager=${manager}&force=${force}`,
        { apiVersion: GROUP_VERSION, kind: 'Tenant', status: { conditions } },
        APPLY,
      );
    const types = ({ body }: KubeAnswer) =>
      body.status.conditions.map(({ type, status }: { type: string; status: string }) => `${type}=${status}`);
    await report('one', [
      condition('Ready', 'True', 'Reconciled'),
      condition('Applied', 'True', 'Reconciled'),
    ]);
    const both = await report('two', [condition('Suspended', 'False', 'Active')]);
    expect(types(both)).toEqual(['Ready=True', 'Applied=True', 'Suspended=False']);

    const clash = await report('two', [condition('Ready', 'False', 'Paused')]);
    expect([clash.status, clash.body.message]).toEqual([
      409,
      expect.stringContaining('conflicts with "one"'),
    ]);
    const less = await report('one', [condition('Ready', 'True', 'Reconciled')]);
    expect(types(less)).toEqual(['Ready=True', 'Suspended=False']);
    const taken = await report('two', [condition('Ready', 'False', 'Paused')], true);
    expect(types(taken)).toEqual(['Ready=False']);
  });
});

describe('a plan', () => {
  const plans = `${ROOT}/plans`;
  const object = ({ name = 'gold', spec }: Omit<WrittenRow, 'what'>): object => ({
    apiVersion: GROUP_VERSION,
    kind: 'Plan',
    metadata: { name },
    ...(spec === undefined ? {} : { spec }),
  });

  test.each(PLAN_ROWS)('is validated: $what', async ({ refused, ...row }) => {
    const answer = await kube.request('POST', `${plans}?dryRun=All&fieldValidation=Strict`, object(row));
    expect(said(answer)).toEqual(verdict(201, refused));
  });

  test.each(CONDITION_ROWS)('has a status that is validated: $what', async ({ status, refused }) => {
    const [first] = PLAN_ROWS;
    const name = `${ownPrefix}-with-status`;
    await kube.request('POST', plans, object({ ...first, name }));
    const patch = { apiVersion: GROUP_VERSION, kind: 'Plan', status };
    const path = `${plans}/${name}/status?dryRun=All&fieldValidation=Strict`;
    expect(said(await kube.request('PATCH', path, patch, MERGE))).toEqual(verdict(200, refused));
  });

  test('that is built in can be created, and is printed with its daily limit and use', async () => {
    for (const builtIn of builtInPlans()) {
      const plan = { ...builtIn, metadata: { name: `${ownPrefix}-${builtIn.metadata.name}` } };
      expect(said(await kube.request('POST', `${plans}?fieldValidation=Strict`, plan))).toEqual(verdict(201));
    }
    const conditions = [condition('Ready', 'True', 'Reconciled'), condition('InUse', 'False', 'NoTenants')];
    await kube.request('PATCH', `${plans}/${ownPrefix}-starter/status`, { status: { conditions } }, MERGE);
    const { body } = await kube.request('GET', `${plans}/${ownPrefix}-starter`, undefined, AS_TABLE);
    const columns = body.columnDefinitions as { name: string }[];
    expect(columns.map(({ name }) => name)).toEqual([
      'Name',
      'Display name',
      'Messages per day',
      'In use',
      'Ready',
      'Age',
    ]);
    expect(body.rows[0].cells).toEqual([
      `${ownPrefix}-starter`,
      'Starter',
      50_000,
      'False',
      'True',
      expect.stringMatching(/^\d+s$/),
    ]);
  });
});
