import { expect, test } from 'vitest';
import { normalRecipient } from './normal-recipient.ts';

test.each([
  ['sms', '+4402079460000', '+442079460000'],
  ['whatsapp', '+4402079460000', '+442079460000'],
  ['sms', 'ann@example.com', undefined],
  ['email', 'Ann@Example.com', 'Ann@example.com'],
  ['email', '+442079460000', undefined],
  ['push', ' token\n', 'token'],
  ['push', ' ', undefined],
] as const)('the normal form for %s of %j is %j', (channel, text, normal) => {
  expect(normalRecipient(channel, text)).toBe(normal);
});
