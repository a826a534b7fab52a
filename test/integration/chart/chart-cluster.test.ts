import { writtenLimits } from '../../../services/controller/resources/limit-fields.ts';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import {
  ciValues,
  helm,
  installArgs,
  podTemplates,
  renderChart,
  type ChartObject,
  type RenderOptions,
} from '#test/support/chart.ts';
import { projectRoot } from '#test/support/command.ts';
import { startKubeApiServer, type KubeApiServer } from '#test/support/kube-apiserver.ts';
import { installCrd, type KubeObject, type KubeUser } from '#test/support/kube-connection.ts';

const RESTRICTED = {
  'pod-security.kubernetes.io/enforce': 'restricted',
  'pod-security.kubernetes.io/warn': 'restricted',
};
/** The namespaces of the values in `ci/` and of the releases below. */
const NAMESPACES = ['despatch', 'elsewhere', 'team-a', 'team-b', 'monitoring'];
const PLAN = 'despatch.dev/v1alpha1/Plan';

let kube: KubeApiServer;

beforeAll(async () => {
  kube = await startKubeApiServer();
  for (const name of NAMESPACES) {
    await create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: RESTRICTED } });
  }
  const folder = join(projectRoot, 'test/support/third-party-crds');
  for (const file of await readdir(folder)) {
    await installCrd(kube, parse(await readFile(join(folder, file), 'utf8')) as KubeObject);
  }
  // Objects to which pods with these names refer.
  await create({
    apiVersion: 'scheduling.k8s.io/v1',
    kind: 'PriorityClass',
    metadata: { name: 'messaging' },
    value: 1,
  });
  await create({
    apiVersion: 'node.k8s.io/v1',
    kind: 'RuntimeClass',
    metadata: { name: 'gvisor' },
    handler: 'runsc',
  });
});
afterAll(() => kube[Symbol.asyncDispose]());

describe('two releases, installed by Helm', () => {
  const install = (options: RenderOptions, verb = 'install') =>
    helm(
      [verb, ...installArgs({ ...options, set: { 'migrations.mode': 'job', ...options.set } }), '--no-hooks'],
      kube.kubeconfigPath,
    );
  const first = { values: 'two-releases-first', namespace: 'team-a' };
  const second = { values: 'two-releases-second', namespace: 'team-b' };
  const exists = async (path: string) => (await kube.request('GET', path)).status === 200;
  const deployment = (namespace: string) => `/apis/apps/v1/namespaces/${namespace}/deployments/despatch-api`;
  const definition = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tenants.despatch.dev';
  const plan = '/apis/despatch.dev/v1alpha1/plans/partner';

  test('coexist, can be upgraded, and are uninstalled without affecting each other', async () => {
    await install(first);
    await install(second);
    await install(first, 'upgrade');
    expect([await exists(deployment('team-a')), await exists(deployment('team-b'))]).toEqual([true, true]);

    await helm(['uninstall', 'despatch', '--namespace', 'team-b', '--no-hooks'], kube.kubeconfigPath);
    expect([await exists(deployment('team-a')), await exists(deployment('team-b'))]).toEqual([true, false]);

    await helm(['uninstall', 'despatch', '--namespace', 'team-a', '--no-hooks'], kube.kubeconfigPath);
    expect([await exists(deployment('team-a')), await exists(definition)]).toEqual([false, true]);

    // After a reinstall the release owns the retained objects again, and the cluster serves the CRDs before the release's Plans
    // are created.
    await install({
      ...first,
      set: { 'plans.create': [{ name: 'partner', limits: writtenLimits(BUILT_IN_PLANS.free) }] },
    });
    expect([await exists(deployment('team-a')), await exists(plan)]).toEqual([true, true]);
  });
});

