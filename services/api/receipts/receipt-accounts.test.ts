import { expect, test } from 'vitest';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import type { ReceiptAccount } from '#core/store/receipts/receipt-calls.ts';
import { createReceiptAccounts } from './receipt-accounts.ts';

function setup() {
  const looks: string[][] = [];
  const rows = new Map<string, ReceiptAccount>();
  const add = (id: string, tenant: string, receiptVersion = 1): void =>
    void rows.set(id, {
      id: id as ProviderAccountId,
      tenantId: tenant as TenantId,
      provider: 'twilio',
      receiptVersion,
      receiptGraceUntil: null,
    });
  const accounts = createReceiptAccounts({
    async loadReceiptAccounts(ids) {
      looks.push([...ids]);
      if (ids.includes('broken')) throw new Error('the database is away');
      return new Map(rows);
    },
  });
  return { looks, add, rows, accounts };
}

test('concurrent lookups of accounts share one query, and the results are cached', async () => {
  const { looks, add, accounts } = setup();
  add('a', 't');
  const found = await Promise.all(['a', 'b', 'a'].map((id) => accounts.find(id)));
  expect(found.map((account) => account?.id)).toEqual(['a', undefined, 'a']);
  await accounts.find('a');
  await accounts.find('b');
  expect(looks).toEqual([['a', 'b']]);
});

test('a failed lookup is not cached', async () => {
  const { accounts, looks } = setup();
  await expect(accounts.find('broken')).rejects.toThrow('away');
  await expect(accounts.find('broken')).rejects.toThrow('away');
  expect(looks).toHaveLength(2);
});

test.each([
  ['the account itself', { tenantId: 't', id: 'a' }, 2],
  ['its tenant', { tenantId: 't' }, 2],
  ['another account', { tenantId: 't', id: 'b' }, 1],
  ['another tenant', { tenantId: 'u' }, 1],
])('a change notice drops only the cached accounts that it concerns: %s', async (_name, notice, version) => {
  const { add, accounts } = setup();
  add('a', 't');
  await accounts.find('a');
  add('a', 't', 2);
  accounts.drop(notice);
  expect((await accounts.find('a'))?.receiptVersion).toBe(version);
});

test('an account cached as missing is found after a change notice about it', async () => {
  const { add, accounts } = setup();
  expect(await accounts.find('a')).toBeUndefined();
  add('a', 't');
  accounts.drop({ tenantId: 't', id: 'a' });
  expect(await accounts.find('a')).toBeDefined();
});
