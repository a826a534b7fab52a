import { describe, expect, test } from 'vitest';
import { causeOfRefusal } from '#core/domain/recipient/suppression-cause.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { POSTMARK_CODES } from './outcomes.ts';
import postmark from './provider.ts';
import { startPostmarkStandIn } from './stand-in.ts';

const account = {
  publicConfig: { from: 'news@acme.example', fromName: 'Acme', replyTo: 'team@acme.example' },
  secretConfig: { serverToken: 'canary-0f3b2a34-server-token' },
};
const message = {
  channel: 'email',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: 'ada@example.com',
  content: {
    from: { name: 'Zoë "Z" Doe, jr.', address: 'zoe@acme.example' },
    replyTo: { name: 'Help', address: 'help@acme.example' },
    subject: 'Grüße ✓',
    text: 'Hello',
    html: '<p>Hello</p>',
    headers: { 'X-Campaign': 'spring', 'List-Unsubscribe': '<https://acme.example/u/1>' },
    attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: btoa('file') }],
  },
  expiresAt: Date.now() + 86_400_000,
  attempt: 1,
} as const;

const refusal = (status: number, ErrorCode: number, Message: string) => ({
  status,
  body: { ErrorCode, Message },
});
const refused = (
  status: number,
  code: number,
  text: string,
  kind: 'rejected_permanent' | 'rejected_transient',
  failure: object,
) => ({
  reply: refusal(status, code, text),
  outcome: { kind, failure: { ...failure, providerCode: String(code), httpStatus: status } } as never,
});

httpProviderSuite({
  provider: postmark,
  startStandIn: startPostmarkStandIn,
  account,
  otherSettings: {
    from: 'other@acme.example',
    fromName: 'Other',
    replyTo: 'else@acme.example',
    messageStream: 'broadcast',
  },
  message,
  sendPath: /^\/email$/,
  verifyPath: /^\/server$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.headers).toMatchObject({
      'x-postmark-server-token': 'canary-0f3b2a34-server-token',
      'content-type': 'application/json',
      accept: 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      From: '"Zoë \\"Z\\" Doe, jr." <zoe@acme.example>',
      To: 'ada@example.com',
      ReplyTo: '"Help" <help@acme.example>',
      Subject: 'Grüße ✓',
      TextBody: 'Hello',
      HtmlBody: '<p>Hello</p>',
      Headers: [
        { Name: 'X-Campaign', Value: 'spring' },
        { Name: 'List-Unsubscribe', Value: '<https://acme.example/u/1>' },
      ],
      Attachments: [{ Name: 'a.txt', Content: btoa('file'), ContentType: 'text/plain' }],
      Metadata: { despatch_message_id: message.id },
      MessageStream: 'outbound',
    });
  },
  sender: undefined,
  providerMessageId: /^[0-9a-f-]{36}$/,
  errorBody: (text) => ({ ErrorCode: 300, Message: text }),
  refusals: [
    refused(
      422,
      406,
      "You tried to send to recipients that are inactive: 'ada@example.com'.",
      'rejected_permanent',
      {
        class: 'recipient_unavailable',
        code: 'recipient_inactive',
        providerMessage: "You tried to send to recipients that are inactive: '[redacted]'.",
      },
    ),
    refused(422, 300, "Error parsing 'To': Illegal email domain.", 'rejected_permanent', {
      class: 'invalid_recipient',
      code: 'invalid_address',
    }),
    refused(422, 300, "Invalid 'From' address: 'x'.", 'rejected_permanent', {
      class: 'sender_rejected',
      code: 'invalid_sender',
    }),
    refused(422, 300, "Invalid 'ReplyTo' address: 'x'.", 'rejected_permanent', {
      class: 'sender_rejected',
      code: 'invalid_reply_to',
    }),
    refused(422, 300, 'Provide either email TextBody or HtmlBody or both.', 'rejected_permanent', {
      class: 'content_rejected',
      code: 'invalid_content',
    }),
    refused(422, 411, 'Forbidden attachment type.', 'rejected_permanent', {
      class: 'content_rejected',
      code: 'invalid_attachment',
    }),
    refused(422, 400, "The 'From' address is not a Sender Signature.", 'rejected_permanent', {
      class: 'sender_rejected',
      code: 'sender_unverified',
    }),
    refused(422, 405, 'You ran out of credits.', 'rejected_transient', {
      class: 'auth_or_config',
      code: 'insufficient_credit',
    }),
    refused(422, 413, 'This account may not send.', 'rejected_transient', {
      class: 'auth_or_config',
      code: 'account_suspended',
    }),
    refused(
      422,
      1221,
      "The 'MessageStreamType' associated with this request was invalid.",
      'rejected_transient',
      {
        class: 'auth_or_config',
        code: 'invalid_message_stream',
      },
    ),
    refused(422, 1235, 'The stream does not exist on this server.', 'rejected_transient', {
      class: 'auth_or_config',
      code: 'invalid_message_stream',
    }),
    refused(422, 1236, "Sending is not supported on the supplied 'MessageStream'.", 'rejected_transient', {
      class: 'auth_or_config',
      code: 'invalid_message_stream',
    }),
    refused(401, 10, 'Bad or missing server token.', 'rejected_transient', {
      class: 'auth_or_config',
      code: 'authentication_failed',
    }),
    refused(429, 429, 'Too many requests.', 'rejected_transient', {
      class: 'provider_throttled',
      code: 'rate_limited',
    }),
    refused(503, 100, 'Down for maintenance.', 'rejected_transient', {
      class: 'provider_unavailable',
      code: 'maintenance',
    }),
    refused(200, 406, 'Inactive.', 'rejected_permanent', {
      class: 'recipient_unavailable',
      code: 'recipient_inactive',
    }),
    {
      reply: { status: 413, body: '' },
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'payload_too_large' },
      },
    },
  ],
  wrongCredential: refusal(401, 10, 'Bad or missing server token.'),
  invalidAccounts: [
    { account: { publicConfig: {}, secretConfig: {} }, fields: ['secretConfig.serverToken'] },
    {
      account: {
        publicConfig: {
          from: 'not-a-mail-address',
          fromName: 'Evil\r\nBcc: x@example.com',
          replyTo: 'neither',
          messageStream: 'a stream',
        },
        secretConfig: { serverToken: 'canary\r\nx-injected: 1' },
      },
      fields: [
        'publicConfig.from',
        'publicConfig.fromName',
        'publicConfig.replyTo',
        'publicConfig.messageStream',
        'secretConfig.serverToken',
      ],
    },
  ],
});