test('enabling autoscaling as documented keeps the number of pods', async () => {
  const release = { values: 'two-releases-second', namespace: 'team-b' };
  const install = (verb: string, set: RenderOptions['set']) =>
    helm(
      [verb, ...installArgs({ ...release, set: { 'migrations.mode': 'job', ...set } }), '--no-hooks'],
      kube.kubeconfigPath,
    );
  const path = '/apis/apps/v1/namespaces/team-b/deployments/despatch-api';
  const replicas = async () =>
    ((await kube.request('GET', path)).body as { spec: { replicas: number } }).spec.replicas;
  await install('install', { 'api.replicas': 4 });
  expect(await replicas()).toBe(4);
  const document = await readFile(join(projectRoot, 'deploy/docs/upgrade.md'), 'utf8');
  const [, , manager, object] =
    /kubectl apply --server-side (-n \S+ )?--field-manager=(\S+) -f - <<'END'\n([^]*?)\nEND\n/.exec(
      document,
    ) ?? [];
  const kept = parse(object ?? '') as KubeObject;
  await kube.apply(
    { ...kept, metadata: { ...kept.metadata, namespace: 'team-b' } },
    { fieldManager: manager ?? '', force: false },
  );
  await install('upgrade', { 'api.autoscaling.enabled': true });
  expect(await replicas()).toBe(4);
  await helm(['uninstall', 'despatch', '--namespace', 'team-b', '--no-hooks'], kube.kubeconfigPath);
});

test('after manual scaling an upgrade fails, and succeeds with --force-conflicts', async () => {
  const release = { values: 'two-releases-second', namespace: 'team-b', set: { 'migrations.mode': 'job' } };
  const run = (verb: string, ...more: string[]) =>
    helm([verb, ...installArgs(release), '--no-hooks', ...more], kube.kubeconfigPath);
  const path = '/apis/apps/v1/namespaces/team-b/deployments/despatch-api/scale';
  const scale = async () => (await kube.request('GET', path)).body as { spec: { replicas: number } };
  await run('install');
  const before = await scale();
  expect((await kube.request('PUT', path, { ...before, spec: { replicas: 6 } })).status).toBe(200);
  await expect(run('upgrade')).rejects.toThrow(/conflict[^]*\.spec\.replicas/);
  expect((await scale()).spec.replicas).toBe(6);
  await run('upgrade', '--force-conflicts');
  expect((await scale()).spec).toEqual(before.spec);
  await helm(['uninstall', 'despatch', '--namespace', 'team-b', '--no-hooks'], kube.kubeconfigPath);
});

describe.each(ciValues())('with the values of ci/%s', (values) => {
  test('the API server accepts every object without unknown fields or warnings', async () => {
    for (const object of await renderChart({ values, apiVersions: [PLAN] })) {
      const { status, body, warnings } = await kube.apply(object, { dryRun: true });
      const verdict = { kind: object.kind, name: object.metadata.name, message: body.message, warnings };
      expect({ ...verdict, isTaken: status < 300 }).toEqual({
        ...verdict,
        message: undefined,
        warnings: [],
        isTaken: true,
      });
    }
  });

  test('a namespace with the restricted Pod Security level admits every pod', async () => {
    const objects = await renderChart({ values, apiVersions: [PLAN] });
    for (const account of objects.filter(({ kind }) => kind === 'ServiceAccount')) await kube.apply(account);
    for (const { owner, metadata, spec } of podTemplates(objects)) {
      const { status, body } = await createPod(metadata, spec, namespaceOf(objects));
      expect([owner, status, body.message]).toEqual([owner, 201, undefined]);
    }
  });
});

test('a restricted namespace rejects a pod with allowPrivilegeEscalation', async () => {
  const set = { 'api.securityContext.allowPrivilegeEscalation': true };
  const [pod] = podTemplates(await renderChart({ set })).filter(
    ({ owner }) => owner === 'Deployment despatch-api',
  );
  const { status, body } = await createPod(pod?.metadata, pod?.spec, 'despatch');
  expect([status, body.message]).toEqual([403, expect.stringContaining('allowPrivilegeEscalation')]);
});

test('the API server rejects an object with an unknown field', async () => {
  const [object] = (await renderChart()).filter(({ kind }) => kind === 'Deployment');
  const wrong = { ...object, spec: { ...object?.spec, replica: 1 } } as unknown as KubeObject;
  const { status, body } = await kube.apply(wrong, { dryRun: true });
  expect([status < 300, body.message]).toEqual([
    false,
    expect.stringContaining('field not declared in schema'),
  ]);
});

