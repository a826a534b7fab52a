import { expect, test } from 'vitest';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { directoryStore } from '#core/store/tenants/directory.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { seedTenant } from '#test/support/seed.ts';
import { testDatabase } from '#test/support/servers.ts';

test('the last uses of several keys are stored in one call', async () => {
  await using database = await testDatabase();
  const admin = database.open('admin', 1);
  const api = database.open('api', 1);
  const keys = [(await seedTenant(admin)).apiKeyId, (await seedTenant(admin)).apiKeyId];
  const used = new Map(keys.map((id, index) => [id as ApiKeyId, new Date(Date.UTC(2024, 0, index + 1))]));

  await directoryStore(api).touchApiKeys(used);

  expect(await usesOf(admin, keys)).toEqual(used);
});

test('a key in constant use is written at most once a minute, and an older use does not overwrite a newer one', async () => {
  await using database = await testDatabase();
  const admin = database.open('admin', 1);
  const { touchApiKeys } = directoryStore(database.open('api', 1));
  const id = (await seedTenant(admin)).apiKeyId as ApiKeyId;
  const at = (second: number) => new Map([[id, new Date(Date.UTC(2024, 0, 1, 0, 0, second))]]);
  for (let second = 0; second <= 150; second += 5) await touchApiKeys(at(second));
  expect(await usesOf(admin, [id])).toEqual(at(130));
  await touchApiKeys(at(10));
  expect(await usesOf(admin, [id])).toEqual(at(130));
});

test('an api whose clock is ahead stores no use in the future, which would hide later ones', async () => {
  await using database = await testDatabase();
  const admin = database.open('admin', 1);
  const { touchApiKeys } = directoryStore(database.open('api', 1));
  const id = (await seedTenant(admin)).apiKeyId as ApiKeyId;
  const begun = Date.now();
  await touchApiKeys(new Map([[id, new Date(Date.now() + 86_400_000)]]));
  const used = (await usesOf(admin, [id])).get(id);
  expect(used?.getTime()).toBeGreaterThanOrEqual(begun);
  expect(used?.getTime()).toBeLessThanOrEqual(Date.now());
});

async function usesOf(admin: Sql, keys: readonly string[]): Promise<Map<ApiKeyId, Date>> {
  const rows = await admin<{ id: ApiKeyId; at: Date }[]>`
    select api_key_id as id, last_used_at as at from despatch.api_key_uses where api_key_id = any(${[...keys]})`;
  return new Map(rows.map(({ id, at }) => [id, at]));
}
