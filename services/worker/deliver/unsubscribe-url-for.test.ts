import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import { readUnsubscribeToken, unsubscribeKey } from '#core/domain/recipient/unsubscribe-token.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import { toOutbound } from './to-outbound.ts';
import { unsubscribeUrlFor } from './unsubscribe-url-for.ts';

const unsubscribe = unsubscribeKey(secret('a pepper of the tests that is long enough'));
const settings = { publicBaseUrl: 'https://api.example.com', unsubscribeKey: unsubscribe };
const content = { from: { address: 'shop@example.com' }, subject: 'Sale', text: 'Now' };

function mail(fields: Partial<ClaimedMessage> = {}): ClaimedMessage {
  return {
    id: randomUUID(),
    tenantId: randomUUID(),
    channel: 'email',
    address: 'ann@example.com',
    marketing: true,
    test: false,
    sender: null,
    attempt: 1,
    waitsSince: new Date(Date.UTC(2026, 10, 20)),
    expiresAt: new Date(Date.UTC(2026, 10, 21)),
    content,
    ...fields,
  } as ClaimedMessage;
}

test('a marketing mail has List-Unsubscribe headers, with the same URL at each attempt', () => {
  const message = mail();
  const url = unsubscribeUrlFor(message, settings) ?? '';
  expect(unsubscribeUrlFor({ ...message, attempt: 2 }, settings)).toBe(url);
  expect(readUnsubscribeToken(unsubscribe, url.split('/').at(-1) ?? '')).toEqual({
    tenantId: message.tenantId,
    messageId: message.id,
    address: 'ann@example.com',
    issuedAt: Date.UTC(2026, 10, 20),
  });
  const sent = toOutbound(message, content, { receiptUrl: undefined, unsubscribeUrl: url });
  expect(sent.content).toEqual({
    ...content,
    headers: { 'List-Unsubscribe': `<${url}>`, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' },
  });
});

test.each([
  ['a mail of another category', mail({ marketing: false }), settings],
  ['one of another channel', mail({ channel: 'sms' }), settings],
  ['a test message', mail({ test: true }), settings],
  ['a mail where the service has no public URL', mail(), undefined],
  [
    'a mail where the public URL is not https',
    mail(),
    { ...settings, publicBaseUrl: 'http://api.example.com' },
  ],
])('no unsubscribe URL is added to %s', (_which, message, known) => {
  const unsubscribeUrl = unsubscribeUrlFor(message, known);
  expect(unsubscribeUrl).toBeUndefined();
  expect(toOutbound(message, content, { receiptUrl: undefined, unsubscribeUrl }).content).toBe(content);
});
