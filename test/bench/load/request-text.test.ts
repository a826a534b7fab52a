import { expect, test } from 'vitest';
import { messageNumber, requestTexts } from './request-text.ts';

test('a prepared request says its true length and carries its number', () => {
  const text = requestTexts(['key'], true).of(123_456_789, 0);
  const [head = '', body = ''] = text.split('\r\n\r\n');
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
  expect(head).toMatch(/idempotency-key: [0-9a-f-]{36}/);
  const { body: content } = JSON.parse(body) as { body: string };
  expect(messageNumber(new URLSearchParams({ To: '+15550000001', Body: content }).toString())).toBe(
    123_456_789,
  );
});

test('what carries no number is told apart', () => {
  expect(messageNumber('Body=hello')).toBeUndefined();
});
