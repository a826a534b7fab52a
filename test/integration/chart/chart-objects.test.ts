import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import {
  CHART,
  ciValues,
  environmentOf,
  pick,
  podTemplates,
  renderChart,
  type ChartObject,
} from '#test/support/chart.ts';

const CLUSTER_SCOPED = new Set([
  'CustomResourceDefinition',
  'ClusterRole',
  'ClusterRoleBinding',
  'Plan',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
]);
const identity = ({ kind, metadata }: ChartObject): string =>
  `${kind} ${metadata.namespace ?? '-'}/${metadata.name}`;
const isHook = ({ metadata }: ChartObject): boolean => metadata.annotations?.['helm.sh/hook'] !== undefined;

describe('names that YAML reads as numbers', () => {
  /** Returns where two renderings differ in type, with the value of the first. */
  function retyped(one: unknown, other: unknown, path = ''): string[] {
    if (typeof one !== typeof other) return [`${path}: ${JSON.stringify(one)}`];
    if (typeof one !== 'object' || one === null || typeof other !== 'object' || other === null) return [];
    return Object.entries(one).flatMap(([key, value]) =>
      // Keys that contain a name have another name in the other rendering.
      Object.hasOwn(other, key)
        ? retyped(value, (other as Record<string, unknown>)[key], `${path}/${key}`)
        : [],
    );
  }

  test.each(ciValues())('stay strings with the values of ci/%s', async (values) => {
    const [odd, usual] = await Promise.all(
      [
        { release: '1e3', namespace: '2e3', set: { fullnameOverride: '3e3', nameOverride: '4e3' } },
        { release: 'r', namespace: 'n', set: { fullnameOverride: 'f', nameOverride: 'o' } },
      ].map((options) => renderChart({ ...options, values })),
    );
    expect(odd?.length).toBe(usual?.length);
    expect(retyped(odd, usual)).toEqual([]);
  });
});

test('without leader election the controller uses the Recreate strategy', async () => {
  const strategyOf = async (set: object) =>
    pick(await renderChart({ set }), 'Deployment', 'despatch-controller').spec.strategy;
  const alone = { controller: { replicas: 1, leaderElection: { enabled: false } } };
  expect(await strategyOf(alone)).toEqual({ type: 'Recreate' });
  expect(await strategyOf({})).toMatchObject({ type: 'RollingUpdate' });
});

test.each(['api', 'worker', 'controller'])(
  'the strategy Recreate of the %s comes without the parameters of a rolling update',
  async (component) => {
    const strategyOf = async (set: object) =>
      pick(await renderChart({ set }), 'Deployment', `despatch-${component}`).spec.strategy;
    expect(await strategyOf({ [`${component}.strategy.type`]: 'Recreate' })).toEqual({ type: 'Recreate' });
    expect(await strategyOf({ [`${component}.strategy`]: null })).toEqual({});
    const rolling = { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 2, maxSurge: 1 } };
    expect(await strategyOf({ [`${component}.strategy.rollingUpdate.maxUnavailable`]: 2 })).toEqual(rolling);
  },
);

