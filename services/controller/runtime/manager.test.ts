import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { KubeError } from '../kube/kube-error.ts';
import type { KubeResource } from '../kube/kube-object.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import type { EndWatch, Ending } from '#core/platform/process/shutdown.ts';
import { createMemoryKube, type MemoryKube } from '#test/support/memory-kube.ts';
import { createControllerLoop, type Reconcile } from './controller-loop.ts';
import { UNMEASURED_LOOP } from '#test/support/unmeasured-loop.ts';
import type { HealthChecks } from './health-checks.ts';
import { createElector } from './leader.ts';
import { LEASES, type Lease } from './lease.ts';
import { runManager, type ManagerOptions } from './manager.ts';
import { createReflector } from './reflector.ts';

const TENANTS: KubeResource = {
  group: 'despatch.dev',
  version: 'v1alpha1',
  plural: 'tenants',
  kind: 'Tenant',
  namespaced: true,
};
const LEASE_KEY = 'system/despatch-controller';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

type Process = {
  /** What happened, in order. */
  readonly told: string[];
  readonly passes: string[];
  readonly exits: number[];
  readonly health: () => HealthChecks;
  /** Ends the process like SIGTERM. */
  readonly terminate: () => void;
  readonly done: Promise<void>;
};

type ProcessOptions = Partial<Pick<ManagerOptions, 'whileLeading' | 'shutdownGraceMs' | 'ready'>> & {
  readonly reconcile?: Reconcile;
  readonly hasElection?: boolean;
};

/** Runs a controller's manager without a process of its own. */
function start(kube: MemoryKube, name: string, options: ProcessOptions = {}): Process {
  const told: string[] = [];
  const passes: string[] = [];
  const exits: number[] = [];
  const ended = Promise.withResolvers<Ending>();
  let isEnding = false;
  const end: EndWatch = { ended: ended.promise, isEnding: () => isEnding, [Symbol.dispose]: () => undefined };
  const { client } = kube;
  const reflector = createReflector({ client, resource: TENANTS, log: silentLogger });
  const elector =
    options.hasElection === false
      ? undefined
      : createElector({
          client,
          namespace: 'system',
          leaseName: 'despatch-controller',
          name,
          log: silentLogger,
        });
  const loop = createControllerLoop({
    ...UNMEASURED_LOOP,
    name: 'tenant',
    keys: () => reflector.cache.keys(),
    log: silentLogger,
    isLeading: elector?.isLeading ?? (() => true),
    async reconcile(key, signal, log) {
      passes.push(key);
      told.push(`begin ${key}`);
      const result = (await options.reconcile?.(key, signal, log)) ?? {};
      told.push(`end ${key}`);
      return result;
    },
  });
  reflector.cache.subscribe(({ key }) => loop.enqueue(key));
  let health: HealthChecks | undefined;
  const done = runManager({
    log: silentLogger,
    end,
    reflectors: [reflector],
    controllers: [loop],
    elector,
    async openHealth(checks) {
      health = checks;
      told.push('health open');
      return {
        async [Symbol.asyncDispose]() {
          told.push('health closed');
        },
      };
    },
    shutdownGraceMs: 25_000,
    ...options,
    exit(code) {
      exits.push(code);
      told.push('exit');
    },
  });
  done.catch(() => undefined);
  return {
    told,
    passes,
    exits,
    health: () => health as HealthChecks,
    terminate() {
      isEnding = true;
      ended.resolve({ kind: 'signal', signal: 'SIGTERM' });
    },
    done,
  };
}

const tenant = (name: string) => ({ metadata: { namespace: 'a', name } });
const leaseOf = (kube: MemoryKube): Lease | undefined => kube.read(LEASES, LEASE_KEY);
const holderOf = (kube: MemoryKube) => leaseOf(kube)?.spec?.holderIdentity;
const steal = (kube: MemoryKube) =>
  kube.put(LEASES, {
    metadata: { namespace: 'system', name: 'despatch-controller' },
    spec: { holderIdentity: 'thief', leaseDurationSeconds: 15 },
  } as never);
