import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createLogger, silentLogger } from '#core/platform/telemetry/logger.ts';
import {
  createControllerLoop,
  type ControllerLoop,
  type ControllerLoopOptions,
  type ReconcileMetrics,
} from './controller-loop.ts';
import { UNMEASURED_LOOP } from '#test/support/unmeasured-loop.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

type Setup = { readonly loop: ControllerLoop; readonly end: AbortController; readonly passes: string[] };

/** A started loop; `passes` holds the keys in the order in which they were reconciled. */
function setup(options: Partial<ControllerLoopOptions>): Setup {
  const passes: string[] = [];
  const loop = createControllerLoop({
    ...UNMEASURED_LOOP,
    name: 'tenant',
    keys: () => [],
    log: silentLogger,
    ...options,
    async reconcile(key, signal, log) {
      passes.push(key);
      return (await options.reconcile?.(key, signal, log)) ?? {};
    },
  });
  const end = new AbortController();
  loop.start(end.signal);
  return { loop, end, passes };
}

test('start enqueues all known objects and drops keys enqueued before it', async () => {
  const passes: string[] = [];
  const loop = createControllerLoop({
    ...UNMEASURED_LOOP,
    name: 'tenant',
    keys: () => ['a/x', 'a/y'],
    log: silentLogger,
    async reconcile(key) {
      passes.push(key);
      return {};
    },
  });
  loop.enqueue('a/gone');
  loop.start(new AbortController().signal);
  await vi.runAllTimersAsync();
  expect(passes).toEqual(['a/x', 'a/y']);
  await loop.stop();
});

test('runs at most one pass per worker, and one per key', async () => {
  const held = Promise.withResolvers<void>();
  let active = 0;
  let activeMax = 0;
  const { loop, passes } = setup({
    workers: 2,
    async reconcile() {
      activeMax = Math.max(activeMax, ++active);
      await held.promise;
      active -= 1;
      return {};
    },
  });
  for (const key of ['a', 'b', 'c', 'a']) loop.enqueue(key);
  await vi.advanceTimersByTimeAsync(10);
  loop.enqueue('a');
  expect(passes).toEqual(['a', 'b']);
  held.resolve();
  await vi.advanceTimersByTimeAsync(10);
  expect(activeMax).toBe(2);
  expect(passes.toSorted()).toEqual(['a', 'a', 'b', 'c']);
  await loop.stop();
});

test('a failed object is retried with backoff, and others continue', async () => {
  let failures = 0;
  const { loop, passes } = setup({
    async reconcile(key) {
      if (key === 'bad' && ++failures <= 3) throw new Error('no');
      return {};
    },
  });
  loop.enqueue('bad');
  loop.enqueue('good');
  await vi.advanceTimersByTimeAsync(0);
  expect(passes).toEqual(['bad', 'good']);
  await vi.advanceTimersByTimeAsync(200 + 400 + 800);
  expect(passes).toEqual(['bad', 'good', 'bad', 'bad', 'bad']);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(passes).toHaveLength(5);
  await loop.stop();
});

test('a success resets the backoff', async () => {
  let hasFailed = 0;
  const { loop, passes } = setup({
    async reconcile() {
      hasFailed += 1;
      // Four failures, one success, one failure.
      if (hasFailed !== 5 && hasFailed <= 6) throw new Error('no');
      return {};
    },
  });
  loop.enqueue('a');
  await vi.advanceTimersByTimeAsync(200 + 400 + 800 + 1_600);
  expect(passes).toHaveLength(5);
  loop.enqueue('a');
  await vi.advanceTimersByTimeAsync(200);
  expect(passes).toHaveLength(7);
  await loop.stop();
});

test('an error thrown synchronously is retried too', async () => {
  const { loop, passes } = setup({
    reconcile() {
      throw new TypeError('not a function');
    },
  });
  loop.enqueue('a');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(passes.length).toBeGreaterThan(1);
  await loop.stop();
});

