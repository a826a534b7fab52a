import { describe, expect, test } from 'vitest';
import {
  ciValues,
  environmentOf,
  pick,
  podTemplates,
  renderChart,
  renderNotes,
  type ChartObject,
  type PodTemplate,
} from '#test/support/chart.ts';

const SHARED_DIGEST = `sha256:${'a'.repeat(64)}`;
const OWN_DIGEST = `sha256:${'b'.repeat(64)}`;

const COMPONENTS = ['api', 'worker', 'controller'] as const;

/** Containers that the chart itself defines. */
const ownContainers = (pod: PodTemplate) =>
  (pod.spec.containers as { name: string }[]).filter(({ name }) => name !== 'beside') as never[];

describe.each(ciValues())('with the values of ci/%s', (values) => {
  test('every pod is hardened', async () => {
    const pods = podTemplates(await renderChart({ values }));
    expect(pods.length).toBeGreaterThan(3);
    for (const pod of pods) {
      const isCallingKubernetes = /controller|messaging-release-finalizers|release-finalizers$/.test(
        pod.owner,
      );
      expect(pod).toMatchObject({
        owner: pod.owner,
        spec: {
          automountServiceAccountToken: isCallingKubernetes,
          enableServiceLinks: false,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 10001,
            runAsGroup: 10001,
            seccompProfile: { type: 'RuntimeDefault' },
          },
        },
      });
      expect(Object.keys(pod.spec)).not.toContain('hostNetwork');
      for (const container of ownContainers(pod)) {
        expect(container).toMatchObject({
          securityContext: {
            allowPrivilegeEscalation: false,
            privileged: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
          resources: {
            requests: {
              cpu: expect.anything(),
              memory: expect.anything(),
              'ephemeral-storage': expect.anything(),
            },
            limits: { memory: expect.anything(), 'ephemeral-storage': expect.anything() },
          },
        });
        expect(Object.keys((container as { resources: { limits: object } }).resources.limits)).not.toContain(
          'cpu',
        );
      }
    }
  });

  test('a pod gets only its own credentials, as files, and no secret variable but DATABASE_URL', async () => {
    const pods = podTemplates(await renderChart({ values }));
    for (const component of [...COMPONENTS, 'migrate']) {
      const pod = pods.find(({ spec }) =>
        spec.containers.some(({ name }: { name: string }) => name === component),
      );
      if (pod === undefined) continue;
      const others = [...COMPONENTS, 'migrate'].filter((other) => other !== component);
      const keys = keysOf(pod);
      expect(keys.length).toBeGreaterThan(0);
      // The migration sets the passwords of all roles, so it needs all keys.
      const foreign = keys.filter((key) => others.some((other) => key.startsWith(other)));
      if (component !== 'migrate') expect([component, foreign]).toEqual([component, []]);
      expect([component, keys.includes('key-pepper')]).toEqual([component, component === 'api']);
      const takesReceipts = component === 'api' || component === 'worker';
      expect([component, keys.includes('receipt-pepper')]).toEqual([component, takesReceipts]);
      const { env } = pod.spec.containers[0];
      const fromSecrets = env.filter(
        ({ name, valueFrom }: { name: string; valueFrom?: object }) =>
          valueFrom !== undefined && 'secretKeyRef' in valueFrom && name !== 'DATABASE_URL',
      );
      expect([component, fromSecrets]).toEqual([component, []]);
    }
  });

  test('every pod has one NetworkPolicy for both directions, and each policy selects one pod', async () => {
    const objects = await renderChart({ values });
    const policies = objects.filter(({ kind }) => kind === 'NetworkPolicy');
    if (values === 'dev') {
      expect(policies).toEqual([]);
      return;
    }
    const pods = podTemplates(objects);
    for (const pod of pods) {
      const matching = policies.filter((policy) =>
        selects(policy.spec.podSelector.matchLabels, pod.metadata.labels),
      );
      expect([pod.owner, ...matching.map(({ spec }) => spec.policyTypes)]).toEqual([
        pod.owner,
        ['Ingress', 'Egress'],
      ]);
    }
    for (const policy of policies) {
      const matched = pods.filter((pod) => selects(policy.spec.podSelector.matchLabels, pod.metadata.labels));
      expect([policy.metadata.name, matched.length]).toEqual([policy.metadata.name, 1]);
    }
  });

  test('no environment variable is set twice, which server-side apply would reject', async () => {
    for (const pod of podTemplates(await renderChart({ values }))) {
      for (const container of ownContainers(pod) as { env: { name: string }[] }[]) {
        const names = container.env.map(({ name }) => name);
        expect([pod.owner, ...names.toSorted()]).toEqual([pod.owner, ...[...new Set(names)].toSorted()]);
      }
    }
  });
});

