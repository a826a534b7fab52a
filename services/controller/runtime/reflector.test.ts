import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { KubeError } from '../kube/kube-error.ts';
import type { KubeObject, KubeResource } from '../kube/kube-object.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createMemoryKube, type MemoryKube, type OpenWatch } from '#test/support/memory-kube.ts';
import { createReflector, type Reflector, type ReflectorOptions } from './reflector.ts';

const TENANTS: KubeResource = {
  group: 'despatch.dev',
  version: 'v1alpha1',
  plural: 'tenants',
  kind: 'Tenant',
  namespaced: true,
};
type Tenant = KubeObject & { readonly spec?: { readonly plan: string } };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const tenant = (key: string, plan = 'free') => {
  const [namespace = '', name = ''] = key.split('/');
  return { metadata: { namespace, name }, spec: { plan } };
};

type Setup = {
  readonly kube: MemoryKube;
  readonly reflector: Reflector<Tenant>;
  /** The changes that subscribers received, for example `added a/x`. */
  readonly told: string[];
  /** The calls that the metrics received. */
  readonly metrics: string[];
  readonly end: AbortController;
  readonly done: Promise<void>;
};

async function setup(
  options: Partial<ReflectorOptions<Tenant>> = {},
  prepare: (kube: MemoryKube) => void = () => undefined,
): Promise<Setup> {
  const kube = createMemoryKube();
  prepare(kube);
  const told: string[] = [];
  const metrics: string[] = [];
  const reflector = createReflector<Tenant>({
    client: kube.client,
    resource: TENANTS,
    log: silentLogger,
    metrics: {
      watchRestarted: (kind, reason) => metrics.push(`${kind} ${reason}`),
      watchContact: () => undefined,
      relisted: (kind) => metrics.push(`${kind} relisted`),
    },
    ...options,
  });
  reflector.cache.subscribe(({ type, key }) => told.push(`${type} ${key}`));
  const end = new AbortController();
  const done = reflector.run(end.signal);
  await vi.advanceTimersByTimeAsync(0);
  return { kube, reflector, told, metrics, end, done };
}

function onlyWatch(kube: MemoryKube): OpenWatch {
  expect(kube.watches.size).toBe(1);
  return [...kube.watches][0] as OpenWatch;
}

/** Ends the open watch; it does not report later changes. */
async function endWatch(kube: MemoryKube, error?: Error): Promise<void> {
  onlyWatch(kube).end(error);
  await vi.advanceTimersByTimeAsync(0);
}

const network = new KubeError({ code: 0, reason: 'Network', message: 'reset' });
const expired = new KubeError({ code: 410, reason: 'Expired', message: 'too old' });

test('subscribers receive each existing object and change once, after the cache has it', async () => {
  const { kube, reflector, told } = await setup({}, (kube) => kube.put(TENANTS, tenant('a/x')));
  expect(reflector.cache.isSynced()).toBe(true);
  let plan: string | undefined;
  reflector.cache.subscribe(({ key }) => {
    plan = reflector.cache.get(key)?.spec?.plan;
  });
  kube.put(TENANTS, tenant('a/y'));
  kube.put(TENANTS, tenant('a/x', 'growth'));
  expect(plan).toBe('growth');
  kube.remove(TENANTS, 'a/y');
  expect(told).toEqual(['added a/x', 'added a/y', 'updated a/x', 'deleted a/y']);
  expect([...reflector.cache.keys()]).toEqual(['a/x']);
});

test('all pages of a list are read', async () => {
  const keys = Array.from({ length: 7 }, (_, index) => `a/t${index}`);
  const { kube, reflector } = await setup({ pageSize: 3 }, (kube) => {
    for (const key of keys) kube.put(TENANTS, tenant(key));
  });
  expect(kube.calls).toEqual(['list tenants', 'list tenants', 'list tenants', 'watch tenants']);
  expect([...reflector.cache.keys()]).toEqual(keys);
});

test('a watch that ended normally resumes from its version without a new list', async () => {
  const { kube, told, metrics } = await setup();
  kube.put(TENANTS, tenant('a/x'));
  onlyWatch(kube).end();
  kube.put(TENANTS, tenant('a/y'));
  await vi.advanceTimersByTimeAsync(0);
  expect(told).toEqual(['added a/x', 'added a/y']);
  expect(kube.calls.filter((call) => call === 'list tenants')).toHaveLength(1);
  expect(metrics).toEqual(['Tenant ended']);
});

