import { expect, test } from 'vitest';
import { slowGrowth } from '#test/support/slow-growth.ts';
import { composeMail } from './mail.ts';

const message = { channel: 'email', id: 'm', to: 'a@b.example', expiresAt: 0, attempt: 1 } as const;

test('an attached mail takes about as long to compose with the longest lines that it may have as with short ones', async () => {
  const compose = (lineLength: number) => () => {
    const text = `${'a'.repeat(lineLength)}\n`.repeat(400_000 / (lineLength + 1));
    const attachments = [{ filename: 'a.eml', contentType: 'message/rfc822', content: btoa(text) }];
    const content = { from: { address: 'a@b.example' }, subject: 'a', text: 'a', attachments };
    return composeMail({ ...message, content }, { host: 'mail.example', port: 587, oauthTenant: 'common' });
  };
  expect(await slowGrowth(compose(70), compose(998), 5)).toBeUndefined();
});

test.each<[name: string, value: string, sent: string]>([
  ['List-Unsubscribe', '<https://acme.example/u?t=ab=?c>', '<https://acme.example/u?t=ab=?c>'],
  [
    'List-Unsubscribe',
    '<mailto:leave@acme.example?subject=Tschüss>, <https://acme.example/ü>',
    '<mailto:leave@acme.example?subject=Tsch%C3%BCss>, <https://acme.example/%C3%BC>',
  ],
  ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click', 'List-Unsubscribe=One-Click'],
  ['List-ID', 'Grüße <news.acme.example>', '=?UTF-8?Q?Gr=C3=BC=C3=9Fe?= <news.acme.example>'],
  ['List-Post', 'NO (nur lesen – bitte)', '=?UTF-8?Q?NO_=28nur_lesen_=E2=80=93_bitte=29?='],
  ['In-Reply-To', '<a=?b@acme.example>', '<a=?b@acme.example>'],
  ['References', '<a=?b@acme.example> <c@acme.example>', '<a=?b@acme.example> <c@acme.example>'],
  ['X-Note', '=?utf-8?Q?a?=', '=?UTF-8?Q?=3D=3Futf-8=3FQ=3Fa=3F=3D?='],
])('the header %s with %s is sent as %s', async (name, value, sent) => {
  const content = { from: { address: 'a@b.example' }, subject: 'a', text: 'a', headers: { [name]: value } };
  const { raw } = await composeMail(
    { ...message, content },
    { host: 'mail.example', port: 587, oauthTenant: 'common' },
  );
  const [head = ''] = raw.toString().replaceAll('\r\n ', ' ').split('\r\n\r\n');
  expect(head.split('\r\n')).toContain(`${name}: ${sent}`);
});

test('a header with a URL that is too long for a line once it is in ASCII has no overlong line', async () => {
  const headers = { 'List-Unsubscribe': `<https://acme.example/${'退'.repeat(150)}>` };
  const content = { from: { address: 'a@b.example' }, subject: 'a', text: 'a', headers };
  const { raw } = await composeMail(
    { ...message, content },
    { host: 'mail.example', port: 587, oauthTenant: 'common' },
  );
  expect(
    Math.max(
      ...raw
        .toString()
        .split('\r\n')
        .map((line) => Buffer.byteLength(line)),
    ),
  ).toBeLessThanOrEqual(998);
});
