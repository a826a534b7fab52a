import { expect, test } from 'vitest';
import type { CallerFacts } from '#core/store/tenants/directory.ts';
import { createCallerLookup } from './caller-lookup.ts';

function setup() {
  const looks: (readonly string[])[] = [];
  const known = { key: { mode: 'live' } } as CallerFacts;
  const findCaller = createCallerLookup({
    async findCallers(keyIds) {
      looks.push(keyIds);
      if (keyIds.includes('broken')) throw new Error('the database is away');
      return new Map([['known', known]]);
    },
  });
  return { looks, known, findCaller };
}

test('concurrent lookups share one query, and each key gets its own result', async () => {
  const { looks, known, findCaller } = setup();
  expect(await Promise.all(['none', 'known', 'other'].map(findCaller))).toEqual([null, known, null]);
  expect(looks).toEqual([['none', 'known', 'other']]);
});

test('a failed query rejects all lookups in it, and the next lookup succeeds', async () => {
  const { known, findCaller } = setup();
  const failed = await Promise.allSettled([findCaller('broken'), findCaller('known')]);
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await findCaller('known')).toBe(known);
});
