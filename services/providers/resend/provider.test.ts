import { describe, expect, test } from 'vitest';
import type { EmailContent, OutboundFor } from '#core/domain/message/content.ts';
import { causeOfRefusal } from '#core/domain/recipient/suppression-cause.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { RESEND_ERRORS } from './outcomes.ts';
import resend from './provider.ts';
import { startResendStandIn } from './stand-in.ts';

const account = {
  publicConfig: { from: 'news@acme.example', fromName: 'Acme', replyTo: 'team@acme.example' },
  secretConfig: { apiKey: 're_canary_1', webhookSecret: `whsec_${btoa('canary-key-1'.repeat(3))}` },
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
    headers: { 'X-Campaign': 'spring' },
    attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: btoa('file') }],
  },
  expiresAt: Date.now() + 86_400_000,
  attempt: 1,
} as const;

const refusal = (statusCode: number, name: string, text: string) => ({
  status: statusCode,
  body: { statusCode, name, message: text },
});
const refused = (
  status: number,
  name: string,
  text: string,
  kind: 'rejected_permanent' | 'rejected_transient' | 'ambiguous',
  failure: object,
) => ({
  reply: refusal(status, name, text),
  outcome: { kind, failure: { ...failure, providerCode: name, httpStatus: status } } as never,
});
const later = 'rejected_transient';
const never = 'rejected_permanent';

httpProviderSuite({
  provider: resend,
  startStandIn: startResendStandIn,
  account,
  otherSettings: { from: 'other@acme.example', fromName: 'Other', replyTo: 'else@acme.example' },
  message,
  sendPath: /^\/emails$/,
  verifyPath: /^\/domains$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.headers).toMatchObject({
      authorization: 'Bearer re_canary_1',
      'content-type': 'application/json',
      'idempotency-key': message.id,
      'user-agent': expect.stringMatching(/\w/) as string,
    });
    expect(JSON.parse(received.body)).toEqual({
      from: '"Zoë \\"Z\\" Doe, jr." <zoe@acme.example>',
      to: ['ada@example.com'],
      reply_to: '"Help" <help@acme.example>',
      subject: 'Grüße ✓',
      text: 'Hello',
      html: '<p>Hello</p>',
      headers: { 'X-Campaign': 'spring' },
      attachments: [{ filename: 'a.txt', content: btoa('file'), content_type: 'text/plain' }],
      tags: [{ name: 'despatch_message_id', value: message.id }],
    });
  },
  sender: undefined,
  providerMessageId: /^[0-9a-f-]{36}$/,
  errorBody: (text) => ({ statusCode: 400, name: 'validation_error', message: text }),
  refusals: [
    refused(422, 'validation_error', 'Invalid `to` field: ada@example.com.', never, {
      class: 'invalid_recipient',
      code: 'invalid_address',
      providerMessage: 'Invalid `to` field: [redacted].',
    }),
    refused(422, 'validation_error', 'Invalid `from` field.', never, {
      class: 'sender_rejected',
      code: 'invalid_sender',
    }),
    refused(400, 'validation_error', 'Something else.', never, {
      class: 'content_rejected',
      code: 'invalid_content',
    }),
    refused(403, 'validation_error', 'The acme.example domain is not verified.', never, {
      class: 'sender_rejected',
      code: 'sender_unverified',
    }),
    refused(403, 'validation_error', 'You can only send testing emails to your own address.', never, {
      class: 'sender_rejected',
      code: 'trial_restriction',
    }),
    refused(422, 'invalid_from_address', 'Invalid from.', never, {
      class: 'sender_rejected',
      code: 'invalid_sender',
    }),
    refused(422, 'invalid_attachment', 'Attachment must have content or path.', never, {
      class: 'content_rejected',
      code: 'invalid_attachment',
    }),
    refused(451, 'security_error', 'We may have found a security issue.', never, {
      class: 'content_rejected',
      code: 'rejected_by_policy',
    }),
    refused(403, 'invalid_api_key', 'API key is invalid', later, {
      class: 'auth_or_config',
      code: 'authentication_failed',
    }),
    refused(400, 'validation_error', 'API key is invalid', later, {
      class: 'auth_or_config',
      code: 'authentication_failed',
    }),
    refused(403, 'validation_error', 'The associated domain with your API key is not verified.', never, {
      class: 'sender_rejected',
      code: 'sender_unverified',
    }),
    refused(401, 'missing_api_key', 'Missing API key', later, {
      class: 'auth_or_config',
      code: 'authentication_failed',
    }),
    refused(429, 'rate_limit_exceeded', 'Too many requests.', later, {
      class: 'provider_throttled',
      code: 'rate_limited',
    }),
    refused(429, 'daily_quota_exceeded', 'You have reached your daily quota.', later, {
      class: 'provider_throttled',
      code: 'daily_cap_reached',
    }),
    refused(429, 'monthly_quota_exceeded', 'You have reached your monthly quota.', later, {
      class: 'auth_or_config',
      code: 'insufficient_credit',
    }),
    refused(422, 'missing_required_parameter', 'The request is missing a parameter.', never, {
      class: 'content_rejected',
      code: 'invalid_content',
    }),
    refused(409, 'resource_locked', 'Another request is already updating this resource.', later, {
      class: 'provider_unavailable',
      code: 'request_in_progress',
    }),
    refused(409, 'concurrent_idempotent_requests', 'In progress.', later, {
      class: 'provider_unavailable',
      code: 'request_in_progress',
    }),
    refused(409, 'invalid_idempotent_request', 'Used with a different payload.', 'ambiguous', {
      class: 'unknown',
      code: 'idempotency_conflict',
    }),
    refused(500, 'application_error', 'An unexpected error occurred.', later, {
      class: 'provider_unavailable',
      code: 'http_500',
    }),
  ],
  wrongCredential: refusal(403, 'invalid_api_key', 'API key is invalid'),
  invalidAccounts: [
    { account: { publicConfig: {}, secretConfig: {} }, fields: ['secretConfig.apiKey'] },
    {
      account: {
        publicConfig: { from: 'no-address', fromName: 'Evil\r\nBcc: x@example.com', replyTo: 'neither' },
        secretConfig: { apiKey: 'canary\r\nx-injected: 1', webhookSecret: 'canary-without-prefix' },
      },
      fields: [
        'publicConfig.from',
        'publicConfig.fromName',
        'publicConfig.replyTo',
        'secretConfig.apiKey',
        'secretConfig.webhookSecret',
      ],
    },
  ],
});

