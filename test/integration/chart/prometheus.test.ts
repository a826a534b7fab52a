import { spawnSync } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { CHANNELS, type Channel } from '#core/domain/message/channel.ts';
import { pick, renderChart } from '#test/support/chart.ts';
import { projectRoot, runCommand } from '#test/support/command.ts';
import { startController } from '#test/support/controller-process.ts';
import { call } from '#test/support/http-call.ts';
import { startKubeApiServer, type KubeApiServer } from '#test/support/kube-apiserver.ts';
import { readRuleTests, writeRuleTests, type RuleGroups, type RuleTests } from '#test/support/rule-tests.ts';
import { startPrometheus, type Prometheus } from '#test/support/prometheus.ts';
import type { ServiceProcess } from '#test/support/service-process.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';
import {
  readDashboards,
  readRunbooks,
  RULE_FOLDER,
  runbookQueries,
  variableQuery,
  type Dashboard,
} from '#test/analysis/monitoring-files.ts';
import { messageRecord, reportAsTwilio, takenByTwilio } from '#test/support/twilio-receipts.ts';
import { startWebhookReceiver, type WebhookReceiver } from '#test/support/webhook-receiver.ts';
import { withoutMacros } from '#test/analysis/promql.ts';
import { findProgram } from '../../../deploy/servers/program.ts';

/** Without Prometheus these tests are reported as skipped; CI must have it. */
const programs = await Promise.all([findProgram('promtool'), findProgram('prometheus')]).catch(
  (error: unknown) => {
    if (process.env['CI'] !== undefined) throw error;
    process.stderr.write(`SKIPPED: the tests of alerts and dashboards: ${String(error)}\n`);
    return undefined;
  },
);
const [promtool, prometheusProgram] = programs ?? ['', ''];

const filesOf = (folder: string): string[] => readdirSync(join(projectRoot, folder));

describe.skipIf(programs === undefined)('promtool', () => {
  test('accepts every rule', async () => {
    const files = filesOf(RULE_FOLDER).map((file) => join(RULE_FOLDER, file));
    // Two alerts of one name and the same labels are a fault too: the end of one would resolve the other.
    const check = [promtool, 'check', 'rules', '--lint=all', '--lint-fatal', ...files];
    const { code, output } = await runCommand(check, 'gather');
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining('rules found') as string });
  });

  test.each(filesOf('test/rules'))(
    'passes the rule tests of %s: alerts fire only when expected, with the expected text',
    async (file) => {
      const { tests, rules } = readRuleTests(join(projectRoot, 'test/rules', file));
      expect(await failureOf(tests, rules)).toBeUndefined();
    },
    180_000,
  );

  // The same faults occur in several namespaces there, as with several releases in one cluster.
  test.each(['controller.yaml', 'delivery.yaml', 'slo.yaml'])(
    "passes the rule tests of %s with a release's rules: they fire for its own namespace and for no other",
    async (file) => {
      const { tests, rules } = readRuleTests(join(projectRoot, 'test/rules', file));
      const names = rules.groups.map(({ name }) => name);
      const release = await releaseRules('despatch', names);
      expect(release.groups.map(({ name }) => name)).toEqual(names);
      expect(await failureOf(onlyIn('despatch', tests), release)).toBeUndefined();
    },
    180_000,
  );
});