describe('the RBAC rules of the controller', () => {
  const PLANS = [
    { apiGroups: ['despatch.dev'], resources: ['plans'], verbs: ['get', 'list', 'watch', 'create', 'patch'] },
    { apiGroups: ['despatch.dev'], resources: ['plans/status'], verbs: ['patch'] },
  ];
  const EVENTS = [{ apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] }];
  const TENANTS = [
    { apiGroups: ['despatch.dev'], resources: ['tenants'], verbs: ['get', 'list', 'watch', 'patch'] },
    { apiGroups: ['despatch.dev'], resources: ['tenants/status'], verbs: ['patch'] },
    ...EVENTS,
  ];
  const LEASES = [
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['create'] },
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      resourceNames: ['despatch-controller'],
      verbs: ['get', 'update'],
    },
  ];
  const grants = (objects: readonly ChartObject[]) =>
    objects
      .filter(({ kind, metadata }) => kind.endsWith('Role') && metadata.name.endsWith('controller'))
      .map((role) => [identity(role), role['rules']]);

  test('cover all namespaces by default', async () => {
    expect(grants(await renderChart())).toEqual([
      ['ClusterRole -/despatch.despatch-controller', [...PLANS, ...TENANTS]],
      ['Role despatch/despatch-controller', LEASES],
    ]);
  });

  test('are limited to the watched namespaces', async () => {
    const objects = await renderChart({ values: 'watch-namespaces' });
    expect(grants(objects)).toEqual([
      ['ClusterRole -/despatch.despatch-controller', PLANS],
      ['Role despatch/despatch-controller', LEASES],
      // Events about Plans, which have no namespace.
      ['Role default/despatch.despatch-controller', EVENTS],
      ['Role team-a/despatch.despatch-controller', TENANTS],
      ['Role team-b/despatch.despatch-controller', TENANTS],
    ]);
  });

  test.each(ciValues())('are bound only to its service account with ci/%s', async (values) => {
    const objects = await renderChart({ values });
    const [deployment] = objects.filter(
      ({ kind, metadata }) => kind === 'Deployment' && metadata.name.endsWith('-controller'),
    );
    const bindings = objects.filter((object) => object.kind.endsWith('RoleBinding') && !isHook(object));
    expect(bindings.length).toBeGreaterThan(1);
    for (const binding of bindings) {
      expect(binding['subjects']).toEqual([
        {
          kind: 'ServiceAccount',
          name: deployment?.spec.template.spec.serviceAccountName,
          namespace: deployment?.metadata.namespace,
        },
      ]);
    }
  });

  test.each(ciValues())('contain no wildcard and no secrets with ci/%s', async (values) => {
    const rules = (await renderChart({ values })).flatMap((object) => (object['rules'] ?? []) as object[]);
    expect(JSON.stringify(rules)).not.toContain('*');
    expect(JSON.stringify(rules)).not.toContain('secrets');
  });
});

describe('two releases in one cluster', () => {
  const both = async (namespaces: readonly [string, string], releases: readonly [string, string]) => [
    ...(await renderChart({ values: 'two-releases-first', namespace: namespaces[0], release: releases[0] })),
    ...(await renderChart({ values: 'two-releases-second', namespace: namespaces[1], release: releases[1] })),
  ];

  test.each([
    [
      ['team-a', 'team-b'],
      ['despatch', 'despatch'],
    ],
    [
      ['messaging', 'messaging'],
      ['despatch', 'staging'],
    ],
    [
      ['a-b', 'a'],
      ['c', 'b-c'],
    ],
  ] as const)('in namespaces %o with names %o create no object twice', async (namespaces, releases) => {
    const names = (await both(namespaces, releases)).map(identity);
    expect(names.toSorted()).toEqual([...new Set(names)].toSorted());
  });

  test('share a Grafana: no dashboard of one has the object, file, id or title of another', async () => {
    const set = { 'monitoring.dashboards.enabled': true, 'monitoring.dashboards.namespace': 'grafana' };
    const releases = [
      { namespace: 'team-a', release: 'despatch' },
      { namespace: 'team-b', release: 'despatch' },
      { namespace: 'team-b', release: 'staging' },
      { namespace: 'n'.repeat(63), release: 'r'.repeat(53) },
    ];
    const objects = (await Promise.all(releases.map((one) => renderChart({ ...one, set })))).flat();
    const maps = objects.filter(({ metadata }) => metadata.namespace === 'grafana');
    const files = maps.flatMap((map) => Object.entries(map['data'] as Record<string, string>));
    const dashboards = files.map(([, text]) => JSON.parse(text) as { uid: string; title: string });
    for (const names of [
      maps.map(({ metadata }) => metadata.name),
      files.map(([name]) => name),
      dashboards.map(({ uid }) => uid),
      dashboards.map(({ title }) => title),
    ]) {
      expect(names).toHaveLength(5 * releases.length);
      expect(new Set(names).size).toBe(names.length);
    }
    // Grafana takes no longer id.
    for (const { uid } of dashboards) expect(uid.length).toBeLessThanOrEqual(40);
  });

  test('get different CONTROLLER_NAME values of at most 50 characters', async () => {
    const long = 'a'.repeat(53);
    for (const [namespace, release] of [
      ['b'.repeat(63), long],
      ['x', 'y'],
    ] as const) {
      const objects = [
        ...(await renderChart({ namespace, release })),
        ...(await renderChart({ namespace: `${namespace.slice(1)}c`, release })),
      ];
      const names = objects
        .filter(({ kind, metadata }) => kind === 'Deployment' && metadata.name.endsWith('-controller'))
        .flatMap(({ spec }) => spec.template.spec.containers[0].env)
        .filter(({ name }: { name: string }) => name === 'CONTROLLER_NAME')
        .map(({ value }: { value: string }) => value);
      expect(new Set(names).size).toBe(2);
      for (const name of names) expect(name).toMatch(/^[a-z0-9]([a-z0-9.-]{0,48}[a-z0-9])?$/);
    }
  });

  test('share no rights in Vault and NATS', async () => {
    const [first = {}, second = {}] = await Promise.all(
      ['two-releases-first', 'two-releases-second'].map(async (values) => {
        const objects = await renderChart({ values });
        const pods = podTemplates(objects).filter(({ owner }) => owner.startsWith('Deployment'));
        return Object.assign(
          {},
          ...pods.map(({ owner, spec }) => {
            const { VAULT_ROLE, VAULT_KEY_PREFIX, NATS_USER, NATS_PREFIX } = environmentOf(
              spec.containers[0],
            );
            return { [owner]: [VAULT_ROLE, VAULT_KEY_PREFIX, NATS_USER, NATS_PREFIX] };
          }),
        ) as Record<string, string[]>;
      }),
    );
    expect(Object.keys(first)).toHaveLength(3);
    for (const [owner, rights] of Object.entries(first)) {
      const shared = rights.filter((right, index) => {
        const other = second[owner]?.[index] ?? '';
        return right.startsWith(other) || other.startsWith(right);
      });
      expect([owner, shared]).toEqual([owner, []]);
    }
  });

  test('share the CRDs, which only the first installs', async () => {
    const kinds = async (values: string) =>
      (await renderChart({ values })).filter(({ kind }) => kind === 'CustomResourceDefinition');
    expect((await kinds('two-releases-first')).map(({ metadata }) => metadata.name)).toEqual([
      'plans.despatch.dev',
      'tenants.despatch.dev',
    ]);
    expect(await kinds('two-releases-second')).toEqual([]);
  });
});

