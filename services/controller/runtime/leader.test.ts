import * as fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { KubeError } from '../kube/kube-error.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createMemoryKube, type MemoryKube } from '#test/support/memory-kube.ts';
import { createElector, type Elector } from './leader.ts';
import { LEASES, type Lease, type LeaseSpec } from './lease.ts';

const KEY = 'system/despatch-controller';
const network = new KubeError({ code: 0, reason: 'Network', message: 'reset' });

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

type Candidate = {
  readonly elector: Elector;
  readonly end: AbortController;
  readonly ended: Promise<'stopped' | 'lost'>;
  /** The values of `leader_election_master_status`, in order. */
  readonly shown: boolean[];
  /** How `run` ended. */
  readonly result: () => string | undefined;
};

function candidate(kube: MemoryKube, name = 'pod-a'): Candidate {
  const shown: boolean[] = [];
  const elector = createElector({
    client: kube.client,
    namespace: 'system',
    leaseName: 'despatch-controller',
    name,
    log: silentLogger,
    onChange: (isLeading) => shown.push(isLeading),
  });
  const end = new AbortController();
  let result: string | undefined;
  const ended = elector.run(end.signal).then((how) => {
    result = how;
    return how;
  });
  return { elector, end, ended, shown, result: () => result };
}

const leaseOf = (kube: MemoryKube): LeaseSpec => (kube.read(LEASES, KEY) as Lease).spec ?? {};
const steal = (kube: MemoryKube, spec: LeaseSpec = {}) =>
  kube.put(LEASES, {
    metadata: { namespace: 'system', name: 'despatch-controller' },
    spec: { holderIdentity: 'thief', leaseDurationSeconds: 15, ...spec },
  } as never);

test('the first candidate leads, and its lease has times in microseconds', async () => {
  const kube = createMemoryKube();
  const { elector, shown } = candidate(kube);
  await elector.elected;
  expect(elector.isLeading()).toBe(true);
  expect(shown).toEqual([true]);
  expect(leaseOf(kube)).toEqual({
    holderIdentity: elector.identity,
    leaseDurationSeconds: 15,
    acquireTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/) as string,
    renewTime: expect.stringMatching(/\.\d{6}Z$/) as string,
    leaseTransitions: 0,
  });
});

test('a process that restarts under the same name has a new identity', () => {
  const kube = createMemoryKube();
  expect(candidate(kube).elector.identity).not.toBe(candidate(kube).elector.identity);
});

test('a leader keeps the lease by renewing it, and the other candidate waits', async () => {
  const kube = createMemoryKube();
  const a = candidate(kube, 'pod-a');
  await a.elector.elected;
  const b = candidate(kube, 'pod-b');
  const acquired = leaseOf(kube).acquireTime;
  await vi.advanceTimersByTimeAsync(120_000);
  expect([a.elector.isLeading(), b.elector.isLeading()]).toEqual([true, false]);
  expect(leaseOf(kube)).toMatchObject({ acquireTime: acquired, leaseTransitions: 0 });
  expect(b.shown).toEqual([]);
});

test('an abandoned lease is acquired after its duration, not before', async () => {
  const kube = createMemoryKube();
  steal(kube, { leaseTransitions: 4 });
  const { elector } = candidate(kube);
  await vi.advanceTimersByTimeAsync(14_900);
  expect(elector.isLeading()).toBe(false);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(elector.isLeading()).toBe(true);
  expect(leaseOf(kube).leaseTransitions).toBe(5);
});

test.each([
  ['years ago', '2001-01-01T00:00:00.000000Z'],
  ['years ahead', '2101-01-01T00:00:00.000000Z'],
])("a lease whose holder's clock is %s is acquired after the same time", async (_what, renewTime) => {
  const kube = createMemoryKube();
  steal(kube, { renewTime });
  const { elector } = candidate(kube);
  await vi.advanceTimersByTimeAsync(14_900);
  expect(elector.isLeading()).toBe(false);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(elector.isLeading()).toBe(true);
});

test('updates of the lease without a renewal do not keep it held', async () => {
  const kube = createMemoryKube();
  steal(kube, { renewTime: 'same' });
  const { elector } = candidate(kube);
  for (let second = 0; second < 18; second += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
    if (!elector.isLeading()) steal(kube, { renewTime: 'same' });
  }
  expect(elector.isLeading()).toBe(true);
});

