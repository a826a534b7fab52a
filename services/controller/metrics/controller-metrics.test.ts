import { describe, expect, test } from 'vitest';
import { createControllerMetrics } from './controller-metrics.ts';

const options = {
  controllers: ['tenant', 'plan'],
  conditions: { Tenant: ['Ready', 'Applied'], Plan: ['Ready', 'InUse'] },
  leaseName: 'despatch-controller',
};

/** Returns the value of each series, keyed by name and labels. */
async function scrape(metrics: ReturnType<typeof createControllerMetrics>): Promise<Map<string, number>> {
  const { text } = await metrics.expose();
  return new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

describe('a controller that has done nothing yet', () => {
  test.each([
    'controller_runtime_reconcile_total{controller="tenant",result="success"}',
    'controller_runtime_reconcile_total{controller="plan",result="error"}',
    'controller_runtime_reconcile_total{controller="plan",result="requeue_after"}',
    'controller_runtime_reconcile_errors_total{controller="tenant"}',
    'controller_runtime_reconcile_time_seconds_count{controller="tenant"}',
    'controller_runtime_active_workers{controller="tenant"}',
    'controller_runtime_max_concurrent_reconciles{controller="plan"}',
    'workqueue_depth{name="tenant"}',
    'workqueue_adds_total{name="plan"}',
    'workqueue_queue_duration_seconds_count{name="tenant"}',
    'workqueue_work_duration_seconds_count{name="tenant"}',
    'workqueue_retries_total{name="tenant"}',
    'workqueue_unfinished_work_seconds{name="plan"}',
    'workqueue_longest_running_processor_seconds{name="plan"}',
    'leader_election_master_status{name="despatch-controller"}',
    'rest_client_requests_total{code="200",method="GET"}',
    'rest_client_requests_total{code="429",method="PATCH"}',
    'rest_client_requests_total{code="<error>",method="PUT"}',
    'despatch_resource_condition{kind="Tenant",type="Applied",status="Unknown"}',
    'despatch_resource_condition{kind="Plan",type="InUse",status="True"}',
    'despatch_drift_repairs_total{kind="Tenant"}',
    'despatch_watch_restarts_total{kind="Plan",reason="expired"}',
    'despatch_watch_restarts_total{kind="Tenant",reason="stalled"}',
    'despatch_watch_last_event_timestamp_seconds{kind="Plan"}',
    'despatch_relist_total{kind="Tenant"}',
    'despatch_convergence_seconds_count',
  ])('shows %s as 0, so that its first increase is seen', async (series) => {
    expect((await scrape(createControllerMetrics(options))).get(series)).toBe(0);
  });

  test('exposes the metrics that every service exposes', async () => {
    const { text } = await createControllerMetrics(options).expose();
    for (const name of [
      'despatch_vault_requests_total',
      'despatch_db_errors_total',
      'despatch_nats_connected',
    ])
      expect(text).toContain(`# TYPE ${name} `);
  });
});

test('a failure counts as a result and as an error', async () => {
  const metrics = createControllerMetrics(options);
  metrics.reconciles.started('tenant');
  metrics.reconciles.finished('tenant', { result: 'error', seconds: 0.2 });
  const series = await scrape(metrics);
  expect(series.get('controller_runtime_reconcile_total{controller="tenant",result="error"}')).toBe(1);
  expect(series.get('controller_runtime_reconcile_errors_total{controller="tenant"}')).toBe(1);
  expect(series.get('controller_runtime_active_workers{controller="tenant"}')).toBe(0);
});

test('conditions are counted at each scrape, and unknown types create no series', async () => {
  const metrics = createControllerMetrics(options);
  const ready = { status: { conditions: [{ type: 'Ready', status: 'True' }] } };
  let held = [ready, ready, {}, { status: { conditions: [{ type: 'Sidecar', status: 'True' }] } }];
  metrics.resourceConditions.from('Tenant', () => held);
  const name = 'despatch_resource_condition{kind="Tenant",type="Ready",status="True"}';
  const before = await scrape(metrics);
  expect(before.get(name)).toBe(2);
  expect([...before.keys()].filter((series) => series.includes('Sidecar'))).toEqual([]);
  held = [ready];
  expect((await scrape(metrics)).get(name)).toBe(1);
});

test('unfinished work is read at each scrape', async () => {
  const metrics = createControllerMetrics(options);
  metrics.workqueue('tenant').running(() => ({ unfinished: 12, longest: 7 }));
  const series = await scrape(metrics);
  expect(series.get('workqueue_unfinished_work_seconds{name="tenant"}')).toBe(12);
  expect(series.get('workqueue_longest_running_processor_seconds{name="tenant"}')).toBe(7);
});

test('convergence has a bucket of one minute, and its longest wait is read at each scrape', async () => {
  const metrics = createControllerMetrics(options);
  for (const seconds of [0.2, 60, 60.1]) metrics.converged(seconds);
  metrics.longestConvergence.from(() => 7);
  const series = await scrape(metrics);
  expect(series.get('despatch_convergence_seconds_bucket{le="60"}')).toBe(2);
  expect(series.get('despatch_convergence_seconds_count')).toBe(3);
  expect(series.get('despatch_convergence_wait_seconds')).toBe(7);
});