describe.each(ciValues())('with the values of ci/%s', (values) => {
  test('names fit their limits, and labels name the release of every object', async () => {
    const objects = await renderChart({
      values,
      release: 'a'.repeat(53),
      apiVersions: ['despatch.dev/v1alpha1/Plan'],
    });
    for (const object of objects.filter(({ metadata }) => metadata.labels !== undefined)) {
      const { kind, metadata } = object;
      // Names of roles and bindings may exceed the 63 characters of a label.
      if (!/Role|Binding/.test(kind) && !CLUSTER_SCOPED.has(kind)) {
        expect(metadata.name).toMatch(/^.{1,63}$/);
      }
      expect(object).toMatchObject({
        kind,
        metadata: {
          labels: { 'app.kubernetes.io/instance': 'a'.repeat(53), 'app.kubernetes.io/part-of': 'despatch' },
        },
      });
      const isClusterScoped = metadata.namespace === undefined;
      expect([identity(object), isClusterScoped]).toEqual([identity(object), CLUSTER_SCOPED.has(kind)]);
    }
  });
});

test('every object has the configured namespace, name, labels and annotations', async () => {
  const objects = (await renderChart({ values: 'all-options' })).filter(
    ({ metadata }) => metadata.labels !== undefined,
  );
  for (const object of objects) {
    expect(object).toMatchObject({ metadata: { labels: { team: 'messaging', platform: 'one' } } });
    if (object.kind === 'CustomResourceDefinition') continue;
    expect(object).toMatchObject({ metadata: { annotations: { 'example.com/owner': 'platform' } } });
    expect(object.metadata.namespace ?? 'elsewhere').toBe('elsewhere');
    expect(object.metadata.name).toMatch(/^(elsewhere\.)?messaging|^(api|worker|controller)$/);
  }
  const api = pick(objects, 'Deployment', 'messaging-api').spec.template.spec;
  expect(api).toMatchObject({
    serviceAccountName: 'api',
    imagePullSecrets: [{ name: 'global-pull' }, { name: 'pull' }],
    priorityClassName: 'messaging',
    runtimeClassName: 'gvisor',
  });
  expect(api.containers[0].args).toEqual(['--max-old-space-size=256', 'services/api/main.ts']);
  expect(api.containers[0].env).toContainEqual({ name: 'LOG_LEVEL', value: 'warn' });
  expect(api.containers[0].env.map(({ name }: { name: string }) => name)).not.toContain('DATABASE_URL_FILE');
});