const wait = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test('starts the health endpoint, then the caches, then the election, then the passes', async () => {
  const kube = createMemoryKube();
  kube.put(TENANTS, tenant('x'));
  const held = Promise.withResolvers<void>();
  kube.next('list', () => held.promise);
  const one = start(kube, 'pod-a');
  await wait(1_000);
  expect(one.told).toEqual(['health open']);
  expect(await one.health().ready()).toEqual({ failing: ['cache_tenant'] });
  expect(holderOf(kube)).toBeUndefined();
  held.resolve();
  await wait(0);
  expect(await one.health().ready()).toEqual({ failing: [] });
  expect(holderOf(kube)).toMatch(/^pod-a_/);
  expect(one.told).toEqual(['health open', 'begin a/x', 'end a/x']);
  one.terminate();
  await one.done;
});

test('a process that does not lead is ready, keeps its cache current and reconciles nothing', async () => {
  const kube = createMemoryKube();
  steal(kube);
  const one = start(kube, 'pod-a');
  await wait(2_000);
  kube.put(TENANTS, tenant('x'));
  await wait(2_000);
  expect(await one.health().ready()).toEqual({ failing: [] });
  expect(one.passes).toEqual([]);
  await wait(20_000);
  expect(one.passes).toEqual(['a/x']);
  one.terminate();
  await one.done;
});

test('at shutdown the running pass ends, then the lease is released, then the rest closes', async () => {
  const kube = createMemoryKube();
  kube.put(TENANTS, tenant('x'));
  const held = Promise.withResolvers<void>();
  const one = start(kube, 'pod-a', {
    async reconcile() {
      await held.promise;
      return {};
    },
  });
  await wait(0);
  one.terminate();
  await wait(0);
  kube.put(TENANTS, tenant('late'));
  // Longer than the lease duration: the lease is renewed to the end.
  await wait(20_000);
  expect(holderOf(kube)).toMatch(/^pod-a_/);
  expect(one.told).toEqual(['health open', 'begin a/x']);
  expect(await one.health().ready()).toEqual({ failing: ['ending'] });
  held.resolve();
  await one.done;
  expect(holderOf(kube)).toBe('');
  expect(one.told).toEqual(['health open', 'begin a/x', 'end a/x', 'health closed']);
  expect(one.exits).toEqual([]);
  expect(kube.watches.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});

test('a pass that outlasts the shutdown grace is aborted, and the lease is released', async () => {
  const kube = createMemoryKube();
  kube.put(TENANTS, tenant('x'));
  const one = start(kube, 'pod-a', {
    shutdownGraceMs: 5_000,
    reconcile: (_key, signal) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(new Error(`ended while ${holderOf(kube)} led`))),
      ),
  });
  await wait(0);
  one.terminate();
  await wait(5_000);
  await one.done;
  expect(holderOf(kube)).toBe('');
});

test('the lease is not released while a pass does not end', async () => {
  const kube = createMemoryKube();
  kube.put(TENANTS, tenant('x'));
  const one = start(kube, 'pod-a', { shutdownGraceMs: 5_000, reconcile: () => new Promise(() => undefined) });
  await wait(0);
  one.terminate();
  await wait(10_000);
  await one.done;
  expect(holderOf(kube)).toMatch(/^pod-a_/);
});

test('a leader whose lease was taken aborts its passes, begins no others and exits', async () => {
  const kube = createMemoryKube();
  kube.put(TENANTS, tenant('x'));
  let aborted: unknown;
  const one = start(kube, 'pod-a', {
    reconcile: (_key, signal) =>
      new Promise(() => signal.addEventListener('abort', () => (aborted = signal.reason as unknown))),
  });
  await wait(0);
  steal(kube);
  await wait(2_001);
  expect(one.exits).toEqual([1]);
  expect(String(aborted)).toBe('Error: The lease was lost');
  kube.put(TENANTS, tenant('y'));
  await wait(10_000);
  expect(one.passes).toEqual(['a/x']);
  expect(one.told.at(-1)).toBe('exit');
  expect(holderOf(kube)).toBe('thief');
});

