import { expect, test } from 'vitest';
import type { ApiKeyId } from '#core/domain/ids.ts';
import { secret } from '#core/domain/secret.ts';
import { openPostgres } from '#core/platform/postgres/postgres.ts';
import { directoryStore } from '#core/store/directory.ts';
import { seedTenant } from '#test/support/seed.ts';
import { testDatabase } from '#test/support/servers.ts';

function open(url: string) {
  return openPostgres({
    url: secret(url),
    poolMax: 1,
    statementTimeoutMs: 10_000,
    applicationName: 'key-use-test',
  });
}

test('the times of use of many keys are written down at once', async () => {
  await using database = await testDatabase();
  await using admin = open(database.superuserUrl);
  await using api = open(database.apiUrl);
  const keys = [(await seedTenant(admin.sql)).apiKeyId, (await seedTenant(admin.sql)).apiKeyId];
  const used = new Map(keys.map((id, index) => [id as ApiKeyId, new Date(Date.UTC(2030, 0, index + 1))]));

  await directoryStore(api.sql).touchApiKeys(used);

  const rows = await admin.sql<{ id: ApiKeyId; last_used_at: Date }[]>`
    select id, last_used_at from despatch.api_keys where id = any(${keys})`;
  expect(new Map(rows.map((row) => [row.id, row.last_used_at]))).toEqual(used);
});