test('a rollout removes no pod before a new one is ready, and leaves the old one time to end', async () => {
  const objects = await renderChart();
  for (const component of COMPONENTS) {
    const { spec } = pick(objects, 'Deployment', `despatch-${component}`);
    expect(spec.strategy).toEqual({
      type: 'RollingUpdate',
      rollingUpdate: { maxUnavailable: 0, maxSurge: 1 },
    });
  }
  const api = pick(objects, 'Deployment', 'despatch-api').spec.template.spec;
  expect(api.containers[0].lifecycle).toEqual({ preStop: { sleep: { seconds: 5 } } });
  const delaySeconds = Number(environmentOf(api.containers[0])['SHUTDOWN_DELAY_MS']) / 1_000;
  expect(api.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(5 + delaySeconds + 25);
  for (const component of ['worker', 'controller']) {
    const { spec } = pick(objects, 'Deployment', `despatch-${component}`).spec.template;
    expect(spec.containers[0].lifecycle).toBeUndefined();
    const graceSeconds = Number(environmentOf(spec.containers[0])['SHUTDOWN_GRACE_MS']) / 1_000;
    expect(spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(graceSeconds + 10);
  }
});

test('readiness probes request /readyz; startup and liveness probes request /healthz', async () => {
  const objects = await renderChart();
  for (const component of COMPONENTS) {
    const [container] = pick(objects, 'Deployment', `despatch-${component}`).spec.template.spec.containers;
    expect(container).toMatchObject({
      startupProbe: { httpGet: { path: '/healthz', port: 'metrics' } },
      livenessProbe: { httpGet: { path: '/healthz', port: 'metrics' } },
      readinessProbe: { httpGet: { path: '/readyz', port: 'metrics' } },
    });
    expect(container.ports).toContainEqual({ name: 'metrics', containerPort: 9090, protocol: 'TCP' });
  }
});

test('the pods of all Jobs are scheduled alike, and each has its own annotations', async () => {
  const scheduling = {
    nodeSelector: { pool: 'jobs' },
    tolerations: [{ key: 'jobs', operator: 'Exists' }],
    affinity: { nodeAffinity: {} },
    priorityClassName: 'low',
  };
  const annotated = (of: string) => ({ podAnnotations: { of } });
  const set = {
    migrations: { ...scheduling, ...annotated('migrate') },
    tests: annotated('test'),
    uninstall: { ...annotated('uninstall'), releaseFinalizers: true },
  };
  const jobs = podTemplates(await renderChart({ set })).filter(({ owner }) => owner.startsWith('Job '));
  const annotations = jobs.map(({ metadata }) => (metadata as { annotations?: object }).annotations);
  expect(annotations).toHaveLength(3);
  expect(annotations).toEqual(
    expect.arrayContaining(['migrate', 'test', 'uninstall'].map((of) => ({ of }))) as object[],
  );
  for (const { spec } of jobs) expect(spec).toMatchObject(scheduling);
});

test('a custom probe handler replaces the default one, and the configured timing is kept', async () => {
  const liveness = { exec: { command: ['true'] }, periodSeconds: 7 };
  const readiness = { tcpSocket: { port: 'metrics' } };
  const objects = await renderChart({ set: { worker: { probes: { liveness, readiness } } } });
  const [container] = pick(objects, 'Deployment', 'despatch-worker').spec.template.spec.containers;
  expect(container.livenessProbe).toEqual({ ...liveness, timeoutSeconds: 3, failureThreshold: 6 });
  expect(container.readinessProbe).toMatchObject(readiness);
  expect(container.readinessProbe.httpGet).toBeUndefined();
});

test('pods of a component spread over zones and nodes, each version separately', async () => {
  const { spec } = pick(await renderChart(), 'Deployment', 'despatch-worker');
  const { topologySpreadConstraints, affinity } = spec.template.spec;
  expect(topologySpreadConstraints.map(({ topologyKey }: { topologyKey: string }) => topologyKey)).toEqual([
    'topology.kubernetes.io/zone',
    'kubernetes.io/hostname',
  ]);
  for (const constraint of topologySpreadConstraints) {
    expect(constraint).toMatchObject({
      matchLabelKeys: ['pod-template-hash'],
      labelSelector: { matchLabels: spec.selector.matchLabels },
    });
  }
  const [preferred] = affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution;
  expect(preferred.podAffinityTerm.labelSelector.matchLabels).toEqual(spec.selector.matchLabels);
});

describe('the number of pods', () => {
  test('is set by the chart if nothing else scales', async () => {
    const objects = await renderChart();
    for (const component of COMPONENTS)
      expect(pick(objects, 'Deployment', `despatch-${component}`).spec.replicas).toBe(2);
    expect(objects.filter(({ kind }) => kind === 'HorizontalPodAutoscaler')).toEqual([]);
  });

  test.each(COMPONENTS)('is left to others if the value of the %s is null', async (component) => {
    const objects = await renderChart({ set: { [`${component}.replicas`]: null } });
    expect(Object.keys(pick(objects, 'Deployment', `despatch-${component}`).spec)).not.toContain('replicas');
    expect(pick(objects, 'PodDisruptionBudget', `despatch-${component}`).spec.maxUnavailable).toBe(1);
    expect(await renderNotes({ set: { [`${component}.replicas`]: null } })).not.toContain('has one pod');
  });

  test('is left to the HorizontalPodAutoscaler if autoscaling is on', async () => {
    const objects = await renderChart({ values: 'autoscaling' });
    for (const component of ['api', 'worker']) {
      expect(Object.keys(pick(objects, 'Deployment', `despatch-${component}`).spec)).not.toContain(
        'replicas',
      );
      expect(pick(objects, 'HorizontalPodAutoscaler', `despatch-${component}`).spec.scaleTargetRef).toEqual({
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        name: `despatch-${component}`,
      });
    }
    const { metrics } = pick(objects, 'HorizontalPodAutoscaler', 'despatch-worker').spec;
    expect(metrics.map(({ type }: { type: string }) => type)).toEqual(['Pods']);
  });

  test.each([
    [
      'keda-prometheus',
      'prometheus',
      { query: 'max(despatch_backlog_messages{namespace="despatch"})', ignoreNullValues: 'false' },
    ],
    ['keda-jetstream', 'nats-jetstream', { stream: 'DESPATCH_WAKE', consumer: 'DESPATCH_DELIVERY' }],
  ])('is left to KEDA with %s', async (values, type, metadata) => {
    const objects = await renderChart({ values });
    expect(Object.keys(pick(objects, 'Deployment', 'despatch-worker').spec)).not.toContain('replicas');
    const { spec } = pick(objects, 'ScaledObject', 'despatch-worker');
    expect(spec.triggers).toEqual([
      expect.objectContaining({ type, metadata: expect.objectContaining(metadata) }),
    ]);
    // The metric is gone while the database is, and workers that run may hold outcomes that are not recorded.
    expect(spec.fallback).toEqual({ failureThreshold: 5, replicas: 4, behavior: 'currentReplicasIfHigher' });
  });

  test('is left to KEDA with the configured annotations of the ScaledObject', async () => {
    const annotations = { 'validations.keda.sh/hpa-ownership': 'false' };
    const objects = await renderChart({
      values: 'keda-prometheus',
      set: { 'worker.keda.annotations': annotations },
    });
    expect(pick(objects, 'ScaledObject', 'despatch-worker').metadata.annotations).toMatchObject(annotations);
  });

  test('is protected by a PodDisruptionBudget if there is more than one', async () => {
    const names = async (set: object) =>
      (await renderChart({ set }))
        .filter(({ kind }) => kind === 'PodDisruptionBudget')
        .map(({ metadata }) => metadata.name)
        .toSorted();
    expect(await names({})).toEqual(['despatch-api', 'despatch-controller', 'despatch-worker']);
    expect(await names({ 'api.replicas': 1, 'controller.replicas': 1 })).toEqual(['despatch-worker']);
    expect(await names({ 'api.replicas': 1, 'api.autoscaling.enabled': true })).toContain('despatch-api');
    expect(await names({ 'worker.pdb.enabled': false })).not.toContain('despatch-worker');
    const objects = await renderChart();
    const budget = (component: string) => pick(objects, 'PodDisruptionBudget', `despatch-${component}`).spec;
    expect(budget('api')).toMatchObject({ maxUnavailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow' });
    // A worker that is not ready may hold outcomes that are not recorded.
    expect(budget('worker')).toMatchObject({
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'IfHealthyBudget',
    });
  });
});

test.each([
  [{}, 'registry.example.com/despatch:0.1.0'],
  [{ 'image.tag': '9.9.9' }, 'registry.example.com/despatch:9.9.9'],
  [{ 'image.registry': 'r.example.com' }, 'r.example.com/registry.example.com/despatch:0.1.0'],
  [
    { 'image.registry': 'r.example.com', 'image.repository': 'a/b', 'global.imageRegistry': 'm.example.com' },
    'm.example.com/a/b:0.1.0',
  ],
  [
    { 'image.digest': `sha256:${'a'.repeat(64)}` },
    `registry.example.com/despatch:0.1.0@sha256:${'a'.repeat(64)}`,
  ],
])('the image with %o is %s, in every pod', async (set, image) => {
  const pods = podTemplates(await renderChart({ set }));
  expect(new Set(pods.flatMap(ownContainers).map(({ image: one }: { image: string }) => one))).toEqual(
    new Set([image]),
  );
});

test('a component may use its own image tag', async () => {
  const objects = await renderChart({ set: { 'worker.image.tag': 'next' } });
  const imageOf = (name: string) => pick(objects, 'Deployment', name).spec.template.spec.containers[0].image;
  expect(imageOf('despatch-worker')).toBe('registry.example.com/despatch:next');
  expect(imageOf('despatch-api')).toBe('registry.example.com/despatch:0.1.0');
});

test.each([
  [{ tag: 'next' }, 'registry.example.com/despatch:next'],
  [{ repository: 'other.example.com/worker' }, 'other.example.com/worker:0.1.0'],
  [{ digest: '' }, 'registry.example.com/despatch:0.1.0'],
  [{ tag: 'next', digest: OWN_DIGEST }, `registry.example.com/despatch:next@${OWN_DIGEST}`],
  [{ repository: '' }, `registry.example.com/despatch:0.1.0@${SHARED_DIGEST}`],
  // The same content in another registry.
  [{ registry: 'r.example.com' }, `r.example.com/registry.example.com/despatch:0.1.0@${SHARED_DIGEST}`],
])('with a shared digest, the image of a component with %o is %s', async (image, expected) => {
  const objects = await renderChart({ set: { 'image.digest': SHARED_DIGEST, 'worker.image': image } });
  const { metadata, spec } = pick(objects, 'Deployment', 'despatch-worker');
  expect(spec.template.spec.containers[0].image).toBe(expected);
  const isUnpinned = Object.keys(metadata.annotations ?? {}).includes('checkov.io/skip3');
  expect(isUnpinned).toBe(!expected.includes('@'));
  expect(pick(objects, 'Deployment', 'despatch-api').spec.template.spec.containers[0].image).toBe(
    `registry.example.com/despatch:0.1.0@${SHARED_DIGEST}`,
  );
});

test('false replaces true in a security context', async () => {
  const set = { 'worker.securityContext.readOnlyRootFilesystem': false };
  const { spec } = pick(await renderChart({ set }), 'Deployment', 'despatch-worker').spec.template;
  expect(spec.containers[0].securityContext).toMatchObject({
    readOnlyRootFilesystem: false,
    privileged: false,
  });
});

test('names of keys that look like numbers or booleans stay text', async () => {
  const keys = { api: '123', worker: 'true', controller: 'null' };
  const objects = await renderChart({
    set: {
      'postgres.secretKeys': { ...keys, migrate: '1e3' },
      'postgres.ssl': { caSecret: 'ca', caKey: '123' },
      'migrations.rolePasswords': { existingSecret: 'passwords', secretKeys: keys },
      'nats.auth.secretKeys': keys,
      'nats.tls': { caSecret: 'ca', caKey: 'true' },
      'vault.caSecret': 'ca',
      'vault.caKey': '123',
      'vault.auth.method': 'approle',
      'vault.auth.approle': { existingSecret: 'ids', secretKeys: keys, roleIds: keys },
      'api.keyPepper.key': 'yes',
      'receipts.pepper.key': '0',
    },
  });
  const names = podTemplates(objects).flatMap(keysOf) as unknown[];
  expect(names.filter((name) => typeof name !== 'string')).toEqual([]);
  expect(names).toEqual(expect.arrayContaining(['123', 'true', 'null', '1e3', 'yes', '0']));
});

test('the audience and the class of the load balancer stay text', async () => {
  const objects = await renderChart({
    set: {
      'vault.auth.kubernetes.audience': '123',
      'api.service': { type: 'LoadBalancer', loadBalancerClass: 'true' },
    },
  });
  const { spec } = pick(objects, 'Deployment', 'despatch-api').spec.template;
  type Sources = { projected?: { sources: { serviceAccountToken?: { audience: unknown } }[] } };
  const audiences = (spec.volumes as Sources[]).flatMap(({ projected }) =>
    (projected?.sources ?? []).map(({ serviceAccountToken }) => serviceAccountToken?.audience),
  );
  expect(audiences).toContain('123');
  expect(pick(objects, 'Service', 'despatch-api').spec.loadBalancerClass).toBe('true');
});

function keysOf(pod: PodTemplate): string[] {
  type Source = { secret?: { items: { key: string }[] } };
  const { volumes } = pod.spec as { volumes: { projected?: { sources: Source[] } }[] };
  return volumes.flatMap(({ projected }) =>
    (projected?.sources ?? []).flatMap(({ secret }) => (secret?.items ?? []).map(({ key }) => key)),
  );
}

function selects(
  selector: ChartObject['metadata']['labels'],
  labels: ChartObject['metadata']['labels'],
): boolean {
  return Object.entries(selector).every(([name, value]) => labels[name] === value);
}
