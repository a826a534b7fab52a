import { describe, expect, test } from 'vitest';
import { causeOfRefusal } from '#core/domain/recipient/suppression-cause.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { createProviderContexts } from '#providers/context.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { SENDGRID_FIELDS } from './outcomes.ts';
import sendgrid from './provider.ts';
import { startSendgridStandIn } from './stand-in.ts';

const account = {
  publicConfig: { from: 'news@acme.example', fromName: 'Acme' },
  secretConfig: { apiKey: 'SG.canary-key-1.canary-key-2' },
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

const NOW = Date.UTC(2026, 10, 22, 12);
const TOO_MANY = JSON.stringify({ errors: [{ field: null, message: 'too many requests' }] });
const refusal = (status: number, field: string | null, text: string) => ({
  status,
  body: { errors: [{ message: text, field, help: null }] },
});

httpProviderSuite({
  provider: sendgrid,
  startStandIn: startSendgridStandIn,
  account,
  otherSettings: {
    region: 'eu',
    from: 'other@acme.example',
    fromName: 'Other',
    webhookPublicKey:
      'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEDr2LjtURuePQzplybdC+u4CwrqDqBaWjcMMsTbhdbcwHBcepxo7yAQGhHPTnlvFYPAZFceEu/1FwCM/QmGUhA==',
  },
  message,
  sendPath: /^\/v3\/mail\/send$/,
  verifyPath: /^\/v3\/scopes$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.headers).toMatchObject({
      authorization: 'Bearer SG.canary-key-1.canary-key-2',
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      personalizations: [
        { to: [{ email: 'ada@example.com' }], custom_args: { despatch_message_id: message.id } },
      ],
      from: { email: 'zoe@acme.example', name: 'Zoë "Z" Doe' },
      reply_to: { email: 'help@acme.example' },
      subject: 'Grüße ✓',
      content: [
        { type: 'text/plain', value: 'Hello' },
        { type: 'text/html', value: '<p>Hello</p>' },
      ],
      headers: { 'X-Campaign': 'spring' },
      attachments: [
        { content: btoa('file'), filename: 'a.txt', type: 'text/plain', disposition: 'attachment' },
      ],
    });
  },
  sender: undefined,
  providerMessageId: /^[\w-]{22}$/,
  errorBody: (text) => ({ errors: [{ message: text, field: null, help: null }] }),
  refusals: [
    {
      reply: refusal(400, 'personalizations.0.to.0.email', 'Does not contain a valid address.'),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'invalid_address',
          providerCode: 'personalizations.to.email',
          providerMessage: 'Does not contain a valid address.',
          httpStatus: 400,
        },
      },
    },
    {
      reply: refusal(400, 'from.email', 'The from email does not contain a valid address.'),
      outcome: { kind: 'rejected_permanent', failure: { class: 'sender_rejected', code: 'invalid_sender' } },
    },
    {
      reply: refusal(400, 'attachments.0.content', 'The attachment content must be base64 encoded.'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_attachment' },
      },
    },
    {
      reply: refusal(400, null, 'Bad Request'),
      outcome: { kind: 'rejected_permanent', failure: { class: 'unknown', code: 'http_400' } },
    },
    {
      reply: { status: 413, body: '' },
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'payload_too_large' },
      },
    },
    {
      reply: refusal(401, null, 'The provided authorization grant is invalid, expired, or revoked'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'authentication_failed' },
      },
    },
    {
      reply: refusal(401, null, 'Maximum credits exceeded'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'insufficient_credit' },
      },
    },
    {
      reply: refusal(403, 'from', 'The from address does not match a verified Sender Identity.'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'sender_unverified' },
      },
    },
    {
      reply: refusal(403, null, 'access forbidden'),
      outcome: { kind: 'rejected_transient', failure: { class: 'auth_or_config', code: 'forbidden' } },
    },
  ],
  wrongCredential: refusal(401, null, 'authorization required'),
  invalidAccounts: [
    { account: { publicConfig: {}, secretConfig: {} }, fields: ['secretConfig.apiKey'] },
    {
      account: {
        publicConfig: { from: 'not-a-mail-address', fromName: 'Evil\r\nBcc: x@example.com', region: 'moon' },
        secretConfig: { apiKey: 'canary\r\nx-injected: 1' },
      },
      fields: ['publicConfig.from', 'publicConfig.fromName', 'publicConfig.region', 'secretConfig.apiKey'],
    },
    {
      account: { publicConfig: { webhookPublicKey: 'bm8ga2V5' }, secretConfig: { apiKey: 'SG.x' } },
      fields: ['publicConfig.webhookPublicKey'],
    },
  ],
});

