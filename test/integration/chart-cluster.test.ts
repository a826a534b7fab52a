import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { PLANS } from '#core/domain/plan.ts';
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
import { installCrd, type KubeObject } from '#test/support/kube-connection.ts';

const RESTRICTED = {
  'pod-security.kubernetes.io/enforce': 'restricted',
  'pod-security.kubernetes.io/warn': 'restricted',
};
/** Those of the values in `ci/`, and those of the releases below. */
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
  // What pods of these names ask for.
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
}, 120_000);
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

  test(
    'live beside each other, are upgraded, and leave each other alone when they go',
    { timeout: 120_000 },
    async () => {
      await install(first);
      await install(second);
      await install(first, 'upgrade');
      expect([await exists(deployment('team-a')), await exists(deployment('team-b'))]).toEqual([true, true]);

      await helm(['uninstall', 'despatch', '--namespace', 'team-b', '--no-hooks'], kube.kubeconfigPath);
      expect([await exists(deployment('team-a')), await exists(deployment('team-b'))]).toEqual([true, false]);

      await helm(['uninstall', 'despatch', '--namespace', 'team-a', '--no-hooks'], kube.kubeconfigPath);
      expect([await exists(deployment('team-a')), await exists(definition)]).toEqual([false, true]);

      // What was kept is the release's own when it comes back, and known before its Plans are made.
      await install({ ...first, set: { 'plans.create': [{ name: 'partner', limits: PLANS.free }] } });
      expect([await exists(deployment('team-a')), await exists(plan)]).toEqual([true, true]);
    },
  );
});

describe.each(ciValues())('with the values of ci/%s', (values) => {
  test('the API server takes every object, knows every field, and warns of nothing', async () => {
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

  test('every pod is let into a namespace that restricts', async () => {
    const objects = await renderChart({ values, apiVersions: [PLAN] });
    for (const account of objects.filter(({ kind }) => kind === 'ServiceAccount')) await kube.apply(account);
    for (const { owner, metadata, spec } of podTemplates(objects)) {
      const { status, body } = await createPod(metadata, spec, namespaceOf(objects));
      expect([owner, status, body.message]).toEqual([owner, 201, undefined]);
    }
  });
});

test('a pod with more rights than that is refused', async () => {
  const set = { 'api.securityContext.allowPrivilegeEscalation': true };
  const [pod] = podTemplates(await renderChart({ set })).filter(
    ({ owner }) => owner === 'Deployment despatch-api',
  );
  const { status, body } = await createPod(pod?.metadata, pod?.spec, 'despatch');
  expect([status, body.message]).toEqual([403, expect.stringContaining('allowPrivilegeEscalation')]);
});

test('a field that does not exist is refused', async () => {
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

  test('has in the namespaces that are named what it needs, elsewhere nothing', async () => {
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

  test('holds its own lease and no other', async () => {
    await grant(await renderChart({ values: 'watch-namespaces' }));
    expect(await may('despatch', 'create', 'leases')).toBe(true);
    expect(await may('despatch', 'update', 'leases', 'despatch-controller')).toBe(true);
    expect(await may('despatch', 'update', 'leases', 'another')).toBe(false);
    expect(await may('team-a', 'create', 'leases')).toBe(false);
  });

  test('has in all namespaces what it needs, and never more', async () => {
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
