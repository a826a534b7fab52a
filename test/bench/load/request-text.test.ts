import { expect, test } from 'vitest';
import { messageNumber, requestTexts } from './request-text.ts';

test('a prepared request has the right content-length, an idempotency key and its number', () => {
  const text = requestTexts(['key'], true).of(123_456_789, 0);
  const [head = '', body = ''] = text.split('\r\n\r\n');
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
  expect(head).toMatch(/idempotency-key: [0-9a-f-]{36}/);
  const { body: content } = JSON.parse(body) as { body: string };
  expect(messageNumber(new URLSearchParams({ To: '+15550000001', Body: content }).toString())).toBe(
    123_456_789,
  );
});

test('all batches have the same length, and each message in one has its own number', () => {
  const texts = requestTexts(['key'], false, 3);
  const [head = '', body = ''] = texts.of(1_234, 0).split('\r\n\r\n');
  expect(head).toContain('POST /v1/messages/batch ');
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
  expect(texts.of(0, 0)).toHaveLength(texts.of(1_234, 0).length);
  const { mode, messages } = JSON.parse(body) as { mode: string; messages: { body: string }[] };
  expect(mode).toBe('strict');
  expect(messages.map((one) => messageNumber(`Body=${one.body}`))).toEqual([3_702, 3_703, 3_704]);
});

test('a body without a number gives undefined', () => {
  expect(messageNumber('Body=hello')).toBeUndefined();
});
