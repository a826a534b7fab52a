import { assert, constantFrom, property, string } from 'fast-check';
import { expect, test } from 'vitest';
import { maskRecipient } from './mask-recipient.ts';

test.each([
  ['sms', '+15551230042', '+***42'],
  ['whatsapp', '+4915112345678', '+***78'],
  ['sms', '12345', '***'],
  ['sms', '123456', '***56'],
  ['email', 'ada@example.com', 'a***@example.com'],
  ['email', 'x@example.com', '***@example.com'],
  ['email', '"a@b"@example.com', '"***@example.com'],
  ['email', 'no address', '***'],
  ['push', 'f0e1d2c3b4a5:APA91b', '***A91b'],
  ['push', 'short', '***'],
  ['push', '123456789', '***'],
  ['push', '1234567890', '***7890'],
] as const)('%s to %s is masked as %s', (channel, to, masked) => {
  expect(maskRecipient(channel, to)).toBe(masked);
});

test('a masked number or token shows at most four characters', () => {
  assert(
    property(constantFrom('sms', 'whatsapp', 'push'), string({ minLength: 1 }), (channel, to) => {
      const told = maskRecipient(channel, to).replace(/^\+?\*\*\*/, '');
      expect(told.length).toBeLessThanOrEqual(4);
      expect(to.length === 0 || told !== to).toBe(true);
    }),
  );
});