test('a leader that cannot renew gives up at its deadline, before the lease expires', async () => {
  const kube = createMemoryKube();
  const { elector, result, shown } = candidate(kube);
  await elector.elected;
  for (let times = 0; times < 20; times += 1) {
    kube.next('replace', () => {
      throw network;
    });
  }
  await vi.advanceTimersByTimeAsync(9_999);
  expect(elector.isLeading()).toBe(true);
  expect(result()).toBeUndefined();
  await vi.advanceTimersByTimeAsync(1);
  expect(elector.isLeading()).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(result()).toBe('lost');
  expect(shown).toEqual([true, false]);
});

test('a renewal counts from when it was sent, not from its answer', async () => {
  const kube = createMemoryKube();
  const { elector } = candidate(kube);
  await elector.elected;
  kube.next('replace', async () => {
    const lease = kube.read(LEASES, KEY) as Lease;
    kube.put(LEASES, { ...lease, spec: { ...lease.spec, renewTime: 'written' } } as never);
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    return kube.read(LEASES, KEY);
  });
  await vi.advanceTimersByTimeAsync(5_000);
  for (let times = 0; times < 20; times += 1) {
    kube.next('replace', () => {
      throw network;
    });
  }
  // Sent after two seconds, answered after five.
  await vi.advanceTimersByTimeAsync(6_999);
  expect(elector.isLeading()).toBe(true);
  await vi.advanceTimersByTimeAsync(1);
  expect(elector.isLeading()).toBe(false);
});

test('a leader survives a few failed renewals', async () => {
  const kube = createMemoryKube();
  const { elector, shown } = candidate(kube);
  await elector.elected;
  for (let times = 0; times < 3; times += 1) {
    kube.next('replace', () => {
      throw network;
    });
  }
  await vi.advanceTimersByTimeAsync(60_000);
  expect(elector.isLeading()).toBe(true);
  expect(shown).toEqual([true]);
});

test('a leader whose renewal hangs stops leading at its deadline, and is overdue later', async () => {
  const kube = createMemoryKube();
  const { elector } = candidate(kube);
  await elector.elected;
  // Never answers and ignores its signal.
  kube.next('replace', () => new Promise(() => undefined));
  await vi.advanceTimersByTimeAsync(10_001);
  expect(elector.isLeading()).toBe(false);
  expect(elector.isOverdue()).toBe(false);
  await vi.advanceTimersByTimeAsync(25_000);
  expect(elector.isOverdue()).toBe(true);
});

test('a leader whose lease was taken stops at its next renewal and does not take it back', async () => {
  const kube = createMemoryKube();
  const { elector, result } = candidate(kube);
  await elector.elected;
  steal(kube);
  await vi.advanceTimersByTimeAsync(2_001);
  expect(result()).toBe('lost');
  expect(elector.isLeading()).toBe(false);
  await elector.release();
  expect(leaseOf(kube).holderIdentity).toBe('thief');
});

test('a leader survives a renewal that was written but whose answer was lost', async () => {
  const kube = createMemoryKube();
  const { elector, shown } = candidate(kube);
  await elector.elected;
  kube.next('replace', () => {
    const lease = kube.read(LEASES, KEY) as Lease;
    kube.put(LEASES, { ...lease, spec: { ...lease.spec, renewTime: 'written' } } as never);
    throw network;
  });
  await vi.advanceTimersByTimeAsync(30_000);
  expect(elector.isLeading()).toBe(true);
  expect(shown).toEqual([true]);
});

test('a leader re-creates its deleted lease, unless another holder did so first', async () => {
  const kube = createMemoryKube();
  const { elector, result } = candidate(kube);
  await elector.elected;
  kube.remove(LEASES, KEY);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(leaseOf(kube).holderIdentity).toBe(elector.identity);
  kube.remove(LEASES, KEY);
  steal(kube);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(result()).toBe('lost');
});

test('a released lease is acquired at the next attempt', async () => {
  const kube = createMemoryKube();
  const a = candidate(kube, 'pod-a');
  await a.elector.elected;
  const b = candidate(kube, 'pod-b');
  await vi.advanceTimersByTimeAsync(5_000);
  a.end.abort();
  expect(await a.ended).toBe('stopped');
  expect(a.elector.isLeading()).toBe(false);
  await a.elector.release();
  expect(leaseOf(kube)).toMatchObject({ holderIdentity: '', leaseDurationSeconds: 1 });
  await vi.advanceTimersByTimeAsync(2_500);
  expect(b.elector.isLeading()).toBe(true);
});