test('a lease that is lost during shutdown ends the process at once', async () => {
  const kube = createMemoryKube();
  kube.put(TENANTS, tenant('x'));
  const one = start(kube, 'pod-a', { reconcile: () => new Promise(() => undefined) });
  await wait(0);
  one.terminate();
  await wait(1_000);
  steal(kube);
  await wait(3_000);
  expect(one.exits).toEqual([1]);
});

test('one of two processes leads, and the other takes over after it ends', async () => {
  const kube = createMemoryKube();
  kube.put(TENANTS, tenant('x'));
  const a = start(kube, 'pod-a');
  await wait(0);
  const b = start(kube, 'pod-b');
  await wait(30_000);
  expect([a.passes, b.passes]).toEqual([['a/x'], []]);
  a.terminate();
  await a.done;
  await wait(3_000);
  expect(b.passes).toEqual(['a/x']);
  b.terminate();
  await b.done;
});

test('the process ends if its caches cannot be synced in time', async () => {
  const kube = createMemoryKube();
  for (let times = 0; times < 100; times += 1) {
    kube.next('list', () => {
      throw new KubeError({ code: 403, reason: 'Forbidden', message: 'no' });
    });
  }
  const one = start(kube, 'pod-a');
  await wait(119_000);
  expect(one.told).toEqual(['health open']);
  await wait(1_000);
  await expect(one.done).rejects.toThrow('The API server did not list Tenant within 120000 ms');
  expect(one.told).toEqual(['health open', 'health closed']);
});

test.each([
  ['before its caches are synced', 0],
  ['while it waits for the lease', 5_000],
])('a process that is terminated %s ends', async (_when, ms) => {
  const kube = createMemoryKube();
  steal(kube);
  if (ms === 0)
    kube.next('list', (signal) => new Promise((_, reject) => signal.addEventListener('abort', reject)));
  const one = start(kube, 'pod-a');
  await wait(ms);
  one.terminate();
  await one.done;
  expect(one.told).toEqual(['health open', 'health closed']);
  expect(vi.getTimerCount()).toBe(0);
});

test('without an election, passes begin when the caches are synced', async () => {
  const kube = createMemoryKube();
  kube.put(TENANTS, tenant('x'));
  const one = start(kube, 'pod-a', { hasElection: false });
  await wait(0);
  expect(one.passes).toEqual(['a/x']);
  one.terminate();
  await one.done;
});

test("the leader's work starts on election, is retried after failures and awaited at the end", async () => {
  const kube = createMemoryKube();
  steal(kube);
  const told: string[] = [];
  const one = start(kube, 'pod-a', {
    whileLeading: {
      async work(signal) {
        told.push('begun');
        if (told.length === 1) throw new Error('no');
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        told.push('ended');
      },
    },
  });
  await wait(10_000);
  expect(told).toEqual([]);
  await wait(20_000);
  expect(told).toEqual(['begun', 'begun']);
  one.terminate();
  await one.done;
  expect(told).toEqual(['begun', 'begun', 'ended']);
});

test("one work of the leader's is done once while another one fails again and again", async () => {
  const counts = { fails: 0, works: 0 };
  const one = start(createMemoryKube(), 'pod-a', {
    whileLeading: {
      async fails() {
        counts.fails += 1;
        throw new Error('no');
      },
      async works() {
        counts.works += 1;
      },
    },
  });
  await wait(60_000);
  expect(counts).toEqual({ fails: expect.any(Number), works: 1 });
  expect(counts.fails).toBeGreaterThan(10);
  one.terminate();
  await one.done;
});
