import { describe, expect, test } from 'vitest';
import type { WhatsappContent } from '#core/domain/content.ts';
import { createHttpClient } from '#core/platform/http.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { WHATSAPP_CODES } from './outcomes.ts';
import whatsapp from './provider.ts';
import { startWhatsappCloudStandIn } from './stand-in.ts';

const account = {
  publicConfig: { phoneNumberId: '106540352242922', businessAccountId: '102290129340398' },
  secretConfig: { accessToken: 'EAAcanaryToken1', appSecret: 'canary-app-secret' },
};
const message = {
  channel: 'whatsapp',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { kind: 'text', body: 'Hello ✓' },
  expiresAt: Date.now() + 86_400_000,
  attempt: 1,
} as const;

const refusal = (status: number, code: number, over: object = {}) => ({
  status,
  body: { error: { message: `(#${code}) Refused`, type: 'OAuthException', code, fbtrace_id: 'x', ...over } },
});

httpProviderSuite({
  provider: whatsapp,
  startStandIn: startWhatsappCloudStandIn,
  account,
  message,
  sendPath: /\/messages$/,
  verifyPath: /\?fields=/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe('/v23.0/106540352242922/messages');
    expect(received.headers).toMatchObject({
      authorization: 'Bearer EAAcanaryToken1',
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      messaging_product: 'whatsapp',
      recipient_type: 'individual',
      to: '+15551230001',
      type: 'text',
      text: { body: 'Hello ✓', preview_url: false },
      biz_opaque_callback_data: message.id,
    });
  },
  providerMessageId: /^wamid\./,
  errorBody: (text) => ({ error: { message: text, type: 'OAuthException', code: 100, fbtrace_id: 'x' } }),
  refusals: [
    {
      reply: refusal(400, 131026, {
        error_data: { messaging_product: 'whatsapp', details: 'Undeliverable' },
      }),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'unknown_recipient',
          providerCode: '131026',
          providerMessage: 'Undeliverable',
          httpStatus: 400,
        },
      },
    },
    {
      reply: refusal(400, 131050),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '131050' },
      },
    },
    {
      reply: refusal(400, 131047),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'outside_window', providerCode: '131047' },
      },
    },
    {
      reply: refusal(404, 132001),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_template', providerCode: '132001' },
      },
    },
    {
      reply: refusal(400, 190),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'authentication_failed', providerCode: '190' },
      },
    },
    {
      reply: refusal(400, 131042),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'insufficient_credit', providerCode: '131042' },
      },
    },
    {
      reply: refusal(400, 130429),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', code: 'rate_limited', providerCode: '130429' },
      },
    },
    {
      reply: refusal(500, 131000),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: '131000' },
      },
    },
    {
      reply: refusal(400, 999999, { is_transient: true }),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: '999999' },
      },
    },
    {
      reply: refusal(400, 999999),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'unknown', code: 'http_400', providerCode: '999999' },
      },
    },
  ],
  wrongCredential: refusal(401, 190),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.phoneNumberId', 'secretConfig.accessToken'],
    },
    {
      account: {
        publicConfig: { phoneNumberId: '../me/accounts', apiVersion: 'v23.0/../x' },
        secretConfig: { accessToken: 'with\nnewline' },
      },
      fields: ['publicConfig.phoneNumberId', 'publicConfig.apiVersion', 'secretConfig.accessToken'],
    },
  ],
});

describe('whatsapp-cloud', () => {
  const sentBody = async (content: WhatsappContent) => {
    await using http = createHttpClient();
    await using standIn = await startWhatsappCloudStandIn();
    const credentials = {
      config: { phoneNumberId: '1', apiVersion: 'v23.0' },
      secrets: { accessToken: 'x' },
    };
    const context = contextAt(whatsapp, http, standIn.origin);
    expect(await whatsapp.send({ ...message, content }, credentials, context)).toMatchObject({
      kind: 'accepted',
    });
    return JSON.parse(standIn.received[0]?.body ?? '') as Record<string, unknown>;
  };

  test('a template carries positional and named variables, and none at all', async () => {
    const template = { kind: 'template', name: 'order', language: 'en_US' } as const;
    expect(await sentBody({ ...template, variables: ['1', '2'] })).toMatchObject({
      type: 'template',
      template: {
        name: 'order',
        language: { code: 'en_US' },
        components: [
          {
            type: 'body',
            parameters: [
              { type: 'text', text: '1' },
              { type: 'text', text: '2' },
            ],
          },
        ],
      },
    });
    expect(await sentBody({ ...template, variables: { who: 'Ada' } })).toMatchObject({
      template: {
        components: [{ type: 'body', parameters: [{ type: 'text', parameter_name: 'who', text: 'Ada' }] }],
      },
    });
    expect((await sentBody({ ...template, variables: [] }))['template']).not.toHaveProperty('components');
  });

  test.each([
    ['https://x.example/a.JPG?size=1', 'image', true],
    ['https://x.example/a.mp4', 'video', true],
    ['https://x.example/a.ogg', 'audio', false],
    ['https://x.example/invoice.pdf', 'document', true],
    ['https://x.example/', 'document', true],
  ])('media at %s is sent as %s', async (url, type, hasCaption) => {
    const body = await sentBody({ kind: 'media', url, caption: 'Look' });
    expect(body).toMatchObject({ type, [type]: { link: url } });
    expect(body[type]).toEqual({ link: url, ...(hasCaption ? { caption: 'Look' } : {}) });
  });

  test.each([
    ['0', 'auth_or_config', true],
    ['200', 'auth_or_config', true],
    ['299', 'auth_or_config', true],
    ['100', 'content_rejected', false],
    ['131030', 'invalid_recipient', false],
    ['131049', 'recipient_unavailable', false],
    ['131056', 'provider_throttled', true],
    ['131057', 'provider_unavailable', true],
    ['132016', 'content_rejected', false],
  ])('code %s is %s, retry %s', (code, failureClass, retry) => {
    expect(WHATSAPP_CODES[code]).toMatchObject({ class: failureClass, retry });
  });
});
