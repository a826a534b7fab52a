import { expect, test } from 'vitest';
import type { ProviderAccountId } from '#core/domain/storage/ids.ts';
import { createCountedAccounts } from './counted-accounts.ts';

const calls = (account: string, count = 1, bytes = 10) =>
  Array.from({ length: count }, () => ({
    accountId: account as ProviderAccountId,
    body: Buffer.alloc(bytes),
  }));

function setup() {
  let ms = 0;
  const accounts = createCountedAccounts({
    monotonicMs: () => ms,
    callsMax: 4,
    bytesMax: 1_000,
    everyMs: 1_000,
  });
  return { accounts, pass: (by: number) => (ms += by) };
}

test('an account is counted on its first call, and once per batch', () => {
  const { accounts } = setup();
  expect(accounts.due([...calls('a', 2), ...calls('b')])).toEqual(['a', 'b']);
  expect(accounts.due(calls('a'))).toEqual([]);
});

test('an account is counted again after callsMax calls, independently of others', () => {
  const { accounts } = setup();
  accounts.due([...calls('a', 4), ...calls('b')]);
  expect(accounts.due([...calls('a'), ...calls('b')])).toEqual(['a']);
});

test('an account is counted again after bytesMax bytes', () => {
  const { accounts } = setup();
  accounts.due(calls('a', 1, 600));
  expect(accounts.due(calls('a', 1, 400))).toEqual([]);
  expect(accounts.due(calls('a', 1, 1))).toEqual(['a']);
});

test('an account is counted again after everyMs, to include calls stored by other processes', () => {
  const { accounts, pass } = setup();
  accounts.due(calls('a'));
  pass(999);
  expect(accounts.due(calls('a'))).toEqual([]);
  pass(1);
  expect(accounts.due(calls('a'))).toEqual(['a']);
});
