import { connect } from 'node:net';
import { createTransport } from 'nodemailer';
import { expect, test } from 'vitest';
import { freePort } from '../servers/ports.ts';
import { startInbox, type Inbox } from './inbox.ts';
import { attachmentHeaders, readMail } from './mail.ts';

const envelope = { from: 'bounce@acme.example', to: ['ada@example.com'] };

function received(raw: string) {
  return { envelope, raw, isAnnounced8Bit: false, user: null, isEncrypted: true, at: 0 };
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

test('a request for an invalid path gets 404, and the page is still served', async () => {
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

/** A transparent pixel. */
const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

async function withMail(use: (inbox: Inbox, mailUrl: string) => Promise<void>): Promise<void> {
  const [smtp, web] = [await freePort(), await freePort()];
  await using inbox = await startInbox({ smtp, web });
  await createTransport({ host: '127.0.0.1', port: smtp, tls: { rejectUnauthorized: false } }).sendMail({
    from: 'hello@acme.example',
    to: 'ada@example.com',
    subject: 'Your bill',
    text: 'See the files.',
    html: '<p>Hello <img src="cid:logo@acme"><script>alert(1)</script></p>',
    attachments: [
      { filename: 'Rechnung für Ada (1).pdf', content: Buffer.from('%PDF-1.7 \xff\x00', 'latin1') },
      { filename: 'notes.txt', content: 'Grüße' },
      { filename: 'page.html', content: '<script>alert(1)</script>' },
      { filename: 'logo.gif', content: PIXEL, cid: 'logo@acme' },
    ],
  });
  await expect.poll(() => inbox.arrivals()).toHaveLength(1);
  await use(inbox, `${inbox.url}/mails/1`);
}

test('attachments open unchanged from the page of their mail, and none runs as a page of the inbox', () =>
  withMail(async ({ url }, mailUrl) => {
    const page = await (await fetch(mailUrl)).text();
    const links = [...page.matchAll(/href="(\/mails\/1\/attachments\/\d)">([^<]+)</g)];
    expect(links.map(([, , name]) => name)).toEqual([
      'logo.gif',
      'Rechnung für Ada (1).pdf',
      'notes.txt',
      'page.html',
    ]);
    const files = await Promise.all(
      links.map(async ([, link = '']) => {
        const response = await fetch(url + link);
        expect(response.headers.get('x-content-type-options')).toBe('nosniff');
        expect(response.headers.get('content-security-policy')).toMatch(/^sandbox; default-src 'none'/);
        return {
          type: response.headers.get('content-type'),
          disposition: response.headers.get('content-disposition'),
          content: Buffer.from(await response.arrayBuffer()),
        };
      }),
    );
    const saved = 'application/octet-stream';
    expect(files).toMatchObject([
      { type: 'image/gif', disposition: expect.stringMatching(/^inline; /) as unknown, content: PIXEL },
      {
        type: saved,
        disposition: `attachment; filename="Rechnung f_r Ada _1_.pdf"; filename*=UTF-8''Rechnung%20f%C3%BCr%20Ada%20%281%29.pdf`,
        content: Buffer.from('%PDF-1.7 \xff\x00', 'latin1'),
      },
      {
        type: 'text/plain; charset=utf-8',
        disposition: `inline; filename="notes.txt"; filename*=UTF-8''notes.txt`,
        content: Buffer.from('Grüße'),
      },
      { type: saved, disposition: expect.stringMatching(/^attachment; /) as unknown },
    ]);
    expect((await fetch(`${mailUrl}/attachments/4`)).status).toBe(404);
    expect(await (await fetch(url)).text()).toContain('(4 attachments)');
  }));

test('the HTML of a mail is shown in a sandbox with its own pictures', () =>
  withMail(async (_inbox, mailUrl) => {
    expect(await (await fetch(mailUrl)).text()).toContain('<iframe sandbox="" src="/mails/1/html"');
    const frame = await fetch(`${mailUrl}/html`);
    expect(frame.headers.get('content-security-policy')).toBe(
      "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'",
    );
    expect(await frame.text()).toContain(`<img src="data:image/gif;base64,${PIXEL.toString('base64')}">`);
  }));

test('a hostile file name does not break out of its header', () => {
  const headers = attachmentHeaders({ filename: 'a"; x=\r\nb\ud800', mimeType: 'image/svg+xml', bytes: 1 });
  expect(headers).toEqual({
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="a__ x___b_"; filename*=UTF-8''a%22%3B%20x%3D%0D%0Ab%EF%BF%BD`,
  });
});
