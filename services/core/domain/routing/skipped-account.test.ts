import { expect, test } from 'vitest';
import { skippedBecause, type ClosedReason } from './skipped-account.ts';

const ACCOUNTS = [
  { id: 'fine', channel: 'sms', status: 'active' },
  { id: 'shut', channel: 'sms', status: 'active' },
  { id: 'bad', channel: 'sms', status: 'invalid' },
  { id: 'mail', channel: 'email', status: 'active' },
];
const closed = new Map<string, ClosedReason>([
  ['shut', 'rate_used_up'],
  ['bad', 'breaker_open'],
  ['gone', 'breaker_open'],
]);

test.each([
  ['can be called', 'fine', undefined],
  ['cannot be called now', 'shut', 'rate_used_up'],
  ['has a refused credential, which is why its breaker is open', 'bad', 'invalid'],
  ['serves another channel', 'mail', 'disabled'],
  ['is disabled or deleted', 'gone', 'disabled'],
])('an account that %s is skipped for the right reason, if at all', (_, step, reason) => {
  expect(skippedBecause(step, 'sms', ACCOUNTS, closed)).toBe(reason);
});
