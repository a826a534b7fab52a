import { describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { countApiKeys } from '#core/store/tenants/api-keys.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { listAttempts, listEvents } from '#core/store/messages/message-history.ts';
import { findMessage, findMessageKey, type MessageKey } from '#core/store/messages/messages.ts';
import { findRetried } from '#core/store/messages/retries.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { rowsTouched } from '#test/support/rows-read.ts';
import { acceptBatch, acceptRow, seedTenant, type TestRow } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

const PAGE = { before: undefined, most: 51 };

type Read = (tenantId: TenantId, tx: TransactionSql, row: TestRow) => Promise<unknown>;
const addressOf = ({ id, seq, purge_on: purgeOn }: TestRow) => ({ id, seq, purgeOn });
const keyOf = ({ id, seq, purge_on }: TestRow) => ({ id, seq, purge_on }) as MessageKey;

const READS: Record<string, Read> = {
  'its record': (tenantId, tx, row) => findMessage(tenantId, tx, addressOf(row)),
  'its key': (tenantId, tx, row) => findMessageKey(tenantId, tx, addressOf(row)),
  'its attempts': (tenantId, tx, row) => listAttempts(tenantId, tx, keyOf(row), PAGE),
  'its events': (tenantId, tx, row) => listEvents(tenantId, tx, keyOf(row), PAGE),
  'its content for a retry': (tenantId, tx, row) => findRetried(tenantId, tx, addressOf(row)),
};

describe('a read of one message locks only the partitions of its week', () => {
  test.each(Object.entries(READS))('%s', async (_, read) => {
    await using b = await setupStores();
    const tenant = await seedTenant(b.admin);
    const row = acceptRow(tenant);
    await acceptBatch(b.api, [row]);
    const tenantId = tenant.tenantId as TenantId;
    // The planner locks every partition that it does not leave out.
    const weeks = await withTenant(b.api, tenantId, async (tx) => {
      await read(tenantId, tx, row);
      const locked = await tx<{ week: string }[]>`
        select distinct right(c.relname, 8) as week from pg_locks l join pg_class c on c.oid = l.relation
        where l.pid = pg_backend_pid() and c.relispartition and c.relkind = 'r'`;
      return locked.map(({ week }) => week);
    });
    expect(weeks).toEqual([row.purge_on.replaceAll('-', '')]);
  });
});

test('counting the keys that can be used reads no revoked or expired ones', async () => {
  await using b = await setupStores();
  const { tenantId } = await seedTenant(b.admin);
  await b.admin`
    insert into despatch.api_keys (id, tenant_id, key_id, name, mode, scopes, secret_hash, revoked_at, expires_at)
    select gen_random_uuid(), ${tenantId}, gen_random_uuid()::text, 'Old', 'live', '{messages:send}', '',
      case when n % 2 = 0 then now() end, case when n % 2 = 1 then now() end
    from generate_series(1, 4000) n`;
  await b.admin`analyze despatch.api_keys`;
  const counted = await withTenant(b.api, tenantId as TenantId, async (tx) => {
    const before = await rowsTouched(tx);
    const keys = await countApiKeys(tenantId as TenantId, tx);
    return { keys, rows: (await rowsTouched(tx)) - before };
  });
  expect(counted).toEqual({ keys: 1, rows: expect.toSatisfy((n: number) => n < 20) });
});
