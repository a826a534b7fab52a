import { expect, test } from 'vitest';
import { chooseAccount } from './choose-account.ts';

const ACCOUNTS = [
  { id: 'mail', channel: 'email' },
  { id: 'old', channel: 'sms' },
  { id: 'new', channel: 'sms' },
];

test.each([
  ['the oldest of the channel', 'sms', null, 'old'],
  ['the only one of the channel', 'email', null, 'mail'],
  ['none of another channel', 'push', null, undefined],
  ['the one that was named, however young', 'sms', 'new', 'new'],
  ['none where the one that was named serves another channel', 'sms', 'mail', undefined],
  ['none where the one that was named is not there', 'sms', 'gone', undefined],
])('%s', (_name, channel, pinned, id) => {
  expect(chooseAccount(ACCOUNTS, { channel, pinned })?.id).toBe(id);
});