test('a result with requeueAfterMs requeues the object after that time', async () => {
  const { loop, passes } = setup({ reconcile: async () => ({ requeueAfterMs: 300_000 }) });
  loop.enqueue('a');
  await vi.advanceTimersByTimeAsync(299_999);
  expect(passes).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(passes).toHaveLength(2);
  await loop.stop();
});

test('a pass that exceeds its timeout is aborted and retried', async () => {
  const reasons: string[] = [];
  const { loop, passes } = setup({
    timeoutMs: 5_000,
    reconcile: (_key, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push(String(signal.reason));
          reject(new Error('ended'));
        });
      }),
  });
  loop.enqueue('a');
  await vi.advanceTimersByTimeAsync(4_999);
  expect(reasons).toEqual([]);
  await vi.advanceTimersByTimeAsync(300);
  expect(reasons).toEqual(['Error: The reconcile took longer than 5000 ms']);
  expect(passes).toEqual(['a', 'a']);
  loop.stop().catch(() => undefined);
});

test('stop waits for the running pass and begins no other', async () => {
  const held = Promise.withResolvers<void>();
  const { loop, passes } = setup({
    workers: 1,
    async reconcile() {
      await held.promise;
      return { requeueAfterMs: 10 };
    },
  });
  loop.enqueue('a');
  loop.enqueue('b');
  await vi.advanceTimersByTimeAsync(0);
  let isStopped = false;
  const stopped = loop.stop().then(() => {
    isStopped = true;
  });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(isStopped).toBe(false);
  held.resolve();
  await stopped;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(passes).toEqual(['a']);
});

test('aborting the signal aborts the running pass, and nothing is retried afterwards', async () => {
  const { loop, end, passes } = setup({
    reconcile: (_key, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('ended')));
      }),
  });
  loop.enqueue('a');
  await vi.advanceTimersByTimeAsync(0);
  end.abort(new Error('The lease was lost'));
  loop.enqueue('b');
  await vi.advanceTimersByTimeAsync(0);
  // The pass has ended, so `stop` does not wait.
  await loop.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(passes).toEqual(['a']);
  expect(vi.getTimerCount()).toBe(0);
});

test('begins no pass after leadership is lost', async () => {
  let isLeading = true;
  const { loop, passes } = setup({ isLeading: () => isLeading });
  loop.enqueue('a');
  await vi.advanceTimersByTimeAsync(0);
  isLeading = false;
  loop.enqueue('b');
  await vi.advanceTimersByTimeAsync(0);
  expect(passes).toEqual(['a']);
  await loop.stop();
});

test("logs name the controller, object and pass, and metrics record each pass's result", async () => {
  const lines: Record<string, unknown>[] = [];
  const log = createLogger({
    level: 'info',
    component: 'controller',
    destination: { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) },
  });
  const ends: string[] = [];
  let active = 0;
  const metrics: ReconcileMetrics = {
    concurrency: (controller, workers) => ends.push(`${controller} ${workers}`),
    started: () => void (active += 1),
    finished(_controller, { result }) {
      active -= 1;
      ends.push(result);
    },
  };
  const results = [{}, { requeueAfterMs: 1e6 }, new Error('no'), new Error('no')];
  const { loop } = setup({
    log,
    metrics,
    async reconcile() {
      const result = results.shift() ?? {};
      if (result instanceof Error) throw result;
      return result;
    },
  });
  for (const key of ['acme/a', 'acme/b', 'acme/c', 'acme/d']) loop.enqueue(key);
  await vi.advanceTimersByTimeAsync(0);
  expect(ends).toEqual(['tenant 4', 'success', 'requeue_after', 'error', 'error']);
  expect(active).toBe(0);
  expect(
    lines.map(({ level, msg, controller, namespace, name }) => [level, msg, controller, namespace, name]),
  ).toEqual([
    ['warn', 'Could not reconcile, and will retry', 'tenant', 'acme', 'c'],
    ['warn', 'Could not reconcile, and will retry', 'tenant', 'acme', 'd'],
  ]);
  expect(new Set(lines.map(({ reconcileId }) => reconcileId)).size).toBe(2);
  await loop.stop();
});