test('an annotation of the values replaces the one that the chart gives an object or a pod', async () => {
  const set = {
    commonAnnotations: { 'checkov.io/skip1': 'CKV_K8S_40=ours' },
    'api.annotations': { 'kube-score/ignore': 'pod-networkpolicy' },
    'api.podAnnotations': { 'kubectl.kubernetes.io/default-container': 'proxy' },
  };
  const { metadata, spec } = pick(await renderChart({ set }), 'Deployment', 'despatch-api');
  expect(metadata.annotations).toMatchObject({
    'checkov.io/skip1': 'CKV_K8S_40=ours',
    'checkov.io/skip2': expect.stringContaining('CKV_K8S_15') as string,
    'kube-score/ignore': 'pod-networkpolicy',
  });
  expect(spec.template.metadata.annotations).toEqual({ 'kubectl.kubernetes.io/default-container': 'proxy' });
});

describe('the migration', () => {
  const jobs = (objects: readonly ChartObject[]) =>
    objects.filter(({ kind, metadata }) => kind === 'Job' && metadata.name.includes('migrate'));

  test('as a hook runs after the hooks with its ServiceAccount and its NetworkPolicy', async () => {
    const objects = await renderChart();
    const [job] = jobs(objects);
    expect(job?.metadata.annotations).toMatchObject({ 'helm.sh/hook': 'pre-install,pre-upgrade' });
    const weight = (object: ChartObject) => Number(object.metadata.annotations?.['helm.sh/hook-weight']);
    const before = objects.filter((object) => isHook(object) && weight(object) < weight(job as ChartObject));
    expect(before.map(identity)).toContain(
      `ServiceAccount despatch/${job?.spec.template.spec.serviceAccountName}`,
    );
    expect(before.map(identity)).toContain('NetworkPolicy despatch/despatch-migrate');
  });

  test('as a Job gets a new name only when its template changes', async () => {
    const nameWith = async (set: object, release = 'despatch') =>
      jobs(await renderChart({ values: 'migrations-job', set, release }))[0]?.metadata.name;
    const name = await nameWith({});
    expect(name).toMatch(/^despatch-migrate-[0-9a-f]{8}$/);
    expect(await nameWith({ 'api.replicas': 5 })).toBe(name);
    expect(await nameWith({ 'image.tag': 'next' })).not.toBe(name);
    const [job] = jobs(await renderChart({ values: 'migrations-job' }));
    expect(isHook(job as ChartObject)).toBe(false);
    expect(Object.keys(job?.spec)).not.toContain('ttlSecondsAfterFinished');
  });

  test('can be turned off', async () => {
    const objects = await renderChart({ values: 'migrations-none' });
    expect(objects.filter(({ metadata }) => metadata.name.includes('migrate'))).toEqual([]);
  });

  test('runs after the hook that creates the Secret of a development cluster', async () => {
    const secret = pick(await renderChart({ values: 'dev' }), 'Secret', 'despatch-dev');
    expect(secret.metadata.annotations).toMatchObject({ 'helm.sh/hook-weight': '-20' });
  });
});

