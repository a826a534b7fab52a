import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { freePort } from '../servers/ports.ts';
import { readMail, startInbox } from './inbox.ts';

const envelope = { from: 'bounce@acme.example', to: ['ada@example.com'] };

function received(raw: string) {
  return { envelope, raw, user: null, isEncrypted: true, at: 0 };
}

test('a mail is shown with its decoded header, text and html', async () => {
  const raw = [
    'From: =?utf-8?q?Acm=C3=A9?= <hello@acme.example>',
    'To: ada@example.com',
    'Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=',
    'MIME-Version: 1.0',
    'Content-Type: multipart/alternative; boundary=b',
    '',
    '--b',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: quoted-printable',
    '',
    'na=C3=AFve',
    '--b',
    'Content-Type: text/html; charset=utf-8',
    '',
    '<p>na&iuml;ve</p>',
    '--b--',
    '',
  ].join('\r\n');
  expect(await readMail(7, received(raw))).toMatchObject({
    id: 7,
    at: '1970-01-01T00:00:00.000Z',
    from: 'Acmé <hello@acme.example>',
    to: 'ada@example.com',
    subject: 'Grüße',
    text: expect.stringContaining('naïve'),
    html: expect.stringContaining('<p>na&iuml;ve</p>'),
  });
});

test('a mail without a header is shown by its envelope', async () => {
  expect(await readMail(1, received('\r\n'))).toMatchObject({
    from: 'bounce@acme.example',
    to: 'ada@example.com',
    subject: '',
  });
});

test('the page outlives a request for a path that is no URL', async () => {
  const [smtp, web] = [await freePort(), await freePort()];
  await using inbox = await startInbox({ smtp, web });
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect(web, '127.0.0.1', () =>
      socket.end('GET // HTTP/1.1\r\nhost: inbox\r\nconnection: close\r\n\r\n'),
    );
    let text = '';
    socket.on('data', (chunk) => (text += String(chunk)));
    socket.on('close', () => resolve(text)).on('error', reject);
  });
  expect(answer).toMatch(/^HTTP\/1\.1 404 /);
  expect((await fetch(inbox.url)).status).toBe(200);
});
