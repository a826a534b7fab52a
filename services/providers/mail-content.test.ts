import { expect, test } from 'vitest';
import type { EmailContent } from '#core/domain/message/content.ts';
import { hiddenInMail, textsOf } from './mail-content.ts';

const mail = (over: Partial<EmailContent>) => ({
  channel: 'email' as const,
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: 'ada@example.com',
  content: { from: { address: 'news@acme.example' }, subject: 'Your order', ...over },
  expiresAt: 0,
  attempt: 1,
});

test.each([
  [{}, { text: ' ' }],
  [{ text: '' }, { text: ' ' }],
  [{ text: '', html: '' }, { text: ' ' }],
  [{ text: 'a' }, { text: 'a' }],
  [{ text: '', html: 'b' }, { html: 'b' }],
  [
    { text: 'a', html: 'b' },
    { text: 'a', html: 'b' },
  ],
])('the text parts of %j are sent as %j', (given, sent) => {
  expect(textsOf(mail(given).content)).toEqual(sent);
});

test("a mail's recipient, receipt URL and texts are redacted, except very short or long ones", () => {
  const attachments = [{ filename: 'payslip.pdf', contentType: 'application/pdf', content: '' }];
  const message = mail({ text: 'PIN', html: 'x'.repeat(5_000), attachments });
  expect(hiddenInMail({ ...message, receiptUrl: 'https://hooks.example/t' })).toEqual([
    'ada@example.com',
    'https://hooks.example/t',
    'Your order',
    'payslip.pdf',
  ]);
});
