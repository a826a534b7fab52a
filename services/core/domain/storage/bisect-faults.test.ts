import { expect, test } from 'vitest';
import { bisectFaults } from './bisect-faults.ts';

const refusal = Object.assign(new Error('no'), { name: 'PostgresError', code: '22P05' });
const away = Object.assign(new Error('away'), { name: 'PostgresError', code: '57P01' });

/** Creates a database that rejects some items, and is unavailable after `callsMax` calls. */
function setup(refused: readonly string[], callsMax = Number.POSITIVE_INFINITY) {
  const batches: string[] = [];
  const store = (items: readonly string[]): Promise<string[]> => {
    batches.push(items.join(''));
    if (batches.length > callsMax) return Promise.reject(away);
    if (items.some((one) => refused.includes(one))) return Promise.reject(refusal);
    return Promise.resolve(items.map((one) => `${one} stored`));
  };
  const fail = (items: readonly string[], error: unknown): string[] =>
    items.map((one) => `${one} ${(error as Error).message}`);
  return { batches, run: (items: string) => bisectFaults(items.split(''), store, fail) };
}

test('a batch without a refused item costs one call', async () => {
  const { batches, run } = setup([]);
  expect(await run('abcd')).toEqual(['a stored', 'b stored', 'c stored', 'd stored']);
  expect(batches).toEqual(['abcd']);
});

test('a refused item fails alone, and the results keep their order', async () => {
  const { batches, run } = setup(['c']);
  expect(await run('abcde')).toEqual(['a stored', 'b stored', 'c no', 'd stored', 'e stored']);
  expect(batches).toEqual(['abcde', 'abc', 'ab', 'c', 'de']);
});

test('a lost database fails the rest without a retry, and stored items keep their results', async () => {
  const { batches, run } = setup(['b'], 2);
  expect(await run('abcd')).toEqual(['a away', 'b away', 'c away', 'd away']);
  expect(batches).toEqual(['abcd', 'ab', 'a', 'b', 'cd']);
  const later = setup(['d'], 2);
  expect(await later.run('abcd')).toEqual(['a stored', 'b stored', 'c away', 'd away']);
});

test('an error while failing one half does not keep the other half from being stored', async () => {
  const stored: string[] = [];
  const store = async (items: readonly string[]): Promise<readonly string[]> => {
    if (items.includes('a')) throw refusal;
    stored.push(...items);
    return items;
  };
  const fail = (): never => {
    throw away;
  };
  await expect(bisectFaults(['a', 'b', 'c', 'd'], store, fail)).rejects.toBe(away);
  expect(stored).toEqual(['b', 'c', 'd']);
});