describe('the controller’s service account', () => {
  const may = async (namespace: string, verb: string, resource: string, name = '') => {
    const [plural = '', subresource = ''] = resource.split('/');
    const group = {
      tenants: 'despatch.dev',
      plans: 'despatch.dev',
      leases: 'coordination.k8s.io',
      events: 'events.k8s.io',
    }[plural];
    const { body } = await kube.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        user: 'system:serviceaccount:despatch:despatch-controller',
        groups: ['system:serviceaccounts', 'system:serviceaccounts:despatch', 'system:authenticated'],
        resourceAttributes: { namespace, verb, group: group ?? '', resource: plural, subresource, name },
      },
    });
    return body.status.allowed as boolean;
  };
  const NEEDS = [
    ['list', 'tenants'],
    ['patch', 'tenants/status'],
    ['create', 'events'],
    ['patch', 'events'],
  ] as const;
  const NEVER = [
    ['create', 'tenants'],
    ['delete', 'tenants'],
    ['update', 'tenants/status'],
    ['delete', 'plans'],
    ['list', 'secrets'],
    ['get', 'configmaps'],
    ['list', 'pods'],
    ['list', 'leases'],
  ] as const;

  test('has its rights in the watched namespaces and none elsewhere', async () => {
    await grant(await renderChart({ values: 'watch-namespaces' }));
    for (const [verb, resource] of NEEDS) {
      for (const namespace of ['team-a', 'team-b']) {
        expect([namespace, verb, resource, await may(namespace, verb, resource)]).toEqual([
          namespace,
          verb,
          resource,
          true,
        ]);
      }
      for (const namespace of ['despatch', 'elsewhere', '']) {
        expect([namespace, verb, resource, await may(namespace, verb, resource)]).toEqual([
          namespace,
          verb,
          resource,
          false,
        ]);
      }
    }
    expect(await may('', 'create', 'plans')).toBe(true);
  });

  test('may update its own lease and no other', async () => {
    await grant(await renderChart({ values: 'watch-namespaces' }));
    expect(await may('despatch', 'create', 'leases')).toBe(true);
    expect(await may('despatch', 'update', 'leases', 'despatch-controller')).toBe(true);
    expect(await may('despatch', 'update', 'leases', 'another')).toBe(false);
    expect(await may('team-a', 'create', 'leases')).toBe(false);
  });

  test('has its rights in every namespace by default, and no further rights', async () => {
    await grant(await renderChart());
    for (const [verb, resource] of NEEDS)
      expect([verb, resource, await may('elsewhere', verb, resource)]).toEqual([verb, resource, true]);
    for (const [verb, resource] of NEVER)
      expect([verb, resource, await may('despatch', verb, resource)]).toEqual([verb, resource, false]);
  });

  async function grant(objects: readonly ChartObject[]): Promise<void> {
    for (const object of objects.filter(({ apiVersion }) => apiVersion.startsWith('rbac.'))) {
      const { status, body } = await kube.apply(object);
      expect([status < 300, body.message]).toEqual([true, undefined]);
    }
  }
});

