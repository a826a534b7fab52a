import { describe, expect, test } from 'vitest';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import type { Reply } from '../stand-in.ts';
import { sesMail } from './ses-mail.ts';
import { ses } from './ses.ts';
import { startAwsStandIn } from './stand-in.ts';

const account = {
  publicConfig: {
    region: 'eu-central-1',
    accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
    from: 'news@acme.example',
    fromName: 'Acme',
    configurationSetName: 'events',
    topicArn: 'arn:aws:sns:eu-central-1:123456789012:mail-events',
  },
  secretConfig: { secretAccessKey: 'canary/secret+key-1' },
};
const message = {
  channel: 'email',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: 'ada@example.com',
  content: {
    from: { name: 'Zoë "Z" Doe', address: 'zoe@acme.example' },
    replyTo: { address: 'help@acme.example' },
    subject: 'Grüße ✓',
    text: 'Hello',
    html: '<p>Hello</p>',
    headers: { 'X-Campaign': 'spring' },
    attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: btoa('file') }],
  },
  expiresAt: Date.now() + 86_400_000,
  attempt: 1,
} as const;

const refusal = (status: number, type: string, text = 'Refused'): Reply => ({
  status,
  headers: { 'x-amzn-errortype': `${type}:` },
  body: { message: text },
});
const permanently = (failureClass: string, code: string) =>
  ({ kind: 'rejected_permanent', failure: { class: failureClass, code } }) as never;
const forNow = (failureClass: string, code: string) =>
  ({ kind: 'rejected_transient', failure: { class: failureClass, code } }) as never;

httpProviderSuite({
  provider: ses,
  startStandIn: startAwsStandIn,
  account,
  otherSettings: {
    region: 'us-east-1',
    accessKeyId: 'AKIAIOSFODNN7OTHERS0',
    from: 'other@acme.example',
    fromName: 'Other',
    configurationSetName: 'other',
    topicArn: 'arn:aws:sns:us-east-1:123456789012:other',
  },
  message,
  sendPath: /^\/v2\/email\/outbound-emails$/,
  verifyPath: /^\/v2\/email\/account$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.headers).toMatchObject({
      'content-type': 'application/json',
      authorization: expect.stringContaining('/eu-central-1/ses/aws4_request') as string,
    });
    expect(JSON.parse(received.body)).toEqual({
      FromEmailAddress: '=?UTF-8?B?Wm/DqyAiWiIgRG9l?= <zoe@acme.example>',
      Destination: { ToAddresses: ['ada@example.com'] },
      ReplyToAddresses: ['help@acme.example'],
      Content: {
        Simple: {
          Subject: { Data: 'Grüße ✓', Charset: 'UTF-8' },
          Body: {
            Text: { Data: 'Hello', Charset: 'UTF-8' },
            Html: { Data: '<p>Hello</p>', Charset: 'UTF-8' },
          },
          Headers: [{ Name: 'X-Campaign', Value: 'spring' }],
          Attachments: [
            {
              FileName: 'a.txt',
              ContentType: 'text/plain',
              ContentDisposition: 'ATTACHMENT',
              ContentTransferEncoding: 'BASE64',
              RawContent: btoa('file'),
            },
          ],
        },
      },
      EmailTags: [{ Name: 'despatch_message_id', Value: message.id }],
      ConfigurationSetName: 'events',
    });
  },
  sender: undefined,
  providerMessageId: /^0100017[0-9a-f-]+$/,
  errorBody: (text) => ({ message: text }),
  refusals: [
    {
      reply: refusal(400, 'BadRequestException', "Missing final '@domain'"),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'address_refused',
          providerCode: 'BadRequestException',
          providerMessage: "Missing final '@domain'",
          httpStatus: 400,
        },
      },
    },
    {
      reply: refusal(400, 'BadRequestException'),
      outcome: permanently('content_rejected', 'invalid_parameter'),
    },
    {
      reply: refusal(400, 'MessageRejected', 'Email address is not verified.'),
      outcome: permanently('sender_rejected', 'sender_unverified'),
    },
    { reply: refusal(400, 'MessageRejected'), outcome: permanently('content_rejected', 'blocked') },
    ...['paused', 'suspended'].map((state) => ({
      reply: refusal(400, 'MessageRejected', `Sending ${state} for this account.`),
      outcome: forNow('auth_or_config', 'sending_paused'),
    })),
    {
      reply: refusal(400, 'MailFromDomainNotVerifiedException'),
      outcome: forNow('auth_or_config', 'sender_unverified'),
    },
    {
      reply: refusal(400, 'FromEmailAddressNotVerifiedException'),
      outcome: permanently('sender_rejected', 'sender_unverified'),
    },
    {
      reply: refusal(400, 'AccountSuspendedException'),
      outcome: forNow('auth_or_config', 'account_suspended'),
    },
    { reply: refusal(400, 'SendingPausedException'), outcome: forNow('auth_or_config', 'sending_paused') },
    {
      reply: refusal(404, 'NotFoundException', 'Configuration set <events> does not exist.'),
      outcome: forNow('auth_or_config', 'configuration_set_missing'),
    },
    {
      reply: refusal(400, 'LimitExceededException'),
      outcome: forNow('provider_throttled', 'quota_exceeded'),
    },
    {
      reply: refusal(429, 'TooManyRequestsException'),
      outcome: forNow('provider_throttled', 'rate_limited'),
    },
    { reply: refusal(403, 'AccessDeniedException'), outcome: forNow('auth_or_config', 'forbidden') },
    {
      reply: refusal(403, 'ExpiredTokenException'),
      outcome: forNow('auth_or_config', 'authentication_failed'),
    },
    {
      reply: { status: 413, body: '' },
      outcome: permanently('content_rejected', 'payload_too_large'),
    },
    { reply: refusal(400, 'SomethingNew'), outcome: permanently('unknown', 'http_400') },
  ],
  wrongCredential: refusal(403, 'UnrecognizedClientException'),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.region', 'publicConfig.accessKeyId', 'secretConfig.secretAccessKey'],
    },
    {
      account: {
        publicConfig: {
          ...account.publicConfig,
          from: 'not-a-mail-address',
          fromName: 'Evil\r\nBcc: x@example.com',
        },
        secretConfig: { secretAccessKey: 'has space inside' },
      },
      fields: ['publicConfig.from', 'publicConfig.fromName', 'secretConfig.secretAccessKey'],
    },
  ],
});

