import { expect, test } from 'vitest';
import type { WhatsappContent } from '#core/domain/message/content.ts';
import type { Received } from '#providers/stand-in.ts';
import { whatsappPayload } from '#providers/whatsapp-cloud/payload.ts';
import { readFcm, readTwilio, readWhatsapp } from './received.ts';

function request(path: string, body: string, method = 'POST'): Received {
  return { method, path, headers: {}, body, at: 1_000 };
}

test('a form posted to Twilio is an sms', () => {
  const body = new URLSearchParams({ To: '+14155550100', From: 'Acme', Body: 'Hi & bye' }).toString();
  expect(readTwilio(request('/2010-04-01/Accounts/AC1/Messages.json', body))).toEqual({
    at: 1_000,
    to: '+14155550100',
    from: 'Acme',
    text: 'Hi & bye',
  });
});

test('an FCM message shows its title, text and data', () => {
  const body = JSON.stringify({
    message: {
      token: 'device',
      notification: { title: 'A', body: 'B' },
      data: { c: 'd' },
      android: { priority: 'high' },
    },
  });
  expect(readFcm(request('/v1/projects/acme/messages:send', body))).toMatchObject({
    to: 'device',
    from: 'acme',
    text: 'A\nB',
    facts: [
      ['data c', 'd'],
      ['android', '{"priority":"high"}'],
    ],
  });
});

test('a WhatsApp text shows its body, a template its parts, media its link, caption and file name', () => {
  const read = (content: WhatsappContent) =>
    readWhatsapp(
      request(
        '/v23.0/123/messages?appsecret_proof=0a',
        JSON.stringify({ to: '+1', ...whatsappPayload(content) }),
      ),
    );
  expect(read({ kind: 'text', body: 'Hi\nthere' })).toMatchObject({
    to: '+1',
    from: '123',
    text: 'Hi\nthere',
  });
  expect(
    read({
      kind: 'template',
      name: 'order',
      language: 'en_US',
      variables: ['4711', 'Monday'],
      header: { type: 'document', url: 'https://a.example/bill', filename: 'bill.pdf' },
      buttons: [{ type: 'url', text: 'track/4711' }],
    }),
  ).toMatchObject({
    text: 'Template order (en_US)',
    facts: [
      ['header', 'https://a.example/bill'],
      ['body 1', '4711'],
      ['body 2', 'Monday'],
      ['button url 0', 'track/4711'],
    ],
  });
  expect(
    read({ kind: 'template', name: 'order', language: 'de', variables: { day: 'Montag' } }),
  ).toMatchObject({ text: 'Template order (de)', facts: [['body day', 'Montag']] });
  expect(
    read({
      kind: 'media',
      type: 'document',
      url: 'https://a.example/bill',
      caption: 'Your bill',
      filename: 'bill.pdf',
    }),
  ).toMatchObject({
    text: 'Your bill',
    facts: [
      ['document', 'https://a.example/bill'],
      ['file name', 'bill.pdf'],
    ],
  });
});

test.each([
  ['a credential check at Twilio', readTwilio, request('/2010-04-01/Accounts/AC1.json', '', 'GET')],
  ['a token request', readFcm, request('/token', 'grant_type=x')],
  ['a validation at FCM', readFcm, request('/v1/projects/acme/messages:send', '{"validate_only":true}')],
  ['a credential check at WhatsApp', readWhatsapp, request('/v23.0/123?fields=id', '', 'GET')],
])('%s is no message', (_name, read, received) => {
  expect(read(received)).toBeUndefined();
});

test.each(['', 'null', '[]', '{"message":7}', 'no json'])(
  'a body of %j is read as an empty message',
  (body) => {
    expect(readFcm(request('/v1/projects/acme/messages:send', body))).toMatchObject({ to: '', text: '' });
    expect(readWhatsapp(request('/v23.0/123/messages', body))).toMatchObject({ to: '', text: '' });
  },
);