/** Runs rule tests with these rules. @returns what promtool reports; undefined if each test passed. */
async function failureOf(tests: RuleTests, rules: RuleGroups): Promise<string | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'despatch-rules-'));
  try {
    const files = writeRuleTests(folder, tests, rules);
    const { code, output } = await runCommand([promtool, 'test', 'rules', ...files], 'gather');
    return code === 0 && output.match(/SUCCESS/g)?.length === files.length ? undefined : output;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns the rules of these groups that the chart installs in this namespace. */
async function releaseRules(namespace: string, names: readonly string[]): Promise<RuleGroups> {
  const set = {
    'monitoring.prometheusRule.enabled': true,
    'monitoring.prometheusRule.runbookBaseUrl': 'RUNBOOK_BASE_URL',
  };
  const { spec } = pick(await renderChart({ set, namespace }), 'PrometheusRule', 'despatch');
  return { groups: (spec as RuleGroups).groups.filter(({ name }) => names.includes(name)) };
}

/** Expects the alerts of this namespace alone. */
function onlyIn(namespace: string, tests: RuleTests): RuleTests {
  for (const one of tests.tests.flatMap(({ alert_rule_test: cases = [] }) => cases))
    one.exp_alerts = one.exp_alerts?.filter(({ exp_labels: labels }) => labels.namespace === namespace) ?? [];
  return tests;
}

describe.skipIf(programs === undefined)('a Prometheus that scrapes the running services', () => {
  const NAMESPACE = 'messaging';
  const dashboards = readDashboards();
  let stack: ServiceStack;
  let kube: KubeApiServer;
  let controller: ServiceProcess;
  let prometheus: Prometheus;
  let receiver: WebhookReceiver;

  beforeAll(async () => {
    const local = { EGRESS_ALLOW_CIDRS: '127.0.0.0/8', WEBHOOK_ALLOW_HTTP: 'true' };
    const environment = { ...local, METRICS_TENANTS_MAX: '10' };
    [stack, kube, receiver] = await Promise.all([
      startServiceStack({ api: environment, worker: environment }),
      startKubeApiServer(),
      startWebhookReceiver(),
    ]);
    await kube.applyCrds();
    const namespace = await kube.createNamespace();
    controller = await startController('controller-1', {
      ...stack.controllerEnvironment,
      KUBECONFIG: kube.kubeconfigPath,
      POD_NAMESPACE: namespace,
      WATCH_NAMESPACES: namespace,
      RESYNC_SECONDS: '5',
    });
    const target =
      (job: string) =>
      ({ metricsOrigin: origin }: ServiceProcess) => ({ job, origin });
    prometheus = await startPrometheus({
      program: prometheusProgram,
      namespace: NAMESPACE,
      ruleFolder: RULE_FOLDER,
      targets: [
        ...stack.apis.map(target('api')),
        ...stack.workers.map(target('worker')),
        target('controller')(controller),
      ],
    });
    // `rate` counts only changes between scrapes, and a tenant's series start with its first message.
    await vi.waitFor(async () => expect(sum(await prometheus.query('up'))).toBe(5), SOON);
    await declareTenant(namespace);
    const tenant = await stack.tenant(CHANNELS);
    await addEndpoint(tenant);
    await addSpare(tenant);
    await vi.waitFor(async () => {
      await drive(tenant);
      for (const counter of [
        'tenant_messages_accepted',
        'tenant_attempts',
        'receipts_awaited',
        'failovers',
      ]) {
        expect(sum(await prometheus.query(`rate(despatch_${counter}_total[5m])`))).toBeGreaterThan(0);
      }
    }, SOON);
  }, 240_000);

  afterAll(async () => {
    await prometheus?.[Symbol.asyncDispose]();
    await controller?.[Symbol.asyncDispose]();
    await kube?.[Symbol.asyncDispose]();
    await stack?.[Symbol.asyncDispose]();
    await receiver?.[Symbol.asyncDispose]();
  });

  const SOON = { timeout: 60_000, interval: 500 };

  const sum = (samples: readonly { readonly value: number }[]): number =>
    samples.reduce((total, { value }) => total + value, 0);

  async function declareTenant(namespace: string): Promise<void> {
    const answer = await kube.apply({
      apiVersion: 'despatch.dev/v1alpha1',
      kind: 'Tenant',
      metadata: { name: `t-${randomUUID().slice(0, 8)}`, namespace },
      spec: {},
    });
    expect(answer.status).toBeLessThan(300);
  }

  async function addEndpoint({ token, slug }: StackTenant): Promise<void> {
    const body = { url: `${receiver.origin}/`, eventTypes: ['*'] };
    const added = await call(stack.apis[0].origin, 'POST', '/v1/admin/webhook-endpoints', {
      token,
      slug,
      body,
    });
    expect(added).toMatchObject({ status: 201 });
  }

  /** Adds a second account, to which messages that the first one refuses fail over. */
  async function addSpare({ token, slug }: StackTenant): Promise<void> {
    const body = {
      provider: 'twilio',
      label: 'Spare',
      publicConfig: { accountSid: `AC${randomUUID().replaceAll('-', '')}`, from: '+15005550006' },
      secretConfig: { authToken: randomUUID().replaceAll('-', '') },
    };
    const added = await call(stack.apis[0].origin, 'POST', '/v1/admin/providers', { token, slug, body });
    expect(added).toMatchObject({ status: 201 });
  }

  /** Produces everything that a panel shows at least once. */
  async function drive({ serviceKey: key, id: tenantId }: StackTenant): Promise<void> {
    const [{ origin }] = stack.apis;
    const send = (body: object, headers: Record<string, string> = {}) =>
      call(origin, 'POST', '/v1/messages', { key, body, headers });
    for (const channel of CHANNELS) {
      const answers = await Promise.all(Array.from({ length: 5 }, () => send(MESSAGE[channel])));
      expect(answers.map(({ status }) => status)).toEqual(Array<number>(5).fill(202));
    }
    const once = { 'idempotency-key': randomUUID() };
    await send(MESSAGE.sms, once);
    expect((await send(MESSAGE.sms, once)).headers.get('idempotent-replayed')).toBe('true');
    expect((await send({ channel: 'sms' })).status).toBe(400);
    const { body } = await send(MESSAGE.sms);
    const taken = await takenByTwilio(stack, key, (body as { id: string }).id);
    expect((await reportAsTwilio(taken, 'delivered')).status).toBe(200);
    const batch = { messages: [MESSAGE.sms, MESSAGE.email] };
    expect((await call(origin, 'POST', '/v1/messages/batch', { key, body: batch })).status).toBe(202);
    // The pattern spares the check of a new account, which happens at a time of the worker's choice.
    stack.twilio.fail({ kind: 'reply', status: 503, body: { message: 'Down' } }, /\/Messages\.json$/);
    // Waits until no message is under way: a planted fault hits whichever message is sent next.
    const last = await send(MESSAGE.sms);
    await takenByTwilio(stack, key, (last.body as { id: string }).id);
    await vi.waitFor(async () => expect(await stack.states(tenantId)).not.toHaveProperty('queued'), SOON);
    await vi.waitFor(async () => expect(await stack.states(tenantId)).not.toHaveProperty('deferred'), SOON);
    stack.twilio.fail(
      { kind: 'reply', status: 400, body: { code: 21211, message: 'No such number' } },
      /\/Messages\.json$/,
    );
    // A random number, because this failure suppresses it.
    const refused = await send({ ...MESSAGE.sms, to: `+1415${randomInt(2_000_000, 9_999_999)}` });
    const { id } = refused.body as { id: string };
    // The next round's messages must not meet the planted refusal: it would suppress their recipient.
    await vi.waitFor(
      async () => expect(await messageRecord(stack, key, id)).toMatchObject({ finality: 'final' }),
      SOON,
    );
  }

  /** Fills in the variables of an expression as Grafana does with all values selected. */
  function asked(expression: string): string {
    return withoutMacros(expression)
      .replaceAll('$namespace', NAMESPACE)
      .replaceAll(/\$(?:job|tenant)\b/g, '.+');
  }

  const hasData = async (expression: string): Promise<boolean> =>
    (await prometheus.query(asked(expression))).some(({ value }) => !Number.isNaN(value));

  async function emptyPanels({ panels }: Dashboard): Promise<string[]> {
    const targets = panels.flatMap(({ title, targets: of = [] }) => of.map(({ expr }) => ({ title, expr })));
    const found = await Promise.all(targets.map(({ expr }) => hasData(expr)));
    return targets.filter((_target, i) => !found[i]).map(({ title, expr }) => `${title}: ${expr}`);
  }

  test.each(dashboards.map((dashboard) => [dashboard.title, dashboard] as const))(
    '%s: every panel shows data and every variable has values',
    async (_title, dashboard) => {
      await expect.poll(() => emptyPanels(dashboard), SOON).toEqual([]);
      for (const variable of dashboard.templating.list) {
        const listed = variableQuery(variable);
        if (listed === undefined) continue;
        expect(await prometheus.labelValues(asked(listed.selector), listed.label)).not.toEqual([]);
      }
    },
  );

  test('every rule evaluates, and each SLO has an error ratio and a remaining error budget', async () => {
    await expect
      .poll(async () => (await prometheus.rules()).filter(({ fault }) => fault !== ''), SOON)
      .toEqual([]);
    const objectives = async (metric: string): Promise<string[]> =>
      (await prometheus.query(metric))
        .filter(({ value }) => !Number.isNaN(value))
        .map(({ labels }) => labels['slo'] ?? '')
        .toSorted();
    const all = await objectives('despatch_slo:objective');
    expect(all).toHaveLength(5);
    for (const metric of ['despatch_slo:error_ratio:rate3d', 'despatch_slo:budget_left:ratio30d']) {
      await expect.poll(() => objectives(metric), SOON).toEqual(all);
    }
  });

  test('promtool check metrics reports no problem with the metrics of each service', async () => {
    for (const service of [stack.apis[0], stack.workers[0], controller]) {
      const exposition = await service.metrics();
      const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], {
        input: exposition,
        encoding: 'utf8',
      });
      expect(exposition).toContain('despatch_build_info');
      expect({ service: service.name, status, said: stdout + stderr }).toEqual({
        service: service.name,
        status: 0,
        said: '',
      });
    }
  });

  test('healthy services raise no alert (alerts about speed are excluded)', async () => {
    // Includes pending alerts, because this test is shorter than their `for` durations. Alerts about speed are left out: they
    // depend on the machine.
    const raised = () =>
      prometheus.query(
        'ALERTS{alertname=~"Despatch.+", alertname!~".*(?:Latency|FirstAttempt|EventLoop).*"}',
      );
    await expect
      .poll(async () => (await raised()).map(({ labels }) => labels['alertname']), SOON)
      .toEqual([]);
  });

  test('Prometheus accepts every query in the runbooks', async () => {
    const queries = [...readRunbooks().values()].flatMap(runbookQueries);
    expect(queries.length).toBeGreaterThan(50);
    for (const query of queries) await prometheus.query(query);
  });
});

const MESSAGE: Readonly<Record<Channel, object>> = {
  sms: { channel: 'sms', to: '+14155550100', body: 'Hello' },
  email: {
    channel: 'email',
    to: 'ada@example.com',
    from: 'Acme <hello@acme.example>',
    subject: 'Hello',
    bodyText: 'Hello',
  },
  push: { channel: 'push', to: 'device-token-of-ada', title: 'Hello', body: 'Hello' },
  whatsapp: { channel: 'whatsapp', to: '+14155550100', body: 'Hello' },
};
