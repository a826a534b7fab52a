import { describe, expect, test } from 'vitest';
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

test('an attachment of 200,000 padding characters is refused within a second of CPU time', () => {
  const before = process.cpuUsage();
  expect(mailWith(`${'='.repeat(200_000)}x`).success).toBe(false);
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
});

test('attachments may hold 10 MiB of decoded content and not a byte more', () => {
  const full = 10 * 1024 * 1024;
  expect(mailWith(Buffer.alloc(full).toString('base64')).success).toBe(true);
  expect(mailWith(Buffer.alloc(full + 1).toString('base64')).success).toBe(false);
});

/** Returns the faults of a message as `field rule`. */
function faultsOf(message: object): string[] {
  const { error } = SendMessage.safeParse(message);
  return (error?.issues ?? []).map((issue) => {
    const rule = issue.code === 'custom' ? String(issue.params?.['rule']) : issue.code;
    return `${issue.path.join('.')} ${rule}`;
  });
}

describe('fields that every provider would refuse have faults', () => {
  const to = '+15550000001';

  test.each([
    ['Acme', []],
    ['+15550000002', []],
    ['TwelveLetter', ['from sender']],
    ['Acme!', ['from sender']],
  ])('an sms from %s', (from, faults) => {
    expect(faultsOf({ channel: 'sms', to, body: 'Hello', from })).toEqual(faults);
  });

  test.each([
    [{ orderId: '1' }, []],
    [{ text: 'x'.repeat(4_096) }, ['data max']],
    [{ from: 'me' }, ['data reserved']],
    [{ aps: {} }, ['data reserved']],
  ])('a push with data %j', (data, faults) => {
    expect(faultsOf({ channel: 'push', to: 'token', data })).toEqual(faults);
  });

  const url = 'https://cdn.example.com/a';
  test.each([
    [{ url: `${url}.png`, caption: 'Look' }, []],
    [{ url: `${url}.pdf`, caption: 'Look', filename: 'bill.pdf' }, []],
    [{ url: `${url}.ogg`, caption: 'Look' }, ['media.caption unsupported']],
    [{ url, type: 'sticker', caption: 'Look' }, ['media.caption unsupported']],
    [{ url: `${url}.png`, filename: 'a.png' }, ['media.filename unsupported']],
    [{ url: 'ftp://cdn.example.com/a' }, ['media.url url']],
    [{ url: 'http://127.0.0.1/a.png' }, ['media.url url_blocked']],
  ])('whatsapp media %j', (media, faults) => {
    expect(faultsOf({ channel: 'whatsapp', to, media })).toEqual(faults);
  });

  test.each([
    [{ header: { type: 'text', text: 'Ada' } }, []],
    [{ header: { type: 'document', url, filename: 'bill.pdf' }, buttons: [{ type: 'url', text: '1' }] }, []],
    [{ header: { type: 'location', latitude: 91, longitude: 0 } }, ['template.header.latitude too_big']],
    [{ header: { type: 'image', url: 'http://localhost/a' } }, ['template.header.url url_blocked']],
    [{ buttons: [{ type: 'call', text: '1' }] }, ['template.buttons.0.type invalid_union']],
    [
      {
        buttons: [
          { type: 'url', index: 1, text: '1' },
          { type: 'quick_reply', payload: 'x' },
        ],
      },
      ['template.buttons unique'],
    ],
  ])('a whatsapp template with %j', (parts, faults) => {
    const template = { name: 'order', language: 'en_US', ...parts };
    expect(faultsOf({ channel: 'whatsapp', to, template })).toEqual(faults);
  });
});

describe('mail headers', () => {
  const mailWith = (headers: Record<string, string>) => ({
    channel: 'email',
    to: 'a@example.com',
    from: 'b@example.com',
    subject: 'Hello',
    headers,
  });
  const withHeaders = (headers: Record<string, string>) => faultsOf(mailWith(headers));

  test.each([
    'List-Archive',
    'List-Help',
    'List-Id',
    'List-Owner',
    'List-Post',
    'List-Subscribe',
    'List-Unsubscribe',
    'List-Unsubscribe-Post',
    'In-Reply-To',
    'References',
    'Importance',
    'Precedence',
    'Auto-Submitted',
    'Feedback-ID',
    'X-Campaign',
  ])('%s, which the description allows, is accepted in any case', (name) => {
    expect(withHeaders({ [name]: 'value', [name.toLowerCase()]: 'value' })).toEqual([]);
  });

  test.each(['List-', 'List-Other', 'Bcc', 'X-SMTPAPI'])('%s is refused', (name) => {
    expect(withHeaders({ [name]: 'value' })).toEqual([`headers.${name} header`]);
  });

  test.each([
    'X-SMTPAPI',
    'x-sg-eid',
    'X-Mailgun-Tag',
    'X-MC-Tags',
    'X-PM-Tag',
    'X-SES-A',
    'X-MSYS-API',
    'X-Mailjet-A',
  ])('%s is refused, because providers read it as a command, and the fault says so', (name) => {
    const parsed = SendMessage.safeParse(mailWith({ [name]: 'value' }));
    expect(parsed.error?.issues.map(({ message }) => message)).toEqual([
      'Must not be a header that providers read as a command',
    ]);
  });
});

test('a header of an email is one line, or null', () => {
  const mail = {
    channel: 'email',
    to: 'ada@example.com',
    from: 'a@example.com',
    subject: 'Hello',
    text: 'Hi',
  };
  const faults = (value: string | null) => faultsOf({ ...mail, headers: { 'X-Order': value } });
  expect(faults('7')).toEqual([]);
  expect(faults(null)).toEqual([]);
  for (const value of ['7\r\nBcc: b@example.org', '7\nBcc: b@example.org', '7\r']) {
    expect(faults(value)).toHaveLength(1);
  }
});