describe('resend', () => {
  const credentials = (config: object = {}) => ({ config, secrets: { apiKey: 're_x' } });
  const withContent = (content: Partial<EmailContent>): OutboundFor<'email'> => ({
    ...message,
    content: { from: { address: 'news@acme.example' }, subject: 's', ...content },
  });
  const sentBody = async (content: Partial<EmailContent>, config: object = {}) => {
    await using http = createHttpClient();
    await using standIn = await startResendStandIn();
    const context = contextAt(resend, http, standIn.origin);
    expect(await resend.send(withContent(content), credentials(config), context)).toMatchObject({
      kind: 'accepted',
    });
    return JSON.parse(standIn.received[0]?.body ?? '') as Record<string, unknown>;
  };

  test('a mail without content has the text part that the API requires', async () => {
    expect(await sentBody({})).toMatchObject({ text: ' ' });
    expect(await sentBody({ html: '<p>x</p>' })).not.toHaveProperty('text');
  });

  test("the account's name and reply address are used if the mail has none", async () => {
    const config = { from: 'news@acme.example', fromName: 'Acme', replyTo: 'team@acme.example' };
    const body = await sentBody({}, config);
    expect(body).toMatchObject({ from: '"Acme" <news@acme.example>', reply_to: 'team@acme.example' });
    for (const field of ['headers', 'attachments']) expect(body).not.toHaveProperty(field);
  });

  test.each([
    ['data.txt', 'text/csv', undefined],
    ['report.PDF', 'application/octet-stream', undefined],
    ['report.PDF', 'Application/PDF', 'Application/PDF'],
    ['invite.ics', 'text/calendar; method=REQUEST', 'text/calendar; method=REQUEST'],
    ['data.custom', 'text/x-custom', 'text/x-custom'],
    ['data', 'text/csv', 'text/csv'],
  ])('an attachment %s of the type %s is sent with the type %s', async (filename, contentType, sent) => {
    const content = btoa('file');
    expect(await sentBody({ attachments: [{ filename, contentType, content }] })).toHaveProperty(
      'attachments',
      [{ filename, content, ...(sent === undefined ? {} : { content_type: sent }) }],
    );
  });

  test('the domains of sender and reply address are sent in ASCII', async () => {
    const from = { name: 'Müller', address: 'news@münchen.example' };
    expect(await sentBody({ from, replyTo: { address: 'help@münchen.example' } })).toMatchObject({
      from: '"Müller" <news@xn--mnchen-3ya.example>',
      reply_to: 'help@xn--mnchen-3ya.example',
    });
  });

  test('a recipient that Resend does not support is rejected without a call and not suppressed', async () => {
    await using http = createHttpClient();
    await using standIn = await startResendStandIn();
    const mail = { ...message, to: 'dån@example.com' };
    const outcome = await resend.send(mail, credentials(), contextAt(resend, http, standIn.origin));
    expect(outcome).toEqual({
      kind: 'rejected_permanent',
      failure: { class: 'invalid_recipient', code: 'unsupported_address' },
    });
    expect(standIn.received).toEqual([]);
    expect(causeOfRefusal(outcome)).toBeNull();
  });

  test('a retry has the same body and idempotency key, and the same outcome', async () => {
    await using http = createHttpClient();
    await using standIn = await startResendStandIn();
    const context = contextAt(resend, http, standIn.origin);
    const first = await resend.send(message, credentials(), context);
    const again = {
      ...message,
      attempt: 2,
      expiresAt: message.expiresAt - 60_000,
      receiptUrl: 'https://x/y',
    };
    expect(await resend.send(again, credentials(), context)).toEqual(first);
    const [one, two] = standIn.received;
    expect(two?.body).toBe(one?.body);
    expect(two?.headers['idempotency-key']).toBe(one?.headers['idempotency-key']);
  });

  test('a retry with a changed body is ambiguous, not rejected', async () => {
    await using http = createHttpClient();
    await using standIn = await startResendStandIn();
    const context = contextAt(resend, http, standIn.origin);
    await resend.send(withContent({}), credentials(), context);
    const changed = credentials({ replyTo: 'team@acme.example' });
    expect(await resend.send(withContent({}), changed, context)).toMatchObject({
      kind: 'ambiguous',
      failure: { code: 'idempotency_conflict' },
    });
  });

  test('the credential check of a sending-only key returns valid', async () => {
    await using http = createHttpClient();
    await using standIn = await startResendStandIn();
    const reply = refusal(401, 'restricted_api_key', 'This API key is restricted to only send emails');
    standIn.fail({ kind: 'reply', ...reply });
    expect(await resend.verify(credentials(), contextAt(resend, http, standIn.origin))).toEqual({
      kind: 'valid',
    });
  });

  test('the credential check of a key that is not active returns invalid', async () => {
    await using http = createHttpClient();
    await using standIn = await startResendStandIn();
    const reply = refusal(403, 'restricted_api_key', 'API key is not active');
    standIn.fail({ kind: 'reply', ...reply });
    expect(await resend.verify(credentials(), contextAt(resend, http, standIn.origin))).toMatchObject({
      kind: 'invalid',
      failure: { class: 'auth_or_config', code: 'forbidden', httpStatus: 403 },
    });
  });

  test.each(['invalid_api_key', 'missing_api_key', 'suspended_api_key', 'monthly_quota_exceeded'])(
    '%s is auth_or_config and retried',
    (name) => {
      expect(RESEND_ERRORS[name]).toMatchObject({ class: 'auth_or_config', retry: true });
    },
  );
});