describe('ses', () => {
  const mailOf = (content: object, settings: object = {}, to: string = message.to) =>
    sesMail(
      { ...message, to, content: { from: { address: 'news@acme.example' }, subject: '', ...content } },
      settings,
    );

  test.each([
    [{ content: { from: { address: 'jürgen@acme.example' } } }, 'sender_rejected', 'invalid_sender'],
    [{ content: { replyTo: { address: 'jürgen@acme.example' } } }, 'sender_rejected', 'invalid_reply_to'],
    [{ to: 'dån@example.com' }, 'invalid_recipient', 'unsupported_address'],
  ])(
    'an address that SES does not support is rejected with its code, without a call: %j',
    async (part, group, code) => {
      await using http = createHttpClient();
      await using standIn = await startAwsStandIn();
      const credentials = { config: account.publicConfig, secrets: account.secretConfig };
      const mail = {
        ...message,
        ...part,
        content: { ...message.content, ...('content' in part ? part.content : {}) },
      };
      expect(await ses.send(mail, credentials, contextAt(ses, http, standIn.origin))).toEqual({
        kind: 'rejected_permanent',
        failure: { class: group, code },
      });
      expect(standIn.received).toEqual([]);
    },
  );

  const headersLike = (count: number, value = 'a') =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`X-${index}`, value]));

  test.each([
    ['16 headers', headersLike(16), 'too_many_headers', 'Amazon SES takes at most 15 headers'],
    [
      'a header of 997 characters',
      headersLike(1, 'a'.repeat(994)),
      'header_too_long',
      'Amazon SES takes at most 996 characters in a header, its name included',
    ],
    [
      'a header whose encoded words have more than 996 characters',
      headersLike(1, 'é'.repeat(400)),
      'header_too_long',
      'Amazon SES takes at most 996 characters in a header, its name included',
    ],
  ])(
    'a mail with %s is rejected with the reason, without a call',
    async (_, headers, code, providerMessage) => {
      await using http = createHttpClient();
      await using standIn = await startAwsStandIn();
      const credentials = { config: account.publicConfig, secrets: account.secretConfig };
      const mail = { ...message, content: { ...message.content, headers } };
      expect(await ses.send(mail, credentials, contextAt(ses, http, standIn.origin))).toEqual({
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code, providerMessage },
      });
      expect(standIn.received).toEqual([]);
    },
  );

  test('a mail with 15 headers of 996 characters is sent', async () => {
    await using http = createHttpClient();
    await using standIn = await startAwsStandIn();
    const credentials = { config: account.publicConfig, secrets: account.secretConfig };
    const headers = Object.fromEntries(
      Object.keys(headersLike(15)).map((name) => [name, 'a'.repeat(996 - name.length)]),
    );
    const mail = { ...message, content: { ...message.content, headers } };
    expect(await ses.send(mail, credentials, contextAt(ses, http, standIn.origin))).toMatchObject({
      kind: 'accepted',
    });
  });

  test('a mail without content has a text part of one space', () => {
    expect(mailOf({}).Content.Simple.Body).toEqual({ Text: { Data: ' ', Charset: 'UTF-8' } });
    expect(mailOf({ text: '', html: '<p>x</p>' }).Content.Simple.Body).toEqual({
      Html: { Data: '<p>x</p>', Charset: 'UTF-8' },
    });
  });

  test("the account's display name is used only with the account's address", () => {
    const settings = { from: 'news@acme.example', fromName: 'Acme "News" \\' };
    expect(mailOf({}, settings).FromEmailAddress).toBe('"Acme \\"News\\" \\\\" <news@acme.example>');
    expect(mailOf({ from: { address: 'x@acme.example' } }, settings).FromEmailAddress).toBe('x@acme.example');
  });

  test('non-ASCII names, headers and domains are encoded in ASCII and decode to the same text', () => {
    const name = `${'Grüße ✓ 😀 '.repeat(12)}Ende`;
    const mail = mailOf(
      {
        from: { name, address: 'zoe@müller.example' },
        headers: { 'X-Name': 'Zoë', 'X-Sly': '=?UTF-8?Q?=0A?=' },
      },
      {},
      'ada@münchen.example',
    );
    const words = mail.FromEmailAddress.split(' <')[0]?.split(' ') ?? [];
    for (const word of words) expect(word).toMatch(/^=\?UTF-8\?B\?[A-Za-z0-9+/=]{1,62}\?=$/);
    const decoded = words.map((word) => Buffer.from(word.slice(10, -2), 'base64').toString()).join('');
    expect(decoded).toBe(name);
    expect(mail.FromEmailAddress).toMatch(/ <zoe@xn--mller-kva\.example>$/);
    expect(mail.Destination.ToAddresses).toEqual(['ada@xn--mnchen-3ya.example']);
    expect(mail.Content.Simple.Headers).toEqual([
      { Name: 'X-Name', Value: '=?UTF-8?B?Wm/Dqw==?=' },
      { Name: 'X-Sly', Value: `=?UTF-8?B?${btoa('=?UTF-8?Q?=0A?=')}?=` },
    ]);
  });

  test.each([
    [{ SendingEnabled: false, EnforcementStatus: 'HEALTHY' }, 'sending_paused'],
    [{ SendingEnabled: true, EnforcementStatus: 'SHUTDOWN' }, 'account_suspended'],
  ])('the credential check of an account with %j returns invalid', async (body, code) => {
    await using http = createHttpClient();
    await using standIn = await startAwsStandIn();
    standIn.fail({ kind: 'reply', status: 200, body });
    const credentials = { config: account.publicConfig, secrets: account.secretConfig };
    expect(await ses.verify(credentials, contextAt(ses, http, standIn.origin))).toMatchObject({
      kind: 'invalid',
      failure: { class: 'auth_or_config', code },
    });
  });
});
