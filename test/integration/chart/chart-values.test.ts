import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { LIMIT_BOUNDS } from '#core/domain/tenant/limit-bounds.ts';
import { BUILT_IN_PLANS, isRateLimit, LIMIT_NAMES } from '#core/domain/tenant/plan.ts';
import {
  CHART,
  ciValues,
  helm,
  installArgs,
  refusal,
  renderChart,
  renderNotes,
} from '#test/support/chart.ts';
import { writtenLimits } from '../../../services/controller/resources/limit-fields.ts';

test('the chart passes helm lint --strict', async () => {
  expect(await helm(['lint', '--strict', CHART])).toContain('1 chart(s) linted, 0 chart(s) failed');
});

test.each(ciValues())('the values of ci/%s render and pass helm lint --strict', async (values) => {
  expect((await renderChart({ values })).length).toBeGreaterThan(10);
  await helm(['lint', '--strict', CHART, '--values', join(CHART, 'ci', `${values}-values.yaml`)]);
});

test.each(['minimal', 'all-options', 'production'])(
  'each map that is passed on to an object may be removed from the values of ci/%s',
  async (values) => {
    const schema = JSON.parse(await readFile(join(CHART, 'values.schema.json'), 'utf8')) as ValueSchema;
    const removed = Object.fromEntries(passedOn(schema).map((path) => [path, null]));
    expect(Object.keys(removed).length).toBeGreaterThan(50);
    const objects = await renderChart({ values, set: removed });
    const api = objects.find(
      ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'despatch-api',
    );
    expect(api?.spec.template.spec.containers[0].livenessProbe).toBeUndefined();
  },
);

test('one error names all missing required values', async () => {
  const said = await refusal({ values: null });
  const required = [
    'image.repository',
    'postgres.existingSecret',
    'nats.urls',
    'nats.auth.existingSecret',
    'vault.address',
    'api.oidc.issuer',
    'api.publicBaseUrl',
    'api.oidc.audience',
    'api.keyPepper.existingSecret',
    'receipts.pepper.existingSecret',
    'networkPolicy.postgres.to',
    'networkPolicy.nats.to',
    'networkPolicy.vault.to',
  ];
  expect(said).toContain('Required values are missing:');
  expect(required.filter((name) => !said.includes(`${name}: `))).toEqual([]);
  expect(said.match(/^ {2}\S+: /gm)).toHaveLength(required.length);
});

test('the values of disabled components are not required', async () => {
  const set = { image: { repository: 'x' }, migrations: { mode: 'none' } };
  const alone = { api: { enabled: false }, worker: { enabled: false }, controller: { enabled: false } };
  expect(await refusal({ values: null, set: { ...set, ...alone, postgres: { existingSecret: 'p' } } })).toBe(
    '',
  );
});

describe('a value is required if the feature that uses it is on', () => {
  test.each([
    [
      'nats.auth.existingSecret',
      { nats: { urls: ['nats://n'], auth: { method: 'creds', existingSecret: '' } } },
    ],
    ['nats.tls.clientSecrets.worker', { nats: { urls: ['nats://n'], auth: { method: 'tls' } } }],
    ['vault.auth.approle.existingSecret', { vault: { address: 'http://v', auth: { method: 'approle' } } }],
    [
      'vault.auth.approle.roleIds.controller',
      { vault: { address: 'http://v', auth: { method: 'approle' } } },
    ],
    ['vault.auth.token.existingSecret', { vault: { address: 'http://v', auth: { method: 'token' } } }],
    ['worker.keda.prometheus.serverAddress', { worker: { keda: { enabled: true } } }],
    [
      'worker.keda.natsJetstream.monitoringEndpoint',
      { worker: { keda: { enabled: true, trigger: 'nats-jetstream' } } },
    ],
    ['tests.canary.existingSecret', { tests: { canary: { enabled: true } } }],
    ['api.httpRoute.parentRefs', { api: { httpRoute: { enabled: true } } }],
  ])('%s', async (name, set) => {
    expect(await refusal({ set: over(set) })).toContain(`${name}: `);
  });
});