test('the next watch begins at the last bookmark', async () => {
  const { kube } = await setup();
  const before = onlyWatch(kube);
  kube.put({ ...TENANTS, plural: 'plans' }, tenant('a/x'));
  before.bookmark();
  before.end();
  await vi.advanceTimersByTimeAsync(0);
  expect(Number(onlyWatch(kube).from)).toBeGreaterThan(Number(before.from));
});

test('an interrupted watch resumes after a pause and delivers missed changes', async () => {
  const { kube, told, metrics } = await setup();
  await endWatch(kube, network);
  await vi.advanceTimersByTimeAsync(799);
  expect(kube.watches.size).toBe(0);
  kube.put(TENANTS, tenant('a/x'));
  await vi.advanceTimersByTimeAsync(1_000);
  expect(told).toEqual(['added a/x']);
  expect(metrics).toEqual(['Tenant error']);
});

test('an expired version leads to a new list, which delivers all missed changes', async () => {
  const { kube, reflector, told, metrics } = await setup({}, (kube) => {
    for (const key of ['a/changed', 'a/deleted', 'a/same']) kube.put(TENANTS, tenant(key));
  });
  told.length = 0;
  await endWatch(kube, expired);
  kube.put(TENANTS, tenant('a/changed', 'growth'));
  kube.remove(TENANTS, 'a/deleted');
  kube.put(TENANTS, tenant('a/new'));
  kube.compact();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(told.toSorted()).toEqual(['added a/new', 'deleted a/deleted', 'updated a/changed']);
  expect([...reflector.cache.keys()].toSorted()).toEqual(['a/changed', 'a/new', 'a/same']);
  expect(metrics).toEqual(['Tenant expired', 'Tenant relisted']);
  onlyWatch(kube);
});

test('a resumed watch that is refused as expired leads to a new list', async () => {
  const { kube, metrics } = await setup();
  await endWatch(kube, network);
  kube.put(TENANTS, tenant('a/x'));
  kube.compact();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(metrics).toEqual(['Tenant error', 'Tenant expired', 'Tenant relisted']);
  onlyWatch(kube);
});

test('an object re-created between watches is delivered as a deletion and an addition', async () => {
  const { kube, reflector, told } = await setup({}, (kube) => kube.put(TENANTS, tenant('a/x')));
  const uid = reflector.cache.get('a/x')?.metadata.uid;
  told.length = 0;
  await endWatch(kube, expired);
  kube.remove(TENANTS, 'a/x');
  kube.put(TENANTS, tenant('a/x'));
  kube.compact();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(kube.calls.filter((call) => call === 'list tenants')).toHaveLength(2);
  expect(told).toEqual(['deleted a/x', 'added a/x']);
  expect(reflector.cache.get('a/x')?.metadata.uid).not.toBe(uid);
});

test('a watch without events for two minutes is reopened; bookmarks count as events', async () => {
  const { kube, metrics } = await setup();
  const first = onlyWatch(kube);
  for (let minute = 0; minute < 5; minute += 1) {
    await vi.advanceTimersByTimeAsync(60_000);
    first.bookmark();
  }
  expect(onlyWatch(kube)).toBe(first);
  await vi.advanceTimersByTimeAsync(119_999);
  expect(onlyWatch(kube)).toBe(first);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(onlyWatch(kube)).not.toBe(first);
  expect(metrics).toEqual(['Tenant stalled']);
});

test('events of a watch after its end are ignored', async () => {
  const { kube, reflector, end } = await setup();
  const { bookmark } = onlyWatch(kube);
  end.abort();
  await vi.advanceTimersByTimeAsync(1_000);
  bookmark();
  expect(reflector.silentMs()).toBeGreaterThanOrEqual(1_000);
});

