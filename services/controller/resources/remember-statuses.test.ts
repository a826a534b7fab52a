import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import type { KubeObject } from '../kube/kube-object.ts';
import { createResourceCache } from '../runtime/resource-cache.ts';
import { rememberStatuses } from './remember-statuses.ts';

type Thing = KubeObject & { readonly status?: { readonly n: number } };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const { signal } = new AbortController();
const thing = (resourceVersion: string, n: number, uid = 'u'): Thing => ({
  metadata: { name: 'x', namespace: 'a', uid, resourceVersion },
  status: { n },
});

/** A cache with one object, version 1 and status 1, and writes that become the given versions. */
function setup(...versions: (string | undefined)[]) {
  const { cache, put, remove } = createResourceCache<Thing>({ kind: 'Thing', log: silentLogger });
  const statuses = rememberStatuses<Thing, { n: number }>(cache, {
    applyStatus: async () => versions.shift(),
  });
  put(thing('1', 1));
  return {
    put,
    remove,
    write: (n: number) => statuses.applyStatus(thing('1', 1), { n }, signal),
    seen: () => statuses.get('a/x')?.status?.n,
  };
}

test('a written status is seen until the watch has reported it, and then what the watch reports', async () => {
  const { put, write, seen } = setup('3');
  await write(2);
  expect(seen()).toBe(2);
  put(thing('2', 1));
  expect(seen()).toBe(2);
  put(thing('3', 2));
  put(thing('4', 9));
  expect(seen()).toBe(9);
});

test('of two writes the later one is seen', async () => {
  const { put, write, seen } = setup('2', '3');
  await write(2);
  await write(3);
  put(thing('2', 2));
  expect(seen()).toBe(3);
});

test('a write that the watch had reported before its answer came, or that changed nothing, is not remembered', async () => {
  const { put, write, seen } = setup('1');
  await write(2);
  expect(seen()).toBe(1);
  put(thing('5', 5));
  expect(seen()).toBe(5);
});

test('a write to an object that is gone is not remembered', async () => {
  const { write, seen } = setup(undefined);
  await write(2);
  expect(seen()).toBe(1);
});

test('an object that was made anew does not have the status of the one before', async () => {
  const { put, remove, write, seen } = setup('3');
  await write(2);
  put(thing('4', 4, 'another'));
  expect(seen()).toBe(4);
  remove(thing('5', 4, 'another'));
  expect(seen()).toBeUndefined();
});

test('a version that no watch has reported for a minute is not waited for', async () => {
  const { write, seen } = setup('3');
  await write(2);
  vi.advanceTimersByTime(59_999);
  expect(seen()).toBe(2);
  vi.advanceTimersByTime(1);
  expect(seen()).toBe(1);
});