describe('the admission policy for Tenants', () => {
  const NAMESPACE = 'team-a';
  const path = (name = '') => `/apis/despatch.dev/v1alpha1/namespaces/${NAMESPACE}/tenants/${name}`;
  const SOON = { timeout: 45_000, interval: 100 };
  const MERGE = { contentType: 'application/merge-patch+json' };
  const FINALIZER = 'tenant.despatch.dev/finalizer';
  type Who = 'editor' | 'seller' | 'head' | 'deployer' | 'guard' | 'platform' | 'controller' | 'collector';
  let who: Record<Who, KubeUser>;

  beforeAll(async () => {
    await kube.applyCrds();
    const objects = await renderChart({ values: 'tenant-policy' });
    const kinds =
      /^(ClusterRole|ClusterRoleBinding|ValidatingAdmissionPolicy|ValidatingAdmissionPolicyBinding)$/;
    for (const object of objects.filter(({ kind }) => kinds.test(kind))) await create(object);
    const service = ['system:serviceaccounts'];
    who = {
      editor: kube.addUser('editor'),
      seller: kube.addUser('seller', ['sales']),
      head: kube.addUser('head-of-sales'),
      deployer: kube.addUser('system:serviceaccount:delivery:argo-cd', service),
      guard: kube.addUser('guard', ['trust-and-safety']),
      platform: kube.addUser('platform'),
      controller: kube.addUser('system:serviceaccount:despatch:despatch-controller', service),
      collector: kube.addUser('system:serviceaccount:kube-system:generic-garbage-collector', service),
    };
    const bind = (name: string, role: string, names: readonly string[]) =>
      create({
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
        subjects: names.map((one) => ({ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: one })),
      });
    // The rights that an editor of a namespace has after the cluster has aggregated the roles.
    await bind(
      'editors',
      'despatch.despatch-edit',
      Object.values(who).map(({ name }) => name),
    );
    await bind('platform', 'cluster-admin', [who.platform.name]);
    // An admission policy takes effect some time after its creation.
    await vi.waitFor(async () => {
      const { status } = await declare('editor', { planRef: { name: 'enterprise' } }, true);
      if (status !== 403) throw new Error(`not yet: ${status}`);
    }, SOON);
  });

  let number = 0;
  const declare = (as: Who, spec: object, dryRun = false) =>
    who[as].request('POST', `${path()}?${dryRun ? 'dryRun=All' : ''}`, {
      apiVersion: 'despatch.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: `t-${(number += 1)}` },
      spec,
    });
  const patch = (as: Who, name: string, change: object) =>
    who[as].request('PATCH', path(name), change, MERGE);
  /** Creates a tenant as a user with all rights. */
  async function tenant(spec: object, metadata: object = {}): Promise<string> {
    const made = await declare('platform', spec);
    expect([made.status, made.body.message]).toEqual([201, undefined]);
    const name = made.body.metadata.name as string;
    if (Object.keys(metadata).length > 0) await patch('platform', name, { metadata });
    return name;
  }

  const RULES: readonly (readonly [what: string, spec: object, allowed: readonly Who[]])[] = [
    ['an open plan', { planRef: { name: 'starter' } }, ['editor', 'seller', 'head', 'guard', 'platform']],
    ['a plan of some', { planRef: { name: 'growth' } }, ['seller', 'head', 'deployer', 'platform']],
    ['a plan of one', { planRef: { name: 'enterprise' } }, ['head', 'platform']],
    ['limits', { limits: { messagesPerDay: 5 } }, ['head', 'platform']],
    ['a purge', { deletionPolicy: 'Purge' }, ['deployer', 'platform']],
    ['a suspension', { state: 'Suspended', suspendReason: 'abuse' }, ['guard', 'platform']],
    [
      'nothing of these',
      { displayName: 'Shop', limits: {}, state: 'Active', deletionPolicy: 'Retain' },
      ['editor'],
    ],
  ];
  const everybody: readonly Who[] = ['editor', 'seller', 'head', 'deployer', 'guard', 'platform'];

  test.each(RULES)('restricts who may create a Tenant with %s', async (_what, spec, allowed) => {
    for (const one of everybody) {
      const { status, body } = await declare(one, spec, true);
      const isOpen = allowed.includes(one) || allowed.includes('editor');
      expect([one, status, isOpen ? '' : body.message]).toEqual([
        one,
        isOpen ? 201 : 403,
        isOpen ? '' : expect.stringContaining('You may not'),
      ]);
    }
  });

  test.each(RULES)('restricts who may change a Tenant to %s, and back', async (_what, spec, allowed) => {
    const back = {
      planRef: { name: 'free' },
      limits: null,
      deletionPolicy: 'Retain',
      state: 'Active',
      suspendReason: null,
    };
    for (const one of everybody) {
      const name = await tenant({});
      const isOpen = allowed.includes(one) || allowed.includes('editor');
      expect([one, (await patch(one, name, { spec })).status]).toEqual([one, isOpen ? 200 : 403]);
    }
    const name = await tenant(spec);
    // A user who may set a plan may always return to an open one; that change needs no further right.
    const isFree = [
      'an open plan',
      'a plan of some',
      'a plan of one',
      'a purge',
      'nothing of these',
    ].includes(_what);
    expect((await patch('editor', name, { spec: back })).status).toBe(isFree ? 200 : 403);
  });

  test('lets an editor change other fields of a Tenant with restricted values', async () => {
    const name = await tenant({
      planRef: { name: 'enterprise' },
      limits: { messagesPerDay: 5 },
      deletionPolicy: 'Purge',
      state: 'Suspended',
      suspendReason: 'billing',
    });
    const change = { spec: { displayName: 'Renamed' }, metadata: { labels: { team: 'shop' } } };
    expect((await patch('editor', name, change)).status).toBe(200);
  });

  test('prevents bypassing a suspension by deletion, pause annotation or finalizer removal', async () => {
    const name = await tenant({ state: 'Suspended' }, { finalizers: [FINALIZER] });
    expect((await who.editor.request('DELETE', path(name))).status).toBe(403);
    // Deleting an owner makes the garbage collector delete the tenant.
    expect((await who.collector.request('DELETE', path(name))).status).toBe(403);
    for (const metadata of [{ annotations: { 'despatch.dev/paused': 'true' } }, { finalizers: null }]) {
      expect((await patch('editor', name, { metadata })).status).toBe(403);
      expect((await patch('guard', name, { metadata })).status).toBe(200);
    }
    expect((await who.guard.request('DELETE', path(name))).status).toBe(200);
  });

  test('prevents bypassing limits by deletion', async () => {
    const name = await tenant({ limits: { messagesPerDay: 5 } });
    for (const one of ['editor', 'collector'] as const) {
      const { status, body } = await who[one].request('DELETE', path(name));
      expect([status, body.message]).toEqual([403, expect.stringContaining('change the limits')]);
    }
    expect((await who.head.request('DELETE', path(name))).status).toBe(200);
    const empty = await tenant({ limits: {} });
    expect((await who.editor.request('DELETE', path(empty))).status).toBe(200);
  });

  test('lets only users who may set Purge delete a Tenant that has it', async () => {
    const name = await tenant({ deletionPolicy: 'Purge' });
    expect((await who.editor.request('DELETE', path(name))).status).toBe(403);
    expect((await who.deployer.request('DELETE', path(name))).status).toBe(200);
    const kept = await tenant({});
    expect((await who.editor.request('DELETE', path(kept))).status).toBe(200);
  });

  test('blocks neither the controller nor the garbage collector', async () => {
    const spec = {
      planRef: { name: 'enterprise' },
      limits: { messagesPerDay: 5 },
      deletionPolicy: 'Purge',
      state: 'Suspended',
    };
    const name = await tenant(spec);
    const finalizers = async (as: Who, names: readonly string[]) =>
      (await patch(as, name, { metadata: { finalizers: names } })).status;
    expect(await finalizers('controller', [FINALIZER])).toBe(200);
    expect(await finalizers('collector', [FINALIZER, 'foregroundDeletion'])).toBe(200);
    expect((await who.platform.request('DELETE', path(name))).status).toBe(200);
    expect(await finalizers('collector', [FINALIZER])).toBe(200);
    expect(await finalizers('controller', [])).toBe(200);
    expect((await kube.request('GET', path(name))).status).toBe(404);
  });
});

test('no aggregated ClusterRole grants rights on Tenants unless the values enable it', async () => {
  const roles = (objects: readonly ChartObject[]) =>
    objects.filter(({ metadata }) =>
      Object.keys(metadata.labels ?? {}).some((label) => label.includes('aggregate-to')),
    );
  expect(roles(await renderChart())).toEqual([]);
  expect(roles(await renderChart({ set: { 'rbac.aggregateClusterRoles': true } }))).toHaveLength(2);
});

async function create(object: KubeObject & Record<string, unknown>): Promise<void> {
  const { status, body } = await kube.apply(object);
  if (status >= 300) throw new Error(`${object.kind} ${object.metadata.name}: ${JSON.stringify(body)}`);
}

function namespaceOf(objects: readonly ChartObject[]): string {
  return objects.find(({ kind }) => kind === 'Deployment')?.metadata.namespace ?? '';
}

function createPod(metadata: unknown, spec: unknown, namespace: string) {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { ...(metadata as object), generateName: 'pod-' },
    spec,
  };
  return kube.request('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All&fieldValidation=Strict`, pod);
}
