import { expect, test } from 'vitest';
import { findProvider } from '#providers/registry.ts';
import type { Account } from '../accounts/accounts.ts';
import { expectsReceipts } from './expects-receipts.ts';

const URL = 'https://despatch.example/v1/receipts/a/b';
const ACCEPTED = { kind: 'accepted' } as const;

function accountOf(provider: string, config: object = {}, hasReported = false): Account {
  return { provider: findProvider(provider), config, row: { hasReported } } as unknown as Account;
}

test.each<[what: string, account: Account, isExpected: boolean]>([
  ['gets the URL with each message', accountOf('twilio'), true],
  ['has its URL configured by hand, and has not reported yet', accountOf('sendgrid'), false],
  ['has its URL configured by hand, and has reported', accountOf('sendgrid', {}, true), true],
  [
    'reports for applications only, and the account has none',
    accountOf('vonage', { api: 'messages' }),
    false,
  ],
  [
    'reports for applications only, the account has none, and a report came nevertheless',
    accountOf('vonage', { api: 'messages' }, true),
    true,
  ],
  [
    'reports for applications only, and the account has one',
    accountOf('vonage', { api: 'messages', applicationId: 'a' }),
    true,
  ],
  ['reports without an application by its other API', accountOf('vonage', { api: 'sms' }), true],
  ['sends no receipts', accountOf('smtp'), false],
])('an account of a provider that %s', (_, account, isExpected) => {
  expect(expectsReceipts(account, URL, ACCEPTED)).toBe(isExpected);
  expect(expectsReceipts(account, undefined, ACCEPTED)).toBe(false);
});

test('a simulator reports on the messages that it accepts', () => {
  const account = accountOf('simulator-sms');
  expect(expectsReceipts(account, undefined, ACCEPTED)).toBe(true);
  expect(expectsReceipts(account, undefined, { kind: 'rejected_permanent' })).toBe(false);
});