test('the network policies open the ports of the configured backends', async () => {
  const ports = async (component: string, set: object) => {
    const policy = pick(await renderChart({ set }), 'NetworkPolicy', `despatch-${component}`);
    type Rule = { ports?: { port: number }[] };
    return (policy.spec.egress as Rule[]).flatMap(({ ports: all = [] }) => all.map(({ port }) => port));
  };
  expect(await ports('api', {})).toEqual([53, 53, 5432, 4222, 8200, 443]);
  const set = {
    'nats.urls': ['tls://a.example.com', 'tls://b.example.com:4333'],
    'vault.address': 'https://vault.example.com',
    'api.oidc.jwksUrl': 'http://keys.example.com/jwks',
    'tracing.otlpEndpoint': 'http://otel:4318',
    'networkPolicy.otlp.to': [{ podSelector: { matchLabels: { app: 'otel' } } }],
    'networkPolicy.postgres.ports': [6432],
  };
  expect(await ports('api', set)).toEqual([53, 53, 6432, 4222, 4333, 443, 4318, 443, 80]);
  expect(await ports('migrate', set)).toEqual([53, 53, 6432]);
  expect(await ports('controller', {})).toEqual([53, 53, 5432, 4222, 8200, 443, 6443]);
  // Policies apply to the ports of pods, which may differ from those of their Services.
  const pods = {
    'networkPolicy.dnsPorts': [5353],
    'networkPolicy.nats.ports': [14_222],
    'networkPolicy.vault.ports': [8201],
    'networkPolicy.oidc.ports': [8443],
    'networkPolicy.otlp.ports': [14_318],
  };
  expect(await ports('api', { ...set, ...pods })).toEqual([5353, 5353, 6432, 14_222, 8201, 14_318, 8443]);
  expect(await ports('migrate', pods)).toEqual([5353, 5353, 5432]);
});

test('the worker may reach the internet and configured ranges, but no other private address', async () => {
  const { spec } = pick(await renderChart({ values: 'all-options' }), 'NetworkPolicy', 'messaging-worker');
  type Rule = { ports?: { port: number }[]; to?: { ipBlock?: { cidr: string; except?: string[] } }[] };
  const rules = spec.egress as Rule[];
  const internet = rules.find(({ to }) => to?.some(({ ipBlock }) => ipBlock?.cidr === '0.0.0.0/0'));
  expect(internet?.ports?.map(({ port }) => port)).toEqual([443, 25, 465, 587, 2525, 80, 8443]);
  expect(internet?.to?.[0]?.ipBlock?.except).toEqual(
    expect.arrayContaining(['10.0.0.0/8', '169.254.0.0/16']),
  );
  expect(internet?.to?.[1]?.ipBlock?.except).toContain('fc00::/7');
  expect(rules).toContainEqual({
    to: [{ ipBlock: { cidr: '10.20.0.0/16' } }, { ipBlock: { cidr: 'fd00:20::/64' } }],
  });
  const dns = rules
    .flatMap(({ ports = [] }) => ports.map(({ port }) => port))
    .filter((port) => port > 5_000 && port < 5_400);
  expect(new Set(dns)).toEqual(new Set([5353, 5300]));
});

