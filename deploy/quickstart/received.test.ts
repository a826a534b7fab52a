import { expect, test } from 'vitest';
import type { Received } from '#providers/stand-in.ts';
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
    message: { token: 'device', notification: { title: 'A', body: 'B' }, data: { c: 'd' } },
  });
  expect(readFcm(request('/v1/projects/acme/messages:send', body))).toMatchObject({
    to: 'device',
    from: 'acme',
    text: 'A · B · {"c":"d"}',
  });
});

test('a WhatsApp text shows its body, a template its parts', () => {
  const path = '/v23.0/123/messages';
  const text = JSON.stringify({ to: '+1', type: 'text', text: { body: 'Hi' } });
  const template = JSON.stringify({ to: '+1', type: 'template', template: { name: 'welcome' } });
  expect(readWhatsapp(request(path, text))).toMatchObject({ to: '+1', from: '123', text: 'Hi' });
  expect(readWhatsapp(request(path, template))).toMatchObject({ text: '{"name":"welcome"}' });
});

test.each([
  ['a credential check at Twilio', readTwilio, request('/2010-04-01/Accounts/AC1.json', '', 'GET')],
  ['a token request', readFcm, request('/token', 'grant_type=x')],
  ['a validation at FCM', readFcm, request('/v1/projects/acme/messages:send', '{"validate_only":true}')],
  ['a credential check at WhatsApp', readWhatsapp, request('/v23.0/123?fields=id', '', 'GET')],
])('%s is no message', (_name, read, received) => {
  expect(read(received)).toBeUndefined();
});

test.each(['', 'null', '[]', '{"message":7}', 'no json'])('a body of %j does no harm', (body) => {
  expect(readFcm(request('/v1/projects/acme/messages:send', body))).toMatchObject({ to: '', text: '' });
  expect(readWhatsapp(request('/v23.0/123/messages', body))).toMatchObject({ to: '', text: '' });
});
