import { expect, test } from 'vitest';
import { SendMessage } from './send-message-schema.ts';

function mailWith(content: string) {
  const attachments = [{ filename: 'a.txt', contentType: 'text/plain', content }];
  return SendMessage.safeParse({
    channel: 'email',
    to: 'ada@example.com',
    from: 'acme@example.com',
    subject: 'Hello',
    attachments,
  });
}

test('an attachment made to be slow to read is refused in time that grows no faster than its size', () => {
  const started = performance.now();
  expect(mailWith(`${'='.repeat(200_000)}x`).success).toBe(false);
  expect(performance.now() - started).toBeLessThan(1_000);
});

test('attachments hold 256 KiB, padding not counted, and not a byte more', () => {
  const full = 256 * 1024;
  expect(mailWith(Buffer.alloc(full).toString('base64')).success).toBe(true);
  expect(mailWith(Buffer.alloc(full + 1).toString('base64')).success).toBe(false);
});