describe('postmark', () => {
  const sentBody = async (content: object, config: object = {}) => {
    await using http = createHttpClient();
    await using standIn = await startPostmarkStandIn();
    const full = {
      ...message,
      content: { from: { address: 'news@acme.example' }, subject: 's', ...content },
    };
    const credentials = { config: { messageStream: 'outbound', ...config }, secrets: { serverToken: 'x' } };
    const outcome = await postmark.send(full, credentials, contextAt(postmark, http, standIn.origin));
    expect(outcome).toMatchObject({ kind: 'accepted' });
    return JSON.parse(standIn.received[0]?.body ?? '') as Record<string, unknown>;
  };

  test('a mail without content has the text part that the API requires', async () => {
    expect(await sentBody({})).toMatchObject({ TextBody: ' ' });
    expect(await sentBody({ html: '<p>x</p>' })).not.toHaveProperty('TextBody');
  });

  test("the account's name and reply address are used if the mail has none", async () => {
    const config = { from: 'news@acme.example', fromName: 'Acme', replyTo: 'team@acme.example' };
    expect(await sentBody({}, config)).toMatchObject({
      From: '"Acme" <news@acme.example>',
      ReplyTo: 'team@acme.example',
    });
    expect(await sentBody({ from: { address: 'x@acme.example' } }, config)).toMatchObject({
      From: 'x@acme.example',
    });
    expect(await sentBody({})).not.toHaveProperty('ReplyTo');
  });

  test('the domains of sender and reply address are sent in ASCII', async () => {
    const from = { name: 'Müller', address: 'news@münchen.example' };
    expect(await sentBody({ from, replyTo: { address: 'help@münchen.example' } })).toMatchObject({
      From: '"Müller" <news@xn--mnchen-3ya.example>',
      ReplyTo: 'help@xn--mnchen-3ya.example',
    });
  });

  test('a recipient that Postmark does not support is rejected without a call and not suppressed', async () => {
    await using http = createHttpClient();
    await using standIn = await startPostmarkStandIn();
    const credentials = { config: { messageStream: 'outbound' }, secrets: { serverToken: 'x' } };
    const mail = { ...message, to: 'dån@example.com' };
    const outcome = await postmark.send(mail, credentials, contextAt(postmark, http, standIn.origin));
    expect(outcome).toEqual({
      kind: 'rejected_permanent',
      failure: { class: 'invalid_recipient', code: 'unsupported_address' },
    });
    expect(standIn.received).toEqual([]);
    expect(causeOfRefusal(outcome)).toBeNull();
  });

  test("a mail is sent through the account's message stream", async () => {
    expect(await sentBody({}, { messageStream: 'broadcast' })).toMatchObject({ MessageStream: 'broadcast' });
  });

  test.each([
    ['an id is missing', { ErrorCode: 0, Message: 'OK' }],
    ['a code is missing', { MessageID: 'x' }],
  ])('an answer in which %s is ambiguous', async (_, body) => {
    await using http = createHttpClient();
    await using standIn = await startPostmarkStandIn();
    standIn.fail({ kind: 'reply', status: 200, body });
    const credentials = { config: { messageStream: 'outbound' }, secrets: { serverToken: 'x' } };
    const context = contextAt(postmark, http, standIn.origin);
    expect(await postmark.send(message, credentials, context)).toMatchObject({ kind: 'ambiguous' });
  });

  test.each([
    ["Invalid 'From' address: 'recipient-care@acme'.", 'invalid_sender'],
    ["Invalid 'ReplyTo' address: 'recipient@acme'.", 'invalid_reply_to'],
  ])('a faulty sender address does not suppress the recipient: %s', async (text, code) => {
    await using http = createHttpClient();
    await using standIn = await startPostmarkStandIn();
    standIn.fail({ kind: 'reply', ...refusal(422, 300, text) });
    const credentials = { config: { messageStream: 'outbound' }, secrets: { serverToken: 'x' } };
    const outcome = await postmark.send(message, credentials, contextAt(postmark, http, standIn.origin));
    expect(outcome).toMatchObject({ failure: { class: 'sender_rejected', code } });
    expect(causeOfRefusal(outcome)).toBeNull();
  });

  test.each(['10', '405', '412', '413'])('code %s is auth_or_config and retried', (code) => {
    expect(POSTMARK_CODES[code]).toMatchObject({ class: 'auth_or_config', retry: true });
  });
});
