import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { KubeError } from '../kube/kube-error.ts';
import type { KubeRef } from '../kube/kube-object.ts';
import { createLogger, silentLogger } from '#core/platform/telemetry/logger.ts';
import { createEventRecorder, type EventRecorderOptions, type EventSubject } from './event-recorder.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

type Written = {
  readonly ref: KubeRef;
  readonly note: string;
  readonly eventTime: string;
  readonly series?: { readonly count: number; readonly lastObservedTime: string };
  readonly [field: string]: unknown;
};

const tenant: EventSubject = {
  apiVersion: 'despatch.dev/v1alpha1',
  kind: 'Tenant',
  metadata: { namespace: 'acme', name: 'shop', uid: 'uid-1', resourceVersion: '7' },
};

function setup(options: Partial<EventRecorderOptions> = {}) {
  const written: Written[] = [];
  const recorder = createEventRecorder({
    client: {
      apply: async (_resource, ref, fields) => {
        written.push({ ref, ...fields } as Written);
        return undefined as never;
      },
    },
    log: silentLogger,
    instance: 'pod-a',
    ...options,
  });
  return { recorder, written };
}

test('an event contains its object, reason, note, reporter and a time in microseconds', async () => {
  const { recorder, written } = setup();
  recorder.record(tenant, 'Normal', 'Reconciled', 'The tenant is ready');
  await vi.advanceTimersByTimeAsync(0);
  expect(written).toEqual([
    {
      ref: { namespace: 'acme', name: expect.stringMatching(/^shop\.[0-9a-f]{16}$/) as string },
      type: 'Normal',
      reason: 'Reconciled',
      note: 'The tenant is ready',
      action: 'Reconcile',
      eventTime: expect.stringMatching(/\.\d{6}Z$/) as string,
      reportingController: 'despatch.dev/controller',
      reportingInstance: 'pod-a',
      regarding: {
        apiVersion: 'despatch.dev/v1alpha1',
        kind: 'Tenant',
        namespace: 'acme',
        name: 'shop',
        uid: 'uid-1',
        resourceVersion: '7',
      },
    },
  ]);
});

test("repetitions within ten minutes increase one event's count; later ones create a new event", async () => {
  const { recorder, written } = setup();
  const record = () => recorder.record(tenant, 'Warning', 'VaultUnavailable', 'Vault did not answer');
  for (let times = 0; times < 3; times += 1) {
    record();
    await vi.advanceTimersByTimeAsync(500_000);
  }
  expect(written.map(({ series }) => series?.count)).toEqual([undefined, 2, 3]);
  expect(new Set(written.map(({ ref }) => ref.name)).size).toBe(1);
  expect(new Set(written.map(({ eventTime }) => eventTime)).size).toBe(1);
  expect(written[2]?.series?.lastObservedTime).toMatch(/\.\d{6}Z$/);
  await vi.advanceTimersByTimeAsync(100_001);
  record();
  await vi.advanceTimersByTimeAsync(0);
  expect(written[3]?.ref.name).not.toBe(written[0]?.ref.name);
  expect(written[3]?.series).toBeUndefined();
});

test.each([
  [
    'another object',
    { ...tenant, metadata: { ...tenant.metadata, uid: 'uid-2' } },
    'Normal',
    'Reconciled',
    'Done',
  ],
  ['another type', tenant, 'Warning', 'Reconciled', 'Done'],
  ['another reason', tenant, 'Normal', 'Suspended', 'Done'],
  ['another note', tenant, 'Normal', 'Reconciled', 'Done again'],
] as const)('%s is another event', async (_what, about, type, reason, note) => {
  const { recorder, written } = setup();
  recorder.record(tenant, 'Normal', 'Reconciled', 'Done');
  recorder.record(about, type, reason, note);
  await vi.advanceTimersByTimeAsync(0);
  expect(written.map(({ series }) => series)).toEqual([undefined, undefined]);
});

test('a thousand concurrent repetitions cause few writes, and all are counted', async () => {
  const { recorder, written } = setup();
  for (let times = 0; times < 1_000; times += 1) recorder.record(tenant, 'Warning', 'Conflict', 'Again');
  await vi.advanceTimersByTimeAsync(10_000);
  expect(written.length).toBeLessThanOrEqual(2);
  expect(written.at(-1)?.series?.count).toBe(1_000);
});