describe('contradictory values are rejected', () => {
  test.each([
    [
      'api.terminationGracePeriodSeconds: must be at least 35',
      { api: { terminationGracePeriodSeconds: 34 } },
    ],
    ['api.terminationGracePeriodSeconds: must be at least 66', { api: { shutdownDelayMs: 35_001 } }],
    ['worker.terminationGracePeriodSeconds: must be at least 72', { worker: { shutdownGraceMs: 60_000 } }],
    ['controller.terminationGracePeriodSeconds', { controller: { lifecycle: { preStopSleepSeconds: 11 } } }],
    ['worker.shutdownGraceMs', { worker: { shutdownGraceMs: 14_999 } }],
    ['worker.leaseMs', { worker: { leaseMs: 29_999 } }],
    ['api.http.headersTimeoutMs', { api: { http: { headersTimeoutMs: 10_001 } } }],
    ['controller.leaderElection.enabled', { controller: { leaderElection: { enabled: false } } }],
    [
      'controller.leaderElection.enabled',
      { controller: { replicas: null, leaderElection: { enabled: false } } },
    ],
    ['controller.leaderElection: ', { controller: { leaderElection: { renewDeadlineSeconds: 15 } } }],
    ['controller.leaderElection: ', { controller: { leaderElection: { retryPeriodSeconds: 9 } } }],
    [
      'worker.autoscaling.enabled and worker.keda.enabled',
      { worker: { autoscaling: { enabled: true }, keda: { enabled: true } } },
    ],
    [
      'monitoring.serviceMonitor.enabled and monitoring.podMonitor.enabled',
      { monitoring: { serviceMonitor: { enabled: true }, podMonitor: { enabled: true } } },
    ],
    ['api.autoscaling.minReplicas', { api: { autoscaling: { enabled: true, minReplicas: 11 } } }],
    ['api.service.nodePort', { api: { service: { nodePort: 30_080 } } }],
    ['api.service.externalTrafficPolicy', { api: { service: { externalTrafficPolicy: 'Local' } } }],
    [
      'api.service.loadBalancerSourceRanges',
      { api: { service: { type: 'NodePort', loadBalancerSourceRanges: ['192.0.2.0/24'] } } },
    ],
    ['api.service.loadBalancerClass', { api: { service: { loadBalancerClass: 'internal' } } }],
    ['worker.keda.minReplicas', { worker: { keda: { enabled: true, minReplicas: 21 } } }],
  ])('%s', async (text, set) => {
    const said = await refusal({ set: over(set) });
    expect(said).toContain('Values that do not go together:');
    expect(said).toContain(text);
  });
});

