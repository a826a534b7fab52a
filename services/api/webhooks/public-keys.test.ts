import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { QueueFullError } from '#core/platform/process/micro-batch.ts';
import { createPublicKeys } from './public-keys.ts';

const keys = [{ id: 'k1', publicKey: 'x' }];

function setup() {
  const looks: (readonly string[])[] = [];
  const { find, drop } = createPublicKeys({
    async load(ids) {
      looks.push(ids);
      return new Map([['known', keys]]);
    },
  });
  return { looks, find: (id: string) => find(id as TenantId), drop };
}

test('concurrent lookups share one cached query, and an unknown tenant has no keys', async () => {
  const { looks, find } = setup();
  expect(await Promise.all(['none', 'known', 'known', 'other'].map(find))).toEqual([[], keys, keys, []]);
  expect([await find('known'), await find('none')]).toEqual([keys, []]);
  expect(looks).toEqual([['none', 'known', 'other']]);
});

test('keys that were dropped are looked up again', async () => {
  const { looks, find, drop } = setup();
  await Promise.all([find('known'), find('other')]);
  drop('known');
  await Promise.all([find('known'), find('other')]);
  expect(looks).toEqual([['known', 'other'], ['known']]);
});

test('5,000 lookups of unknown tenants cost 16 queries, and those beyond the queue are refused', async () => {
  const { looks, find } = setup();
  const asked = await Promise.allSettled(Array.from({ length: 5_000 }, () => find(randomUUID())));
  const refused = asked.filter(({ status }) => status === 'rejected');
  expect([looks.length, refused.length]).toEqual([16, 1_000]);
  expect(refused[0]).toMatchObject({ reason: expect.any(QueueFullError) });
  expect(await find('known')).toEqual(keys);
});
