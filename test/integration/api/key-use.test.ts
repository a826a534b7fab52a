import { expect, test } from 'vitest';
import type { ApiKeyId } from '#core/domain/ids.ts';
import { directoryStore } from '#core/store/directory.ts';
import { seedTenant } from '#test/support/seed.ts';
import { testDatabase } from '#test/support/servers.ts';

test('the times of use of many keys are written down at once', async () => {
  await using database = await testDatabase();
  const admin = database.open('admin', 1);
  const api = database.open('api', 1);
  const keys = [(await seedTenant(admin)).apiKeyId, (await seedTenant(admin)).apiKeyId];
  const used = new Map(keys.map((id, index) => [id as ApiKeyId, new Date(Date.UTC(2030, 0, index + 1))]));

  await directoryStore(api).touchApiKeys(used);

  const rows = await admin<{ id: ApiKeyId; last_used_at: Date }[]>`
    select id, last_used_at from despatch.api_keys where id = any(${keys})`;
  expect(new Map(rows.map((row) => [row.id, row.last_used_at]))).toEqual(used);
});
