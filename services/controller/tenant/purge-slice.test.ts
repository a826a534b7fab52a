import { expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { PurgeOutcome } from '#core/store/tenants/managed-tenants.ts';
import { createPurges } from './purge-slice.ts';
import type { TenantDeps } from './tenant-deps.ts';

/** Purges whose slices end when the test says so. */
function setup() {
  let at = 0;
  const open = new Map<string, (outcome: PurgeOutcome) => void>();
  const store = {
    purgeSome: ({ slug }: { slug: string }) =>
      new Promise((resolve) => {
        open.set(slug, (outcome) => resolve({ outcome, deleted: 1, id: slug as TenantId }));
      }),
    endPurge: async () => true,
  } as unknown as TenantDeps['store'];
  const told: string[] = [];
  const keys = {
    destroy: async (id: string) => void told.push(`key ${id}`),
  } as unknown as TenantDeps['keys'];
  const purges = createPurges({
    store,
    keys,
    notify: (id) => void told.push(`notice ${id}`),
    monotonicMs: () => at,
  });
  return {
    told,
    ask: (slug: string) => purges.slice({ slug, uid: slug }, () => undefined),
    end: (slug: string, outcome: PurgeOutcome) => open.get(slug)?.(outcome),
    pass: (ms: number) => void (at += ms),
  };
}

test('one purge runs at a time, and waiting tenants take turns', async () => {
  const { ask, end, pass, told } = setup();
  const first = ask('a');
  expect([await ask('b'), await ask('c')]).toEqual(['waiting', 'waiting']);
  pass(6_000);
  end('a', 'deleted');
  expect(await first).toBe('deleting');
  expect(await ask('a')).toBe('waiting');
  const second = ask('b');
  end('b', 'empty');
  expect(await second).toBe('done');
  expect(await ask('a')).toBe('waiting');
  const third = ask('c');
  end('c', 'absent');
  expect(await third).toBe('absent');
  const fourth = ask('a');
  end('a', 'draining');
  expect(await fourth).toBe('draining');
  expect(told).toEqual(['key b', 'notice b']);
});

test('a failed slice ends its turn', async () => {
  const { slice } = createPurges({
    store: { purgeSome: () => Promise.reject(new Error('away')) } as unknown as TenantDeps['store'],
    keys: {} as TenantDeps['keys'],
    notify: () => undefined,
    monotonicMs: () => 0,
  });
  for (const slug of ['a', 'b', 'a'])
    await expect(slice({ slug, uid: slug }, () => undefined)).rejects.toThrow('away');
});