describe('sendgrid', () => {
  const sentBody = async (content: object, config: object = {}) => {
    await using http = createHttpClient();
    await using standIn = await startSendgridStandIn();
    const full = { ...message, content: { from: { address: 'news@acme.example' }, subject: '', ...content } };
    const credentials = { config: { region: 'global' as const, ...config }, secrets: { apiKey: 'SG.x' } };
    const outcome = await sendgrid.send(full, credentials, contextAt(sendgrid, http, standIn.origin));
    expect(outcome).toMatchObject({ kind: 'accepted' });
    return JSON.parse(standIn.received[0]?.body ?? '') as Record<string, unknown>;
  };

  test('a mail without content has the text part that the API requires', async () => {
    expect(await sentBody({})).toMatchObject({ content: [{ type: 'text/plain', value: ' ' }] });
  });

  test("an attachment's media type is sent without parameters, because SendGrid rejects them", async () => {
    const file = { filename: 'a.csv', contentType: 'text/csv; charset=utf-8', content: btoa('a;b') };
    expect(await sentBody({ attachments: [file] })).toMatchObject({ attachments: [{ type: 'text/csv' }] });
  });

  test('the domains of sender and reply address are sent in ASCII', async () => {
    const from = { name: 'Müller', address: 'news@münchen.example' };
    expect(await sentBody({ from, replyTo: { address: 'help@münchen.example' } })).toMatchObject({
      from: { email: 'news@xn--mnchen-3ya.example', name: 'Müller' },
      reply_to: { email: 'help@xn--mnchen-3ya.example' },
    });
  });

  test('a recipient that SendGrid does not support is rejected without a call and not suppressed', async () => {
    await using http = createHttpClient();
    await using standIn = await startSendgridStandIn();
    const credentials = { config: { region: 'global' as const }, secrets: { apiKey: 'SG.x' } };
    const mail = { ...message, to: 'dån@example.com' };
    const outcome = await sendgrid.send(mail, credentials, contextAt(sendgrid, http, standIn.origin));
    expect(outcome).toEqual({
      kind: 'rejected_permanent',
      failure: { class: 'invalid_recipient', code: 'unsupported_address' },
    });
    expect(standIn.received).toEqual([]);
    expect(causeOfRefusal(outcome)).toBeNull();
  });

  test.each<[headers: Record<string, string>, wait: number | undefined]>([
    [{ 'x-ratelimit-reset': String(NOW / 1_000 + 40) }, 40_000],
    [{ 'x-ratelimit-reset': String(NOW / 1_000 + 40), 'retry-after': '7' }, 7_000],
    [{ 'x-ratelimit-reset': String(NOW / 1_000 - 40) }, 1_000],
    [{ 'x-ratelimit-reset': String(NOW / 1_000 + 86_400) }, 900_000],
    [{ 'x-ratelimit-reset': 'soon' }, undefined],
    [{}, undefined],
  ])('a refused call with the headers %j is repeated after %s ms', async (headers, retryAfterMs) => {
    const reply = { kind: 'response', status: 429, headers, text: TOO_MANY } as const;
    const contexts = createProviderContexts({
      http: async () => reply,
      resolve: async () => ({ kind: 'refused', code: 'dns' }),
      epochMs: () => NOW,
    });
    const until = AbortSignal.timeout(20_000);
    const credentials = { config: { region: 'global' as const }, secrets: { apiKey: 'SG.x' } };
    const context = contexts({ provider: 'sendgrid', accountId: 'a', version: 1, until });
    expect(await sendgrid.send(message, credentials, context)).toEqual({
      kind: 'rejected_transient',
      failure: {
        class: 'provider_throttled',
        code: 'rate_limited',
        providerMessage: 'too many requests',
        httpStatus: 429,
      },
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  });

  test("the account's display name is used only with the account's address", async () => {
    const config = { from: 'news@acme.example', fromName: 'Acme' };
    expect(await sentBody({}, config)).toMatchObject({ from: { email: 'news@acme.example', name: 'Acme' } });
    expect(await sentBody({ from: { address: 'x@acme.example' } }, config)).toMatchObject({
      from: { email: 'x@acme.example' },
    });
  });

  test('the credential check of a key without the sending scope returns invalid', async () => {
    await using http = createHttpClient();
    await using standIn = await startSendgridStandIn();
    standIn.fail({ kind: 'reply', status: 200, body: { scopes: ['alerts.read'] } });
    const credentials = { config: { region: 'eu' as const }, secrets: { apiKey: 'SG.x' } };
    expect(await sendgrid.verify(credentials, contextAt(sendgrid, http, standIn.origin))).toMatchObject({
      kind: 'invalid',
      failure: { code: 'missing_scope' },
    });
  });

  test.each(Object.entries(SENDGRID_FIELDS))('a fault in %s is never retried', (_, meaning) => {
    expect(meaning.retry).toBe(false);
  });
});