describe('the schema', () => {
  test.each([
    ['a misspelt value', { api: { replica: 3 } }],
    ['a misspelt value deep inside', { monitoring: { serviceMonitor: { enable: true } } }],
    ['an unknown value at the root', { apis: { replicas: 1 } }],
    ['text for a number', { api: { replicas: 'three' } }],
    ['a number for text', { image: { tag: 1 } }],
    ['a value outside an enumeration', { migrations: { mode: 'later' } }],
    ['a KEDA minimum of 0 workers', { worker: { keda: { minReplicas: 0 } } }],
    ['an invalid digest', { image: { digest: 'latest' } }],
    ['a number out of bounds', { vault: { auth: { kubernetes: { expirationSeconds: 599 } } } }],
    ['a URL of another protocol', { nats: { urls: ['http://nats'] } }],
    ['a number that is null', { postgres: { pool: { max: null } } }],
    ['a time that is null', { migrations: { activeDeadlineSeconds: null } }],
    ['a count that is null', { worker: { revisionHistoryLimit: null } }],
    ['a list that is null', { networkPolicy: { dnsPorts: null } }],
    ['a map of values that is null', { postgres: { pool: null } }],
    ['no port of the API server, which would open all', { networkPolicy: { kubernetes: { ports: [] } } }],
    ['no port of Postgres, which would open all', { networkPolicy: { postgres: { ports: [] } } }],
    ['a label that is a number', { commonLabels: { team: 7 } }],
    ['an annotation that is no text', { api: { podAnnotations: { 'sidecar.istio.io/inject': false } } }],
    ['a node label that is no text', { worker: { nodeSelector: { ssd: true } } }],
    ['actions that exclude each other', { tenantPolicy: { actions: ['Deny', 'Audit', 'Warn'] } }],
    [
      'a relative path',
      { api: { ingress: { hosts: [{ host: 'api.example.com', paths: [{ path: 'v1' }] }] } } },
    ],
    ['a display name that no Plan may have', partner({}, { displayName: 'x' })],
    ['a plan whose annotation is no text', partner({}, { annotations: { keep: true } })],
    ['an invalid namespace', { controller: { watchNamespaces: ['Team_A'] } }],
    ['a platform admin whose subject would be read as two', { api: { platformAdmins: ['CN=Ann,OU=IT'] } }],
  ])('rejects %s', async (_what, set) => {
    expect(await refusal({ set: over(set) })).toMatch(/don't meet the specifications of the schema/);
  });

  test.each([[['Deny', 'Audit']], [['Warn', 'Audit']], [['Warn']]])(
    'accepts the actions %s',
    async (actions) => {
      expect(await refusal({ set: { 'tenantPolicy.actions': actions } })).toBe('');
    },
  );

  test('accepts values that a parent chart adds', async () => {
    const set = { enabled: true, global: { imageRegistry: 'mirror.example.com', anotherChart: { x: 1 } } };
    expect(await refusal({ set })).toBe('');
  });
});

test('the notes list the next steps and the settings that are missing or insecure', async () => {
  const notes = await renderNotes();
  for (const text of [
    'helm test despatch -n despatch',
    'kind: Tenant',
    'postgres.ssl.caSecret is not set',
    'NATS is reached without TLS',
    'image.digest is not set',
    'Nothing is scraped',
  ]) {
    expect(notes).toContain(text);
  }
  const calm = await renderNotes({ values: 'production' });
  expect(calm).not.toMatch(/TLS|digest|scraped|one pod/);
});

test('the notes ask for another upgrade if Plans could not be created', async () => {
  const set = partner();
  expect(await renderNotes({ set })).toContain('run helm upgrade once more');
  const knowing = { set, apiVersions: ['despatch.dev/v1alpha1/Plan'] };
  expect((await renderChart(knowing)).map(({ kind }) => kind)).toContain('Plan');
});

describe('the limits of a plan to create', () => {
  test.each<[what: string, limits: object]>([
    ['text with a unit', { messagesPerDay: '50k' }],
    ['text with digits only', { messagesPerDay: '010' }],
    ['a fraction', { queueWeight: 1.5 }],
    ['nothing', { queueWeight: null }],
    ['a rate that is a number', { hardBounceRateMax: 0.1 }],
    ['a rate that no plan may have', { hardBounceRateMax: '10%' }],
    ['an unknown name', { messagesPerHour: 1 }],
  ])('are rejected with %s', async (_what, limits) => {
    const said = await refusal({ set: partner(limits) });
    expect(said).toMatch(/don't meet the specifications of the schema/);
    expect(said).toContain('/plans/create/0/limits');
  });

  test.each([
    ['below its minimum', 'minimum', -1],
    ['above its maximum', 'maximum', 1],
  ] as const)('are rejected with a number %s', async (_where, said, by) => {
    const names = LIMIT_NAMES.filter((name) => !isRateLimit(name));
    const beyond = names.map((name) => [name, LIMIT_BOUNDS[name][by < 0 ? 'min' : 'max'] + by]);
    const text = await refusal({ set: partner(Object.fromEntries(beyond)) });
    for (const name of names) expect(text).toMatch(new RegExp(`/limits/${name}': ${said}`));
  });

  test('must be complete, as those of a Plan', async () => {
    const { retentionDays: _absent, ...limits } = writtenLimits(BUILT_IN_PLANS.free);
    const said = await refusal({ set: { plans: { create: [{ name: 'partner', limits }] } } });
    expect(said).toContain('retentionDays');
  });

  // Helm reads every number as a fraction, and prints large ones with an exponent.
  test('are rendered in digits', async () => {
    const largest = Object.fromEntries(LIMIT_NAMES.map((name) => [name, LIMIT_BOUNDS[name].max]));
    const limits = { ...largest, hardBounceRateMax: '1', complaintRateMax: '0.0030' };
    const options = { set: partner(limits), apiVersions: ['despatch.dev/v1alpha1/Plan'] };
    const output = await helm(['template', ...installArgs(options), '--show-only', 'templates/plans.yaml']);
    expect(parse(output)).toMatchObject({ spec: { displayName: 'partner', limits } });
    expect(output).toContain('messagesPerDay: 1000000000');
  });
});

test('a plan with a name of one character has a display name that a Plan may have', async () => {
  const options = { set: partner({}, { name: 'x' }), apiVersions: ['despatch.dev/v1alpha1/Plan'] };
  const plan = (await renderChart(options)).find(({ kind }) => kind === 'Plan');
  expect(plan).toMatchObject({ metadata: { name: 'x' }, spec: { displayName: 'Plan x' } });
});

test('an ingress path stays text, whatever characters it has', async () => {
  const path = '/a: b #c';
  const set = {
    'api.ingress.enabled': true,
    'api.ingress.hosts': [{ host: 'api.example.com', paths: [{ path }] }],
  };
  const ingress = (await renderChart({ set })).find(({ kind }) => kind === 'Ingress');
  expect(ingress?.spec.rules[0].http.paths[0].path).toBe(path);
});

test('values.schema.json and the README tables match values.yaml', async () => {
  const { generateChart } = await import('../../../deploy/chart/generate-chart.ts');
  const files = await generateChart(new URL(`file://${CHART}/`));
  expect(await readFile(join(CHART, 'values.schema.json'), 'utf8')).toBe(files.schema);
  expect(await readFile(join(CHART, 'README.md'), 'utf8')).toBe(files.readme);
});

type ValueSchema = {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, ValueSchema>>;
};

/** Returns the paths of the values whose keys the chart does not know. */
function passedOn({ properties = {} }: ValueSchema, prefix = ''): string[] {
  return Object.entries(properties).flatMap(([key, value]) => {
    const path = `${prefix}${key}`;
    if (value.properties !== undefined) return passedOn(value, `${path}.`);
    return value.type === 'object' ? [path] : [];
  });
}

/** Returns the values for one plan, with some limits other than those of the free plan, and further fields. */
function partner(limits: object = {}, fields: object = {}): object {
  const all = { ...writtenLimits(BUILT_IN_PLANS.free), ...limits };
  return { plans: { create: [{ name: 'partner', limits: all, ...fields }] } };
}

/** Returns the leaves only, because `--set-json` replaces a map as a whole. */
function over(values: object, prefix = ''): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([key, value]): [string, unknown][] => {
      const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
      return isMap ? Object.entries(over(value as object, `${prefix}${key}.`)) : [[`${prefix}${key}`, value]];
    }),
  );
}
