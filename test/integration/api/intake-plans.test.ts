import { expect, test } from 'vitest';
import type { ProviderAccountId } from '#core/domain/storage/ids.ts';
import { storeReceiptCalls } from '#core/store/receipts/receipt-calls.ts';
import { rowsRead } from '#test/support/rows-read.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { testDatabase } from '#test/support/servers.ts';

/** So few that a planner may read them all rather than look one of them up. */
const TENANTS = 40;

test.each(['messages', 'receipts'])('taking in %s reads no rows of other tenants', async (what) => {
  await using database = await testDatabase();
  const admin = database.open('admin');
  const tenant = await seedTenant(admin);
  const accountId = (await seedAccount(admin, tenant.tenantId)) as ProviderAccountId;
  for (let i = 1; i < TENANTS; i++) await seedAccount(admin, (await seedTenant(admin)).tenantId);
  await admin`analyze despatch.tenants, despatch.provider_accounts`;
  const call = {
    accountId,
    method: 'POST',
    receiptVersion: 1,
    query: '',
    headers: {},
    body: Buffer.from('x'),
  } as const;
  const connection = await database.open('api').reserve();
  const takeIn = async (): Promise<void> =>
    void (await (what === 'messages'
      ? acceptBatch(connection, [acceptRow(tenant)])
      : storeReceiptCalls(connection, [call])));
  try {
    await takeIn();
    expect(await rowsRead(connection, takeIn)).toBeLessThan(TENANTS / 2);
  } finally {
    connection.release();
  }
});
