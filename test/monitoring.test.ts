import { describe, expect, test } from 'vitest';
import document from '../services/api/openapi.json' with { type: 'json' };
import { createApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import { collectProcessMetrics } from '#core/platform/telemetry/process-metrics.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import { createControllerMetrics } from '../services/controller/metrics/controller-metrics.ts';
import { timedStore } from '#core/platform/postgres/timed-store.ts';
import { gaugeStore } from '#core/store/upkeep/gauges.ts';
import { workerStore } from '#core/store/worker-store.ts';
import { managedTenantStore } from '#core/store/tenants/managed-tenants.ts';
import { webhookStore } from '#core/store/webhooks/webhook-store.ts';
import { directoryStore } from '#core/store/tenants/directory.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { CONTROLLERS } from '../services/controller/build-controller.ts';
import { CONDITION_TYPES } from '../services/controller/resources/own-conditions.ts';
import { catalogOf, queryFaults, type MetricCatalog } from './analysis/metric-catalog.ts';
import {
  alertsOf,
  readAlertCases,
  readDashboards,
  readLiterals,
  readRules,
  readRunbooks,
  readTasks,
  runbookQueries,
  variableQuery,
  type Panel,
} from './analysis/monitoring-files.ts';
import { queryFacts, withoutMacros } from './analysis/promql.ts';

const rules = readRules();
const alerts = alertsOf(rules);
const dashboards = readDashboards();
const runbooks = readRunbooks();
const logLines = [...readLiterals()];
const exposed = await exposedMetrics();
const catalog = withOthers(exposed);

/** Routes of the OpenAPI document, without the names of parameters. */
const routes = new Set(
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${withoutNames(path)}`),
  ),
);

function withoutNames(path: string): string {
  return path.replaceAll(/\{\w+\}|:\w+|\bID\b/g, '*');
}

/** Returns patterns of whole log messages that a runbook searches for, such as `grep '"Claim failed"'`. */
function searchedLines(runbook: string): RegExp[] {
  return [...runbook.matchAll(/grep (?:-E )?'"([A-Z][^"']*)"'/g)].map(([, line]) => new RegExp(`^${line}$`));
}

/** Returns the metrics that the three services expose before anything has happened. */
async function exposedMetrics(): Promise<MetricCatalog> {
  const api = createApiMetrics({ tenantsMax: 1 });
  api.routeKnown({ method: 'POST', route: '/v1/messages', codes: [202, 500, 503] });
  api.routeKnown({ method: 'POST', route: '/v1/receipts/:providerId/:token', codes: [204, 404, 503] });
  const done = () => Promise.resolve();
  timedStore({ accept: done, storeReceiptCalls: done }, api.database);
  const worker = createWorkerMetrics({ providers: [...PROVIDERS.values()], tenantsMax: 1 });
  const controller = createControllerMetrics({
    controllers: CONTROLLERS,
    conditions: CONDITION_TYPES,
    leaseName: 'despatch-controller',
  });
  // The stores only provide the names of their operations.
  timedStore(directoryStore(undefined as never), api.database);
  timedStore(workerStore(undefined as never, 0, undefined as never), worker.database);
  timedStore(gaugeStore(undefined as never, undefined as never), worker.database);
  timedStore(webhookStore(undefined as never, undefined as never, undefined as never), worker.database);
  timedStore(managedTenantStore(undefined as never, '', undefined as never), controller.database);
  collectProcessMetrics(api, { component: 'api', version: '1' });
  collectProcessMetrics(worker, { component: 'worker', version: '1' });
  collectProcessMetrics(controller, { component: 'controller', version: '1' });
  return catalogOf([api.registry, worker.registry, controller.registry]);
}

/** Adds the metrics of recording rules, of Prometheus itself, and of kube-state-metrics. */
function withOthers(own: MetricCatalog): MetricCatalog {
  const free = (...labels: readonly string[]) => new Map(labels.map((label) => [label, new Set<string>()]));
  const slos = new Set(rules.flatMap(({ labels }) => labels?.['slo'] ?? []));
  return new Map([
    ...own,
    ...rules.flatMap(({ record }) =>
      record === undefined ? [] : ([[record, new Map([['slo', slos]])]] as const),
    ),
    ['ALERTS', free('alertname', 'alertstate', 'severity')],
    ['kube_horizontalpodautoscaler_spec_max_replicas', free('horizontalpodautoscaler')],
    ['kube_horizontalpodautoscaler_spec_min_replicas', free('horizontalpodautoscaler')],
    ['kube_horizontalpodautoscaler_status_desired_replicas', free('horizontalpodautoscaler')],
    ['kube_horizontalpodautoscaler_status_condition', free('horizontalpodautoscaler', 'condition', 'status')],
    ['kube_job_failed', free('job_name', 'condition')],
    ['kube_pod_container_status_restarts_total', free('pod', 'container')],
  ]);
}

const faultsIn = (queries: readonly string[]): string[] =>
  queries.flatMap((query) => queryFaults(query, catalog));

const panelsOf = (panels: readonly Panel[]): Panel[] =>
  panels.filter(({ type }) => type !== 'row' && type !== 'text');

const queriesOf = (dashboard: (typeof dashboards)[number]): string[] => [
  ...panelsOf(dashboard.panels).flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ...dashboard.templating.list.flatMap((variable) => variableQuery(variable)?.selector ?? []),
];

describe('every metric, label and label value in a query is exposed by the code:', () => {
  test.each(rules.map(({ record, alert = record, expr }) => [alert, expr]))('%s', (_name, expr) => {
    expect(faultsIn([expr ?? ''])).toEqual([]);
  });

  test.each(dashboards.map((dashboard) => [dashboard.title, dashboard] as const))(
    'dashboard %s',
    (_title, dashboard) => {
      expect(faultsIn(queriesOf(dashboard))).toEqual([]);
    },
  );

  test.each([...runbooks])('runbook %s', (_alert, text) => {
    expect(runbookQueries(text)).not.toEqual([]);
    expect(faultsIn(runbookQueries(text))).toEqual([]);
  });

  test.each([
    ['an unknown metric', 'sum(rate(despatch_messages_lost_total[5m]))', /nothing exposes/],
    ['a histogram without its suffix', 'rate(despatch_time_to_first_attempt_seconds[5m])', /nothing exposes/],
    ['an unknown metric after a known one', 'up and despatch_nats_conected == 0', /despatch_nats_conected/],
    ['an unknown label', 'despatch_circuit_state{account="a"}', /no label account/],
    [
      'an unknown label in a grouping',
      'sum by (tenant) (despatch_circuit_state)',
      /no series here has a label tenant/,
    ],
    ['an unknown label value', 'despatch_dead_letters_total{reason="lost"}', /never seen with reason/],
    [
      'one unknown label value of several',
      'despatch_dead_letters_total{reason!~"no_answer|invalid_recipent"}',
      /invalid_recipent/,
    ],
    [
      'a bucket bound that the histogram lacks',
      'despatch_time_to_first_attempt_seconds_bucket{le="20"}',
      /never seen/,
    ],
    ['a metric selected by __name__', '{__name__="despatch_nats_connected"}', /without a name/],
  ])('rejects %s', (_what, query, fault) => {
    expect(faultsIn([query])).toContainEqual(expect.stringMatching(fault));
  });

  test('rejects a query that is not PromQL', () => {
    expect(() => faultsIn(['sum(rate(despatch_nats_connected[5m])'])).toThrow('not PromQL');
  });

  test('and a rule or a dashboard queries every exposed despatch_ metric', () => {
    const queries = [...rules.map(({ expr }) => expr), ...dashboards.flatMap(queriesOf)];
    const seen = new Set(
      queries.flatMap((query) =>
        queryFacts(withoutMacros(query)).selectors.map(({ metric }) =>
          metric.replace(/_(?:bucket|sum|count)$/, ''),
        ),
      ),
    );
    const own = [...exposed.keys()]
      .filter((name) => name.startsWith('despatch_'))
      .map((name) => name.replace(/_(?:bucket|sum|count)$/, ''));
    expect([...new Set(own)].filter((name) => !seen.has(name))).toEqual([]);
  });
});

describe('every alert', () => {
  const names = [...new Set(alerts.map(({ alert }) => alert))];
  const cases = readAlertCases();

  test.each(alerts.map((alert) => [alert.alert, alert] as const))(
    '%s has a severity, a summary, a description and the URL of its runbook',
    (name, { labels, annotations }) => {
      expect(name).toMatch(/^Despatch[A-Z][A-Za-z]+$/);
      expect(['critical', 'warning', 'info']).toContain(labels?.['severity']);
      expect(annotations).toEqual({
        summary: expect.stringMatching(/^[A-Z].+\.$/),
        description: expect.stringContaining('{{ $labels.namespace }}'),
        runbook_url: `RUNBOOK_BASE_URL/${name}.md`,
      });
    },
  );

  test('has a runbook, and every runbook has an alert', () => {
    expect([...runbooks.keys()]).toEqual(names.toSorted());
  });

  test.each([...runbooks])(
    '%s: the runbook has all sections, existing log lines and explained variables',
    (alert, text) => {
      expect(text.startsWith(`# ${alert}\n`)).toBe(true);
      for (const part of [
        '**Meaning.**',
        '**Impact.**',
        '## Diagnose\n',
        '## Mitigate\n',
        '## Escalate\n',
        '```',
      ]) {
        expect(text).toContain(part);
      }
      // With a selector, kubectl shows only the last ten lines of each pod by default.
      expect(text.split('\n').filter((line) => / logs -l /.test(line) && !line.includes('--tail='))).toEqual(
        [],
      );
      expect(searchedLines(text).filter((line) => !logLines.some((known) => line.test(known)))).toEqual([]);
      // The runbook must state what to insert for each variable of a copied command.
      const used = new Set([...text.matchAll(/\$([A-Z]+)\b/g)].map(([, name]) => name));
      expect([...used].filter((name) => !new RegExp(`^ *${name}=…`, 'm').test(text))).toEqual([]);
      const linked = [...text.matchAll(/\]\(([A-Za-z]+)\.md\)/g)].map(([, name]) => name);
      expect(linked.filter((name) => !runbooks.has(name ?? ''))).toEqual([]);
    },
  );

  // A command that names another component shows nothing of the cause, or the lines of a healthy process.
  test.each(
    alerts
      .filter(({ annotations }) => annotations?.['description']?.includes('{{ $labels.job }}'))
      .map(({ alert }) => alert),
  )('%s: the runbook reads the log of the component that the alert names', (alert) => {
    const read = [...(runbooks.get(alert) ?? '').matchAll(/ logs -l app\.kubernetes\.io\/component=(\S+)/g)];
    expect(read.map(([, component]) => component).filter((component) => component !== '$JOB')).toEqual([]);
  });

  test.each([...runbooks])('%s: the runbook calls existing routes', (_alert, text) => {
    const named = [...text.matchAll(/\b(GET|POST|PUT|PATCH|DELETE) (\/v1\/[^\s`,)?]*)/g)].map(
      ([, method = '', path = '']) => `${method} ${withoutNames(path)}`,
    );
    expect(named.filter((route) => !routes.has(route))).toEqual([]);
  });

  test('on overdue tasks has a runbook that lists every task', () => {
    const text = runbooks.get('DespatchTasksOverdue') ?? '';
    const [, ...rows] = text.matchAll(/^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \| .+ \|$/gm);
    const told = rows.flatMap(([, names = '']) => [...names.matchAll(/[a-z_]+/g)].flat());
    expect(told.toSorted()).toEqual([...readTasks()].toSorted());
  });

  test('on failing database operations has a runbook that lists only existing ones', () => {
    const text = runbooks.get('DespatchDatabaseOperationFailing') ?? '';
    const table = /^\| `op` \|[\s\S]*?\n\n/m.exec(text)?.[0] ?? '';
    const [, ...rows] = table.matchAll(/^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \| .+ \|$/gm);
    const told = rows.flatMap(([, names = '']) => [...names.matchAll(/[a-z_]+/g)].flat());
    const known = exposed.get('despatch_db_errors_total')?.get('op') ?? new Set();
    expect(told.length).toBeGreaterThan(5);
    expect(told.filter((op) => !known.has(op))).toEqual([]);
  });

  test('on an error budget uses the same burn rates and windows for every objective', () => {
    const objectives = new Map(
      rules.flatMap(({ record, labels, expr }) =>
        record === 'despatch_slo:objective'
          ? [[labels?.['slo'] ?? '', Number(/[\d.]+/.exec(expr)?.[0])]]
          : [],
      ),
    );
    expect([...objectives.keys()]).toEqual([
      'api-availability',
      'accept-latency',
      'first-attempt',
      'delivery',
      'convergence',
    ]);
    for (const [slo, objective] of objectives) {
      const budget = (1 - objective).toFixed(3).replace(/0+$/, '');
      const ratio = (window: string, factor: string): string =>
        `despatch_slo:error_ratio:rate${window}{slo="${slo}"} > ${factor} * ${budget}`;
      const burns = ([factor, long, short, pending, severity]: readonly string[]) => ({
        expr: `${ratio(long ?? '', factor ?? '')} and ${ratio(short ?? '', factor ?? '')} and despatch_slo:events:increase${long}{slo="${slo}"} >= 100`,
        for: pending,
        labels: { severity, long_window: long, short_window: short },
      });
      expect(
        alerts
          .filter(({ expr }) => expr.includes(`slo="${slo}"`))
          .map(({ expr, for: pending, labels }) => ({ expr, for: pending, labels })),
      ).toEqual(
        [
          ['14.4', '1h', '5m', '2m', 'critical'],
          ['6', '6h', '30m', '15m', 'critical'],
          ['3', '1d', '2h', '1h', 'warning'],
          ['1', '3d', '6h', '3h', 'warning'],
        ].map(burns),
      );
    }
  });

  test.each(names)('%s has a test case in which it fires and one in which it does not', (name) => {
    const own = cases.filter(({ alertname }) => alertname === name);
    const fired = own.flatMap(({ exp_alerts: fired = [] }) => fired.map(({ exp_labels }) => exp_labels));
    expect(own.some(({ exp_alerts: fired = [] }) => fired.length === 0)).toBe(true);
    for (const { labels = {} } of alerts.filter(({ alert }) => alert === name)) {
      expect(fired).toContainEqual(expect.objectContaining(labels));
    }
  });
});

describe('dashboards', () => {
  test('are one for the objectives, one for each deployment and one for a tenant, each with its own id', () => {
    expect(dashboards.map(({ file }) => file)).toEqual(
      ['api', 'controller', 'overview', 'tenant', 'worker'].map((name) => `${name}.json`),
    );
    expect(dashboards.map(({ uid }) => uid)).toEqual(
      dashboards.map(({ file }) => `despatch-${file.replace('.json', '')}`),
    );
  });

  test.each(dashboards.map((dashboard) => [dashboard.title, dashboard] as const))(
    '%s: has variables for Prometheus, namespace and job, and every panel has a description and a unit',
    (_title, { schemaVersion, templating, panels }) => {
      expect(schemaVersion).toBeGreaterThanOrEqual(39);
      expect(templating.list.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['datasource', 'namespace', 'job']),
      );
      // Without a value of its own, All stands for the jobs that the variable lists, and for no other program of the namespace.
      const job = templating.list.find(({ name }) => name === 'job');
      expect(job).toMatchObject({ includeAll: true });
      expect(job).not.toHaveProperty('allValue');
      expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
      expect(panels.filter((panel, i) => panels.slice(i + 1).some((other) => overlap(panel, other)))).toEqual(
        [],
      );
      for (const panel of panelsOf(panels)) {
        expect(panel).toMatchObject({
          title: expect.stringMatching(/\S/),
          description: expect.stringMatching(/^[A-Z0-9`].+\.$/),
          datasource: { uid: '${datasource}' },
          fieldConfig: { defaults: { unit: expect.stringMatching(/\S/) } },
        });
        expect(panel.targets?.map(({ expr }) => expr)).not.toEqual([]);
        for (const { expr } of panel.targets ?? []) expect(expr).toContain('namespace="$namespace"');
      }
    },
  );
});

test('the panel and the alert about errors of Vault count the same calls', () => {
  const counted = (expr: string) =>
    new Set(
      queryFacts(withoutMacros(expr)).selectors.flatMap(({ matchers }) => {
        const own = matchers.filter(({ label }) => label === 'op' || label === 'code');
        return own.length === 0
          ? []
          : own.map(({ label, operator, value }) => label + operator + value).join(' ');
      }),
    );
  const overview = dashboards.find(({ file }) => file === 'overview.json');
  const panel = overview?.panels.find(({ title }) => title === 'Vault errors');
  const alert = alerts.find(({ alert: name }) => name === 'DespatchVaultErrors');
  expect(counted(alert?.expr ?? '').size).toBe(2);
  expect(counted(panel?.targets?.[0]?.expr ?? '')).toEqual(counted(alert?.expr ?? ''));
});

function overlap({ gridPos: a }: Panel, { gridPos: b }: Panel): boolean {
  return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}