test('a renewal that was aborted after its write does not prevent the release', async () => {
  const kube = createMemoryKube();
  const { elector, end, ended } = candidate(kube);
  await elector.elected;
  const written = Promise.withResolvers<void>();
  kube.next('replace', async (signal) => {
    const lease = kube.read(LEASES, KEY) as Lease;
    kube.put(LEASES, { ...lease, spec: { ...lease.spec, renewTime: 'written' } } as never);
    written.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    throw network;
  });
  await vi.advanceTimersByTimeAsync(2_001);
  await written.promise;
  end.abort();
  await ended;
  await elector.release();
  expect(leaseOf(kube).holderIdentity).toBe('');
});

test('a candidate stops when its signal is aborted, and leaves no timer', async () => {
  const kube = createMemoryKube();
  steal(kube);
  const { elector, end, ended, shown } = candidate(kube);
  await vi.advanceTimersByTimeAsync(3_000);
  end.abort();
  expect(await ended).toBe('stopped');
  expect(vi.getTimerCount()).toBe(0);
  expect([elector.isLeading(), shown]).toEqual([false, []]);
});

type Fault = {
  readonly op: 'get' | 'replace' | 'create';
  readonly kind: 'lost' | 'lost answer' | 'slow';
  /** Number of successful calls of this kind before it. */
  readonly after: number;
  readonly ms: number;
};

test('property: two processes never lead at once, whatever requests are lost or delayed', async () => {
  const fault = fc.record<Fault>({
    op: fc.constantFrom('get', 'replace', 'create'),
    kind: fc.constantFrom('lost', 'lost answer', 'slow'),
    after: fc.integer({ min: 0, max: 3 }),
    ms: fc.integer({ min: 1, max: 20_000 }),
  });
  // Drops all renewals of the first leader, so that the lease changes hands in every run.
  const silenced: readonly Fault[] = Array.from({ length: 5 }, () => ({
    op: 'replace',
    kind: 'lost',
    after: 0,
    ms: 0,
  }));
  const runs = 25;
  let handovers = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(fault, { minLength: 5, maxLength: 40 }), async (faults) => {
      const kube = createMemoryKube();
      const client = faulty(kube, [...silenced, ...faults]);
      const both = ['pod-a', 'pod-b'].map((name) => candidate({ ...kube, client }, name));
      let last: boolean[] = [];
      for (let tick = 0; tick < 600; tick += 1) {
        await vi.advanceTimersByTimeAsync(200);
        const leading = both.map(({ elector }) => elector.isLeading());
        expect(leading).not.toEqual([true, true]);
        if (leading.includes(true) && String(leading) !== String(last)) handovers += 1;
        if (leading.includes(true)) last = leading;
      }
      for (const { end } of both) end.abort();
      await vi.advanceTimersByTimeAsync(30_000);
    }),
    { numRuns: runs },
  );
  // If the lease never changed hands, the test would prove nothing.
  expect(handovers).toBeGreaterThanOrEqual(2 * runs);
});

/** A client that loses some calls before or after they are executed, or delays them. */
function faulty({ client }: MemoryKube, faults: readonly Fault[]): MemoryKube['client'] {
  const left = [...faults];
  let passed = 0;
  const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
  const meddle = async (
    op: Fault['op'],
    deadlineMs: number,
    act: () => Promise<unknown>,
  ): Promise<unknown> => {
    const isDue = left[0]?.op === op && left[0].after <= passed++;
    const fault = isDue ? left.shift() : undefined;
    if (isDue) passed = 0;
    if (fault === undefined) return act();
    if (fault.kind === 'lost') throw network;
    if (fault.kind === 'lost answer') {
      await act();
      throw network;
    }
    // The request may arrive after its sender gave up on it.
    const late = wait(fault.ms).then(act);
    late.catch(() => undefined);
    return Promise.race([
      late,
      wait(deadlineMs).then(() => {
        throw network;
      }),
    ]);
  };
  return {
    ...client,
    get: (resource, ref, call) =>
      meddle('get', call.deadlineMs ?? 0, () => client.get(resource, ref, unbound(call))) as never,
    create: (resource, draft, call) =>
      meddle('create', call.deadlineMs ?? 0, () => client.create(resource, draft, unbound(call))) as never,
    replace: (resource, object, call) =>
      meddle('replace', call.deadlineMs ?? 0, () => client.replace(resource, object, unbound(call))) as never,
  };
}

/** A request that was sent cannot be aborted. */
function unbound<T extends { readonly signal: AbortSignal }>(call: T): T {
  return { ...call, signal: new AbortController().signal };
}