describe('monitoring objects', () => {
  test('a ServiceMonitor selects exactly the metrics Services of the three components', async () => {
    const objects = await renderChart({ values: 'production' });
    const { selector, endpoints } = pick(objects, 'ServiceMonitor', 'despatch').spec;
    const services = objects.filter(
      ({ kind, metadata }) =>
        kind === 'Service' &&
        Object.entries(selector.matchLabels).every(([label, value]) => metadata.labels[label] === value),
    );
    expect(services.map(({ metadata }) => metadata.name).toSorted()).toEqual([
      'despatch-api-metrics',
      'despatch-controller-metrics',
      'despatch-worker-metrics',
    ]);
    expect(endpoints).toEqual([{ port: 'metrics', path: '/metrics' }]);
  });

  test('alerts can be disabled, labelled and linked to runbooks', async () => {
    const alerts = async (
      set: object,
    ): Promise<{ alert?: string; labels: object; annotations: { runbook_url?: string } }[]> =>
      pick(
        await renderChart({ set: { 'monitoring.prometheusRule.enabled': true, ...set } }),
        'PrometheusRule',
        'despatch',
      )
        .spec.groups.flatMap(({ rules }: { rules: { alert?: string }[] }) => rules)
        .filter(({ alert }: { alert?: string }) => alert !== undefined);
    const all = await alerts({});
    expect(all.length).toBeGreaterThan(5);
    expect(all.filter(({ annotations }) => 'runbook_url' in annotations)).toEqual([]);
    const [left] = all;
    const some = await alerts({
      'monitoring.prometheusRule.disabledAlerts': [left?.alert],
      'monitoring.prometheusRule.additionalRuleLabels': { team: 'messaging' },
      'monitoring.prometheusRule.runbookBaseUrl': 'https://runbooks.example.com/',
    });
    expect(some.map(({ alert }) => alert)).not.toContain(left?.alert);
    for (const { labels, annotations } of some) {
      expect(labels).toMatchObject({ team: 'messaging' });
      expect(annotations.runbook_url).toMatch(/^https:\/\/runbooks\.example\.com\/\w+\.md$/);
    }
  });

  test('every rule group has the name of a file, and rules are limited to the namespace of the release', async () => {
    const set = { 'monitoring.prometheusRule.enabled': true };
    const { groups } = pick(await renderChart({ set, namespace: 'prod' }), 'PrometheusRule', 'despatch').spec;
    type Group = { name: string; rules: { expr: string }[] };
    for (const { name, rules } of groups as Group[]) {
      const file = /^despatch-(\w+)/.exec(name)?.[1];
      expect(file).toBeDefined();
      expect(rules.length).toBeGreaterThan(0);
    }
    const text = await readFile(join(CHART, 'rules/controller.yaml'), 'utf8');
    const [first] = (parse(text) as { groups: Group[] }).groups;
    const rendered = (groups as Group[]).find(({ name }) => name === first?.name);
    const own = 'and on (namespace) label_replace(vector(1), "namespace", "prod", "", "")';
    expect(rendered?.rules.map(({ expr }) => expr)).toEqual(
      first?.rules.map(({ expr }) => `(${expr}) ${own}`),
    );
    // A constant belongs to no namespace.
    const all = (groups as Group[]).flatMap(({ rules }) => rules.map(({ expr }) => expr));
    expect(all.filter((expr) => !expr.endsWith(own))).toEqual(
      Array(5).fill(expect.stringMatching(/^vector\([\d.]+\)$/)),
    );
  });

  test('a dashboard is deployed with the name of its release, and shows the namespace of the release first', async () => {
    type Dashboard = { templating: { list: { name: string }[] } };
    const set = { 'monitoring.dashboards.enabled': true };
    const config = pick(
      await renderChart({ set, namespace: 'prod' }),
      'ConfigMap',
      'despatch-dashboard-overview',
    );
    expect(config.metadata.labels).toMatchObject({ grafana_dashboard: '1' });
    const text = (config['data'] as Record<string, string>)['prod.despatch-overview.json'] ?? '';
    const file = JSON.parse(await readFile(join(CHART, 'dashboards/overview.json'), 'utf8')) as Dashboard;
    const list = file.templating.list.map((variable) =>
      variable.name === 'namespace' ? { ...variable, current: { text: 'prod', value: 'prod' } } : variable,
    );
    expect(JSON.parse(text)).toEqual({
      ...file,
      uid: expect.stringMatching(/^despatch-overview-[0-9a-f]{8}$/),
      title: 'Despatch / Overview (prod.despatch)',
      templating: { list },
    });
  });
});

describe('Ingress and HTTPRoute', () => {
  test('use the host of the public base URL by default', async () => {
    const set = {
      'api.ingress.enabled': true,
      'api.httpRoute.enabled': true,
      'api.httpRoute.parentRefs': [{ name: 'g' }],
    };
    const objects = await renderChart({ set });
    expect(pick(objects, 'Ingress', 'despatch-api').spec.rules[0]).toEqual({
      host: 'messaging.example.com',
      http: {
        paths: [
          {
            path: '/',
            pathType: 'Prefix',
            backend: { service: { name: 'despatch-api', port: { number: 80 } } },
          },
        ],
      },
    });
    expect(pick(objects, 'HTTPRoute', 'despatch-api').spec).toMatchObject({
      hostnames: ['messaging.example.com'],
      rules: [{ backendRefs: [{ name: 'despatch-api', port: 80 }] }],
    });
  });

  test('never lead to the port of health and metrics', async () => {
    for (const values of ['ingress', 'gateway', 'production']) {
      const objects = await renderChart({ values });
      const entries = objects.filter(({ kind }) => kind === 'Ingress' || kind === 'HTTPRoute');
      expect(entries.length).toBe(1);
      expect(JSON.stringify(entries)).not.toMatch(/metrics|9090/);
      expect(
        pick(objects, 'Service', 'despatch-api').spec.ports.map(({ name }: { name: string }) => name),
      ).toEqual(['http']);
    }
  });
});