test('a failed list is retried with backoff, and the cache is synced once it succeeds', async () => {
  const { kube, reflector } = await setup({}, (kube) => {
    for (let times = 0; times < 40; times += 1) {
      kube.next('list', () => {
        throw network;
      });
    }
  });
  await vi.advanceTimersByTimeAsync(1_600);
  expect(kube.calls).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(reflector.cache.isSynced()).toBe(false);
  // The pauses are random, up to about 15 s: 25 in a minute are practically impossible.
  expect(kube.calls.length).toBeLessThan(25);
  // In steps: a silent watch is restarted after two minutes, and during the backoff before that there is no watch.
  for (let second = 0; second < 1_200 && !reflector.cache.isSynced(); second += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(reflector.cache.isSynced()).toBe(true);
  expect(kube.calls.filter((call) => call === 'list tenants')).toHaveLength(41);
  onlyWatch(kube);
});

test("a list is retried only after the server's Retry-After", async () => {
  const tooMany = new KubeError({
    code: 429,
    reason: 'TooManyRequests',
    message: 'later',
    retryAfterMs: 45_000,
  });
  const { kube, reflector } = await setup({}, (kube) =>
    kube.next('list', () => {
      throw tooMany;
    }),
  );
  await vi.advanceTimersByTimeAsync(44_999);
  expect(kube.calls).toEqual(['list tenants']);
  await vi.advanceTimersByTimeAsync(1);
  expect(reflector.cache.isSynced()).toBe(true);
});

test('watches that end at once are not reopened in a tight loop', async () => {
  const { kube } = await setup();
  for (let second = 0; second < 60; second += 1) {
    for (const watch of kube.watches) watch.end();
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(kube.calls.length).toBeLessThan(15);
});

test('a watch that is always refused as expired does not list in a tight loop', async () => {
  const { kube } = await setup({}, (kube) => {
    for (let times = 0; times < 50; times += 1) {
      kube.next('watch', () => {
        throw expired;
      });
    }
  });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(kube.calls.length).toBeLessThan(25);
});

test('with several namespaces, each has one watch, and the cache syncs when all are listed', async () => {
  const held = Promise.withResolvers<void>();
  const { kube, reflector } = await setup({ namespaces: ['a', 'b'] }, (kube) => {
    for (const key of ['a/x', 'b/x', 'c/x']) kube.put(TENANTS, tenant(key));
    kube.next('list', () => held.promise);
  });
  expect(reflector.cache.isSynced()).toBe(false);
  held.resolve();
  await vi.advanceTimersByTimeAsync(0);
  expect(reflector.cache.isSynced()).toBe(true);
  expect([...reflector.cache.keys()].toSorted()).toEqual(['a/x', 'b/x']);
  expect(
    [...kube.watches].map(({ namespace = '' }) => namespace).toSorted((a, b) => a.localeCompare(b)),
  ).toEqual(['a', 'b']);
  kube.put(TENANTS, tenant('c/y'));
  kube.put(TENANTS, tenant('b/y'));
  expect(reflector.cache.get('b/y')).toBeDefined();
  expect(reflector.cache.get('c/y')).toBeUndefined();
});

test('a server that answers is not silent, however far the wall clock is set forward', async () => {
  const { reflector } = await setup();
  vi.setSystemTime(Date.now() + 3_600_000);
  expect(reflector.silentMs()).toBeLessThan(1_000);
});

const forbidden = new KubeError({ code: 403, reason: 'Forbidden', message: 'no' });

test('a namespace without list permission blocks neither other namespaces nor liveness', async () => {
  const contacts: number[] = [];
  const { kube, reflector } = await setup(
    {
      namespaces: ['gone', 'b'],
      metrics: {
        watchRestarted: () => undefined,
        watchContact: (_kind, at) => contacts.push(at),
        relisted: () => undefined,
      },
    },
    (kube) => {
      kube.put(TENANTS, tenant('b/x'));
      kube.next('list', () => {
        throw forbidden;
      });
    },
  );
  expect(reflector.cache.isSynced()).toBe(true);
  expect(reflector.isWhole()).toBe(false);
  expect([...reflector.cache.keys()]).toEqual(['b/x']);
  const startedAt = Date.now();
  for (let minute = 0; minute < 15; minute += 1) {
    for (let times = 0; times < 20; times += 1) {
      kube.next('list', () => {
        throw forbidden;
      });
    }
    for (const watch of kube.watches) watch.bookmark();
    await vi.advanceTimersByTimeAsync(60_000);
  }
  expect(reflector.silentMs()).toBeLessThan(120_000);
  // The metric tells that one namespace is not seen.
  expect(Math.max(...contacts)).toBeLessThanOrEqual(startedAt / 1_000);
});

test('objects of a namespace stay in the cache when its permission is withdrawn', async () => {
  const { kube, reflector } = await setup({ namespaces: ['a', 'b'] }, (kube) => {
    for (const key of ['a/x', 'b/x']) kube.put(TENANTS, tenant(key));
  });
  for (const watch of kube.watches) if (watch.namespace === 'a') watch.end(expired);
  for (let times = 0; times < 3; times += 1) {
    kube.next('list', () => {
      throw forbidden;
    });
  }
  await vi.advanceTimersByTimeAsync(2_000);
  expect([...reflector.cache.keys()].toSorted()).toEqual(['a/x', 'b/x']);
});

test.each([[[]], [['a']], [['a', 'b']]])(
  'the cache is not synced if no list is permitted in any of %j',
  async (namespaces) => {
    const { reflector } = await setup({ namespaces }, (kube) => {
      for (let times = 0; times < 40; times += 1) {
        kube.next('list', () => {
          throw forbidden;
        });
      }
    });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(reflector.cache.isSynced()).toBe(false);
  },
);

test('a new list of one namespace does not remove objects of the others', async () => {
  const { kube, reflector } = await setup({ namespaces: ['a', 'b'] }, (kube) => {
    for (const key of ['a/x', 'b/x']) kube.put(TENANTS, tenant(key));
  });
  for (const watch of kube.watches) if (watch.namespace === 'a') watch.end(expired);
  await vi.advanceTimersByTimeAsync(0);
  kube.remove(TENANTS, 'a/x');
  await vi.advanceTimersByTimeAsync(2_000);
  expect([...reflector.cache.keys()]).toEqual(['b/x']);
});

test('an index finds objects by their current references', async () => {
  const { kube, reflector } = await setup(
    { indexes: { plan: ({ spec }) => (spec === undefined ? [] : [spec.plan]) } },
    (kube) => kube.put(TENANTS, tenant('a/x', 'free')),
  );
  const of = (plan: string) => reflector.cache.byIndex('plan', plan).map(({ metadata }) => metadata.name);
  kube.put(TENANTS, tenant('a/y', 'free'));
  expect(of('free')).toEqual(['x', 'y']);
  kube.put(TENANTS, tenant('a/x', 'growth'));
  expect([of('free'), of('growth')]).toEqual([['y'], ['x']]);
  kube.remove(TENANTS, 'a/y');
  expect(of('free')).toEqual([]);
  expect(() => reflector.cache.byIndex('slug', 'x')).toThrow(RangeError);
});

test('a subscriber that throws affects neither the watch nor other subscribers', async () => {
  const { kube, reflector, told } = await setup();
  const late: string[] = [];
  reflector.cache.subscribe(() => {
    throw new Error('no');
  });
  reflector.cache.subscribe(({ key }) => late.push(key));
  kube.put(TENANTS, tenant('a/x'));
  expect(told).toEqual(['added a/x']);
  expect(late).toEqual(['a/x']);
  onlyWatch(kube);
});

test('listed and watched objects lose the metadata that nothing reads', async () => {
  const put = (kube: MemoryKube, key: string) => {
    const annotations = { 'despatch.dev/paused': 'true', note: 'x' };
    const metadata = { ...tenant(key).metadata, managedFields: [{}], labels: { a: 'b' }, annotations };
    kube.put(TENANTS, { metadata });
  };
  const { kube, reflector } = await setup({ annotations: ['despatch.dev/paused'] }, (kube) =>
    put(kube, 'a/x'),
  );
  put(kube, 'a/y');
  for (const key of ['a/x', 'a/y']) {
    const metadata = reflector.cache.get(key)?.metadata;
    expect(Object.keys(metadata ?? {}).toSorted()).toEqual([
      'annotations',
      'name',
      'namespace',
      'resourceVersion',
      'uid',
    ]);
    expect(metadata?.annotations).toEqual({ 'despatch.dev/paused': 'true' });
  }
});

test.each([
  ['during a watch', async () => undefined],
  ['during a pause', async ({ kube }: Setup) => onlyWatch(kube).end(network)],
  [
    'during a list',
    async ({ kube }: Setup) => {
      kube.next(
        'list',
        (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(network))),
      );
      await endWatch(kube, expired);
      await vi.advanceTimersByTimeAsync(2_000);
    },
  ],
])('%s, aborting the signal ends it and leaves no timer, watch or call', async (_when, bring) => {
  const parts = await setup();
  await bring(parts);
  await vi.advanceTimersByTimeAsync(0);
  parts.end.abort();
  await parts.done;
  expect(vi.getTimerCount()).toBe(0);
  expect(parts.kube.watches.size).toBe(0);
  const calls = parts.kube.calls.length;
  await vi.advanceTimersByTimeAsync(100_000);
  expect(parts.kube.calls).toHaveLength(calls);
});
