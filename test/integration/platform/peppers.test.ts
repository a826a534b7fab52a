import { expect, test } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import { assertPeppers } from '#core/store/schema/assert-peppers.ts';
import { testDatabase } from '#test/support/servers.ts';

const [ONE, OTHER] = [
  secret('one pepper that is long enough to be used'),
  secret('another pepper, long enough'),
];

test('the first processes decide about the peppers, and a process with another one is refused', async () => {
  await using database = await testDatabase();
  const [api, worker] = [database.open('api'), database.open('worker')];
  await Promise.all([
    assertPeppers(api, { key: ONE, receipt: OTHER }),
    assertPeppers(worker, { receipt: OTHER }),
    assertPeppers(api, { key: ONE, receipt: OTHER }),
  ]);
  await expect(assertPeppers(worker, { receipt: ONE })).rejects.toThrow(/used with: receipt$/);
  await expect(assertPeppers(api, { key: OTHER, receipt: ONE })).rejects.toThrow(/used with: key, receipt$/);
  await assertPeppers(api, { key: ONE, receipt: OTHER });
  const kept = await database.open('admin')`select name from despatch.pepper_fingerprints order by name`;
  expect(kept.map(({ name }) => name)).toEqual(['key', 'receipt']);
});

test('a database that does not answer is no reason to refuse a process', async () => {
  await using database = await testDatabase();
  const sql = database.open('worker');
  await sql.end();
  expect(await assertPeppers(sql, { receipt: ONE })).toBe(false);
});