test('writes are rate limited, and events beyond a maximum are dropped', async () => {
  const { recorder, written } = setup({ rate: { burst: 10, perSecond: 2 } });
  for (let index = 0; index < 5_000; index += 1)
    recorder.record(tenant, 'Normal', 'Reconciled', `Note ${index}`);
  await vi.advanceTimersByTimeAsync(0);
  expect(written).toHaveLength(10);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(written).toHaveLength(20);
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(written).toHaveLength(1_000);
});

test('an event about a cluster-scoped object is written to the default namespace', async () => {
  const { recorder, written } = setup();
  const plan = { ...tenant, kind: 'Plan', metadata: { name: 'free', uid: 'uid-3', resourceVersion: '9' } };
  recorder.record(plan, 'Normal', 'InUse', 'Bound');
  await vi.advanceTimersByTimeAsync(0);
  expect(written[0]?.ref.namespace).toBe('default');
  expect(written[0]?.['regarding']).not.toHaveProperty('namespace');
});

test.each([
  ['a hyphen', `${'a'.repeat(199)}-b`, 'a'.repeat(199)],
  ['two hyphens', `${'a'.repeat(198)}--b`, 'a'.repeat(198)],
  ['a dot', `${'a'.repeat(199)}.b`, 'a'.repeat(199)],
  ['a letter', 'a'.repeat(253), 'a'.repeat(200)],
])('an event about an object with a long name has a valid name, cut after %s', async (_what, name, kept) => {
  const { recorder, written } = setup();
  recorder.record({ ...tenant, metadata: { ...tenant.metadata, name } }, 'Normal', 'Created', 'Made');
  await vi.advanceTimersByTimeAsync(0);
  expect(written[0]?.ref.name.slice(0, -17)).toBe(kept);
  expect(written[0]?.ref.name).toMatch(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/);
});

test('a note is cut at 1,024 bytes between characters, and credentials are redacted', async () => {
  const { recorder, written } = setup();
  recorder.record(tenant, 'Normal', 'Long', 'é'.repeat(2_000));
  recorder.record(tenant, 'Normal', 'Leaky', `Vault refused hvs.${'a'.repeat(30)}`);
  await vi.advanceTimersByTimeAsync(0);
  const [long = '', leaky = ''] = written.map(({ note }) => note);
  expect(Buffer.byteLength(long)).toBeLessThanOrEqual(1_024);
  expect(long).toMatch(/^é{500,}…$/);
  expect(leaky).toBe('Vault refused [redacted]');
});

test('a failed event is logged and dropped, and later events are written', async () => {
  const lines: string[] = [];
  const log = createLogger({
    level: 'info',
    component: 'controller',
    destination: { write: (line) => void lines.push(line) },
  });
  const reasons: unknown[] = [];
  const { recorder } = setup({
    log,
    client: {
      apply: async (_resource, _ref, fields) => {
        const { reason } = fields as Written;
        if (reason === 'First') throw new KubeError({ code: 403, reason: 'Forbidden', message: 'no' });
        reasons.push(reason);
        return undefined as never;
      },
    },
  });
  recorder.record(tenant, 'Normal', 'First', 'One');
  recorder.record(tenant, 'Normal', 'Second', 'Two');
  await vi.advanceTimersByTimeAsync(0);
  expect(reasons).toEqual(['Second']);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain('Could not write an event');
});

test('disposal waits for pending events, for a bounded time', async () => {
  const quick = setup();
  quick.recorder.record(tenant, 'Normal', 'Last', 'Bye');
  await quick.recorder[Symbol.asyncDispose]();
  expect(quick.written).toHaveLength(1);

  const stuck = setup({
    client: {
      apply: (_resource, _ref, _fields, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('ended')))),
    },
  });
  stuck.recorder.record(tenant, 'Normal', 'Last', 'Bye');
  const disposed = stuck.recorder[Symbol.asyncDispose]();
  await vi.advanceTimersByTimeAsync(2_000);
  await disposed;
  expect(vi.getTimerCount()).toBe(0);
});
