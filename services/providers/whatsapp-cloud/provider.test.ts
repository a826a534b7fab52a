import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { TemplateHeader, WhatsappContent } from '#core/domain/message/content.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { WHATSAPP_CODES } from './outcomes.ts';
import whatsapp from './provider.ts';
import { startWhatsappCloudStandIn } from './stand-in.ts';

const account = {
  publicConfig: { phoneNumberId: '106540352242922', businessAccountId: '102290129340398' },
  secretConfig: { accessToken: 'EAAcanaryToken1', appSecret: 'canary-app-secret' },
};
/** As Meta's guide makes it: the token under the key of the app secret. */
const PROOF = createHmac('sha256', 'canary-app-secret').update('EAAcanaryToken1').digest('hex');
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
  otherSettings: { phoneNumberId: '7', businessAccountId: '8', apiVersion: 'v24.0' },
  message,
  sendPath: /\/messages\?/,
  verifyPath: /\?fields=/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe(`/v23.0/106540352242922/messages?appsecret_proof=${PROOF}`);
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
  sender: '106540352242922',
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
          code: 'undeliverable',
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
      reply: refusal(400, 131056),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'recipient_unavailable', code: 'recipient_rate_limited', providerCode: '131056' },
        retryAfterMs: 6_000,
      },
    },
    {
      reply: {
        status: 400,
        body: { error: { code: 100, error_subcode: 33, message: 'Unsupported post request' } },
      },
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'sender_unregistered', providerCode: '100' },
      },
    },
    // Newer versions of the API name no subcode.
    {
      reply: refusal(400, 100, {
        type: 'GraphMethodException',
        message:
          "Unsupported post request. Object with ID '1' does not exist, cannot be loaded due to missing permissions, or does not support this operation.",
      }),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'sender_unregistered', providerCode: '100' },
      },
    },
    ...[
      'API calls from the server require an appsecret_proof argument',
      'Invalid appsecret_proof provided in the API argument',
    ].map((text) => ({
      reply: {
        status: 400,
        body: { error: { message: text, type: 'GraphMethodException', code: 100, fbtrace_id: 'x' } },
      },
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'app_secret_refused', providerCode: '100' },
      } as const,
    })),
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
      reply: refusal(400, 135000),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_parameter', providerCode: '135000' },
      },
    },
    {
      reply: refusal(400, 131053),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_media', providerCode: '131053' },
      },
    },
    {
      reply: refusal(400, 131053, { is_transient: true }),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: '131053' },
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
  const called = async (appSecret?: string) => {
    await using http = createHttpClient();
    await using standIn = await startWhatsappCloudStandIn();
    const config = { phoneNumberId: '1', apiVersion: 'v23.0' };
    const secrets = { accessToken: 'EAAcanaryToken1', ...(appSecret === undefined ? {} : { appSecret }) };
    const context = contextAt(whatsapp, http, standIn.origin);
    await whatsapp.send(message, { config, secrets }, context);
    await whatsapp.verify({ config, secrets }, context);
    return standIn.received.map(({ path }) => path);
  };

  test('each call proves that it knows the app secret, if the account has one', async () => {
    expect(await called('canary-app-secret')).toEqual([
      `/v23.0/1/messages?appsecret_proof=${PROOF}`,
      `/v23.0/1?fields=id&appsecret_proof=${PROOF}`,
    ]);
    expect(await called()).toEqual(['/v23.0/1/messages', '/v23.0/1?fields=id']);
  });

  test('a credential check without the proof that Meta requires finds the account invalid', async () => {
    await using http = createHttpClient();
    await using standIn = await startWhatsappCloudStandIn();
    const text = 'API calls from the server require an appsecret_proof argument';
    standIn.fail({ kind: 'reply', status: 400, body: { error: { code: 100, message: text } } });
    const config = { phoneNumberId: '1', apiVersion: 'v23.0' };
    expect(
      await whatsapp.verify(
        { config, secrets: { accessToken: 'x' } },
        contextAt(whatsapp, http, standIn.origin),
      ),
    ).toMatchObject({ kind: 'invalid', failure: { code: 'app_secret_refused' } });
  });

  test.each([
    [500, 3, 'unknown', 'forbidden'],
    [403, 10, 'unknown', 'forbidden'],
    [403, 200, 'unknown', 'forbidden'],
    [403, 131005, 'unknown', 'forbidden'],
    [401, 190, 'invalid', 'authentication_failed'],
    [400, 33, 'invalid', 'sender_unregistered'],
    [403, 368, 'invalid', 'account_suspended'],
  ])(
    'a credential check that Meta answers with %i and code %i finds %s: %s',
    async (status, code, kind, why) => {
      await using http = createHttpClient();
      await using standIn = await startWhatsappCloudStandIn();
      standIn.fail({ kind: 'reply', ...refusal(status, code) });
      const credentials = {
        config: { phoneNumberId: '1', apiVersion: 'v23.0' },
        secrets: { accessToken: 'x' },
      };
      expect(await whatsapp.verify(credentials, contextAt(whatsapp, http, standIn.origin))).toMatchObject({
        kind,
        failure: { code: why, providerCode: String(code) },
      });
    },
  );

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

  test('a template is sent with positional, named or no variables', async () => {
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

  test('a template is sent with its header parameters', async () => {
    const template = { kind: 'template', name: 'order', language: 'en_US', variables: ['1'] } as const;
    const headerOf = async (header: TemplateHeader) => {
      const sent = (await sentBody({ ...template, header }))['template'] as { components: unknown[] };
      expect(sent.components).toHaveLength(2);
      return sent.components[0];
    };
    const url = 'https://x.example/a';
    const filled = (parameter: object) => ({ type: 'header', parameters: [parameter] });
    expect(await headerOf({ type: 'text', text: 'Ada' })).toEqual(filled({ type: 'text', text: 'Ada' }));
    expect(await headerOf({ type: 'text', text: 'Ada', parameterName: 'who' })).toEqual(
      filled({ type: 'text', parameter_name: 'who', text: 'Ada' }),
    );
    expect(await headerOf({ type: 'image', url })).toEqual(filled({ type: 'image', image: { link: url } }));
    expect(await headerOf({ type: 'video', url })).toEqual(filled({ type: 'video', video: { link: url } }));
    expect(await headerOf({ type: 'document', url, filename: 'bill.pdf' })).toEqual(
      filled({ type: 'document', document: { link: url, filename: 'bill.pdf' } }),
    );
    expect(await headerOf({ type: 'location', latitude: 37.4833, longitude: -122, name: 'Here' })).toEqual(
      filled({ type: 'location', location: { latitude: '37.4833', longitude: '-122', name: 'Here' } }),
    );
  });

  test('a template is sent with its button parameters, by index', async () => {
    const sent = await sentBody({
      kind: 'template',
      name: 'sale',
      language: 'en_US',
      variables: [],
      buttons: [
        { type: 'url', text: 'order-1' },
        { type: 'quick_reply', payload: 'yes' },
        { type: 'copy_code', index: 5, code: '25OFF' },
      ],
    });
    const button = (sub_type: string, index: string, parameter: object) => ({
      type: 'button',
      sub_type,
      index,
      parameters: [parameter],
    });
    expect(sent['template']).toEqual({
      name: 'sale',
      language: { code: 'en_US' },
      components: [
        button('url', '0', { type: 'text', text: 'order-1' }),
        button('quick_reply', '1', { type: 'payload', payload: 'yes' }),
        button('copy_code', '5', { type: 'coupon_code', coupon_code: '25OFF' }),
      ],
    });
  });

  test.each([
    [{ type: 'image', caption: 'Look' }, { caption: 'Look' }],
    [{ type: 'audio' }, {}],
    [{ type: 'sticker' }, {}],
    [
      { type: 'document', caption: 'Look', filename: 'bill.pdf' },
      { caption: 'Look', filename: 'bill.pdf' },
    ],
  ] as const)('media %j are sent with their URL and %j', async (media, shown) => {
    const url = 'https://x.example/a';
    const body = await sentBody({ kind: 'media', url, ...media });
    expect(body['type']).toBe(media.type);
    expect(body[media.type]).toEqual({ link: url, ...shown });
  });

  test.each([
    ['0', 'auth_or_config', true],
    ['200', 'auth_or_config', true],
    ['299', 'auth_or_config', true],
    ['100', 'content_rejected', false],
    ['131030', 'invalid_recipient', false],
    ['131049', 'recipient_unavailable', false],
    ['130497', 'sender_rejected', false],
    ['131056', 'recipient_unavailable', true],
    ['33', 'auth_or_config', true],
    ['102', 'auth_or_config', true],
    ['104', 'auth_or_config', true],
    ['803', 'auth_or_config', true],
    ['17', 'provider_throttled', true],
    ['341', 'provider_throttled', true],
    ['613', 'provider_throttled', true],
    ['80008', 'provider_throttled', true],
    ['130403', 'recipient_unavailable', false],
    ['131043', 'recipient_unavailable', false],
    ['131063', 'sender_rejected', false],
    ['132069', 'content_rejected', true],
    ['134011', 'auth_or_config', true],
    ['132018', 'content_rejected', false],
    ['131057', 'provider_unavailable', true],
    ['132016', 'content_rejected', false],
  ])('code %s is %s, retry %s', (code, failureClass, retry) => {
    expect(WHATSAPP_CODES[code]).toMatchObject({ class: failureClass, retry });
  });
});
