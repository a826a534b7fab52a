import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CHART, ciValues, helm, refusal, renderChart, renderNotes } from '#test/support/chart.ts';

test('Helm finds nothing to say about the chart', async () => {
  expect(await helm(['lint', '--strict', CHART])).toContain('1 chart(s) linted, 0 chart(s) failed');
});

test.each(ciValues())('the values of ci/%s are good ones, for Helm and for its linter', async (values) => {
  expect((await renderChart({ values })).length).toBeGreaterThan(10);
  await helm(['lint', '--strict', CHART, '--values', join(CHART, 'ci', `${values}-values.yaml`)]);
});

test('one text names all required values that are missing', async () => {
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

test('what is not used is not required', async () => {
  const set = { image: { repository: 'x' }, migrations: { mode: 'none' } };
  const alone = { api: { enabled: false }, worker: { enabled: false }, controller: { enabled: false } };
  expect(await refusal({ values: null, set: { ...set, ...alone, postgres: { existingSecret: 'p' } } })).toBe(
    '',
  );
});

describe('required only where they are used', () => {
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

describe('values that contradict each other are refused', () => {
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
    ['a word that is none of the choices', { migrations: { mode: 'later' } }],
    ['no worker at all', { worker: { keda: { minReplicas: 0 } } }],
    ['a digest that is none', { image: { digest: 'latest' } }],
    ['a number out of bounds', { vault: { auth: { kubernetes: { expirationSeconds: 599 } } } }],
    ['a URL of another protocol', { nats: { urls: ['http://nats'] } }],
    ['a namespace that is none', { controller: { watchNamespaces: ['Team_A'] } }],
  ])('refuses %s', async (_what, set) => {
    expect(await refusal({ set: over(set) })).toMatch(/don't meet the specifications of the schema/);
  });

  test('takes what a parent chart adds', async () => {
    const set = { enabled: true, global: { imageRegistry: 'mirror.example.com', anotherChart: { x: 1 } } };
    expect(await refusal({ set })).toBe('');
  });

  test.each([
    ['installCRDs', 'use crds.enabled'],
    ['replicaCount', 'use api.replicas'],
    ['postgresql', 'no Postgres comes with this chart'],
  ])('lets %s through to a text that says what to do', async (name, text) => {
    const said = await refusal({ set: { [name]: { enabled: true } } });
    expect(said).toContain('Values that this chart does not have:');
    expect(said).toContain(`${name}: ${text}`);
  });
});

test('the notes say what to do next and what is not as it should be', async () => {
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

test('the notes say when Plans could not be made', async () => {
  const limits = {};
  const set = { plans: { create: [{ name: 'partner', limits }] } };
  expect(await renderNotes({ set })).toContain('run helm upgrade once more');
  const knowing = { set, apiVersions: ['despatch.dev/v1alpha1/Plan'] };
  expect((await renderChart(knowing)).map(({ kind }) => kind)).toContain('Plan');
});

test('the schema and the tables are those of values.yaml', async () => {
  const { generateChart } = await import('../../../deploy/chart/generate-chart.ts');
  const files = await generateChart(new URL(`file://${CHART}/`));
  expect(await readFile(join(CHART, 'values.schema.json'), 'utf8')).toBe(files.schema);
  expect(await readFile(join(CHART, 'README.md'), 'utf8')).toBe(files.readme);
});

/** Returns the leaves only, because `--set-json` replaces a map as a whole. */
function over(values: object, prefix = ''): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([key, value]): [string, unknown][] => {
      const isMap = typeof value === 'object' && value !== null && !Array.isArray(value);
      return isMap ? Object.entries(over(value as object, `${prefix}${key}.`)) : [[`${prefix}${key}`, value]];
    }),
  );
}
