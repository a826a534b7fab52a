import { describe, expect, test } from 'vitest';
import type { TemplateHeader, WhatsappContent } from '#core/domain/message/content.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import definitions from './provider.ts';
import { startInfobipStandIn } from './stand-in.ts';

const [, whatsapp] = definitions;
const account = {
  publicConfig: { baseUrl: 'xyz123.api.infobip.com', from: '+447860099299' },
  secretConfig: { apiKey: 'canary0123456789abcdef-api-key' },
};
const message = {
  channel: 'whatsapp',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { kind: 'text', body: 'Hello ✓' },
  expiresAt: Date.now() + 24 * 3_600_000,
  receiptUrl: 'https://hooks.example/v1/receipts/a/secret-token',
  attempt: 1,
} as const;

const exception = (status: number, messageId: string, over: object = {}) => ({
  status,
  body: { requestError: { serviceException: { messageId, text: 'Refused', ...over } } },
});
const invalid = (field: string) => ({ validationErrors: { [field]: ['is not valid'] } });
const rejection = (id: number) => ({
  status: 200,
  body: {
    to: '15551230001',
    messageCount: 1,
    messageId: message.id,
    status: { groupId: 5, groupName: 'REJECTED', id, name: `REJECTED_${id}`, description: 'Refused' },
  },
});

httpProviderSuite({
  provider: whatsapp,
  startStandIn: startInfobipStandIn,
  account,
  otherSettings: { baseUrl: 'other.api.infobip.com', from: '+447860099300' },
  message,
  sendPath: /\/whatsapp\/1\/message\/text$/,
  verifyPath: /\/account\/1\/balance$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.headers).toMatchObject({
      authorization: `App ${account.secretConfig.apiKey}`,
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      from: '447860099299',
      to: '15551230001',
      messageId: message.id,
      content: { text: 'Hello ✓', previewUrl: false },
      callbackData: message.id,
      notifyUrl: message.receiptUrl,
    });
  },
  sender: account.publicConfig.from,
  providerMessageId: /^7f3b2a34-1111-4222-8333-444455556666$/,
  errorBody: (text) => exception(400, 'BAD_REQUEST', { text }).body,
  refusals: [
    {
      reply: exception(400, 'BAD_REQUEST', invalid('to')),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'invalid_number',
          providerCode: 'BAD_REQUEST',
          providerMessage: 'is not valid',
          httpStatus: 400,
        },
      },
    },
    {
      reply: exception(400, 'BAD_REQUEST', invalid('messages[0].content.templateName')),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_template', providerCode: 'BAD_REQUEST' },
      },
    },
    {
      reply: exception(400, 'BAD_REQUEST', invalid('content.mediaUrl')),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_media', providerCode: 'BAD_REQUEST' },
      },
    },
    {
      reply: exception(400, 'BAD_REQUEST', invalid('notifyUrl')),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'callback_url_refused', providerCode: 'BAD_REQUEST' },
      },
    },
    {
      reply: exception(400, 'BAD_REQUEST', invalid('from')),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'invalid_sender', providerCode: 'BAD_REQUEST' },
      },
    },
    {
      reply: exception(400, 'BAD_REQUEST'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'unknown', code: 'http_400', providerMessage: 'Refused' },
      },
    },
    {
      reply: exception(401, 'UNAUTHORIZED'),
      outcome: {
        kind: 'rejected_transient',
        failure: {
          class: 'auth_or_config',
          code: 'authentication_failed',
          providerCode: 'UNAUTHORIZED',
        },
      },
    },
    {
      reply: exception(429, 'TOO_MANY_REQUESTS'),
      outcome: {
        kind: 'rejected_transient',
        failure: {
          class: 'provider_throttled',
          code: 'rate_limited',
          providerCode: 'TOO_MANY_REQUESTS',
        },
      },
    },
    {
      reply: exception(500, 'GENERAL_ERROR'),
      outcome: {
        kind: 'rejected_transient',
        failure: {
          class: 'provider_unavailable',
          code: 'provider_error',
          providerCode: 'GENERAL_ERROR',
        },
      },
    },
    {
      reply: rejection(12),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'insufficient_credit', providerCode: '12' },
      },
    },
  ],
  wrongCredential: exception(401, 'UNAUTHORIZED'),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.baseUrl', 'publicConfig.from', 'secretConfig.apiKey'],
    },
    {
      account: {
        publicConfig: { ...account.publicConfig, baseUrl: 'evil.example', from: 'Acme Shop' },
        secretConfig: account.secretConfig,
      },
      fields: ['publicConfig.baseUrl', 'publicConfig.from'],
    },
  ],
});

describe('infobip-whatsapp', () => {
  const sent = async (content: WhatsappContent, over: object = {}, times = 1) => {
    await using http = createHttpClient();
    await using standIn = await startInfobipStandIn();
    const context = contextAt(whatsapp, http, standIn.origin);
    const credentials = { config: account.publicConfig, secrets: account.secretConfig };
    const send = () => whatsapp.send({ ...message, content, ...over }, credentials, context);
    for (let time = 1; time < times; time += 1) await send();
    const outcome = await send();
    const [received] = standIn.received;
    const body = JSON.parse(received?.body ?? '{}') as Record<string, unknown>;
    return { outcome, path: received?.path, body };
  };
  const template = { kind: 'template', name: 'order', language: 'en_US' } as const;
  const templateOf = async (content: WhatsappContent) => {
    const { outcome, path, body } = await sent(content);
    expect(outcome).toMatchObject({ kind: 'accepted', providerMessageId: message.id });
    expect(path).toBe('/whatsapp/1/message/template');
    const [one] = body['messages'] as Record<string, unknown>[];
    expect(one).toMatchObject({
      from: '447860099299',
      to: '15551230001',
      messageId: message.id,
      callbackData: message.id,
      notifyUrl: message.receiptUrl,
    });
    return one?.['content'] as { templateData: { header?: unknown; buttons?: unknown } };
  };

  test('template variables are sent in order', async () => {
    const filled = {
      templateName: 'order',
      language: 'en_US',
      templateData: { body: { placeholders: ['Ada', '7'] } },
    };
    expect(await templateOf({ ...template, variables: ['Ada', '7'] })).toEqual(filled);
    expect(await templateOf({ ...template, variables: { '2': '7', '1': 'Ada' } })).toEqual(filled);
    expect(await templateOf({ ...template, variables: [] })).toMatchObject({
      templateData: { body: { placeholders: [] } },
    });
  });

  test.each<[TemplateHeader, object]>([
    [
      { type: 'text', text: 'Ada', parameterName: 'who' },
      { type: 'TEXT', placeholder: 'Ada' },
    ],
    [
      { type: 'image', url: 'https://x.example/a' },
      { type: 'IMAGE', mediaUrl: 'https://x.example/a' },
    ],
    [
      { type: 'video', url: 'https://x.example/a' },
      { type: 'VIDEO', mediaUrl: 'https://x.example/a' },
    ],
    [
      { type: 'document', url: 'https://x.example/a', filename: 'bill.pdf' },
      { type: 'DOCUMENT', mediaUrl: 'https://x.example/a', filename: 'bill.pdf' },
    ],
    [
      { type: 'document', url: 'https://x.example/b/c.pdf?d=e/f' },
      { type: 'DOCUMENT', mediaUrl: 'https://x.example/b/c.pdf?d=e/f', filename: 'c.pdf' },
    ],
    [
      { type: 'document', url: 'https://x.example/' },
      { type: 'DOCUMENT', mediaUrl: 'https://x.example/', filename: 'document' },
    ],
    [
      { type: 'location', latitude: 37.4833, longitude: -122 },
      { type: 'LOCATION', latitude: 37.4833, longitude: -122 },
    ],
  ])('the template header %j is sent as %j', async (header, carried) => {
    const { templateData } = await templateOf({ ...template, variables: [], header });
    expect(templateData.header).toEqual(carried);
  });

  test('template button parameters are sent in the order of their index', async () => {
    const { templateData } = await templateOf({
      ...template,
      variables: [],
      buttons: [
        { type: 'copy_code', index: 2, code: '25OFF' },
        { type: 'url', index: 1, text: 'order-1' },
        { type: 'quick_reply', index: 0, payload: 'yes' },
      ],
    });
    expect(templateData.buttons).toEqual([
      { type: 'QUICK_REPLY', parameter: 'yes' },
      { type: 'URL', parameter: 'order-1' },
      { type: 'COPY_CODE', parameter: '25OFF' },
    ]);
  });

  test.each<[string, WhatsappContent]>([
    ['names of variables', { ...template, variables: { who: 'Ada' } }],
    ['numbers with a gap', { ...template, variables: { '1': 'Ada', '3': 'x' } }],
    [
      'a location name',
      {
        ...template,
        variables: [],
        header: { type: 'location', latitude: 1, longitude: 2, name: 'Here' },
      },
    ],
  ])('a template with %s is rejected without a call, since Infobip would ignore it', async (_, content) => {
    const { outcome, path } = await sent(content);
    expect(outcome).toMatchObject({
      kind: 'rejected_permanent',
      failure: { class: 'content_rejected', code: 'unsupported_template_part' },
    });
    expect(path).toBeUndefined();
  });

  test.each([
    [{ type: 'image', caption: 'Look' }, { caption: 'Look' }],
    [{ type: 'video', caption: 'Look' }, { caption: 'Look' }],
    [{ type: 'audio' }, {}],
    [{ type: 'sticker' }, {}],
    [
      { type: 'document', caption: 'Look', filename: 'bill.pdf' },
      { caption: 'Look', filename: 'bill.pdf' },
    ],
  ] as const)('media %j are sent with their URL and %j', async (media, shown) => {
    const url = 'https://x.example/a';
    const { path, body } = await sent({ kind: 'media', url, ...media });
    expect(path).toBe(`/whatsapp/1/message/${media.type}`);
    expect(body['content']).toEqual({ mediaUrl: url, ...shown });
  });

  test('a duplicate that Infobip already has counts as accepted', async () => {
    const { outcome } = await sent(message.content, {}, 2);
    expect(outcome).toMatchObject({ kind: 'accepted', providerMessageId: message.id });
  });

  test('a message whose id was used by a rejected attempt is sent under its next id', async () => {
    await using http = createHttpClient();
    await using standIn = await startInfobipStandIn();
    standIn.fail({ kind: 'reply', ...rejection(23) }, /text$/);
    standIn.fail({ kind: 'reply', status: 200, body: { results: [rejection(12).body] } }, /logs/);
    const credentials = { config: account.publicConfig, secrets: account.secretConfig };
    const outcome = await whatsapp.send(message, credentials, contextAt(whatsapp, http, standIn.origin));
    expect(outcome).toMatchObject({ kind: 'accepted', providerMessageId: `${message.id}-2` });
    expect(standIn.received.map(({ path }) => path)).toEqual([
      '/whatsapp/1/message/text',
      `/whatsapp/2/logs?messageId=${message.id}`,
      '/whatsapp/1/message/text',
    ]);
  });

  test("the message's sender overrides the account's, and reports require a receipt URL", async () => {
    const { outcome, body } = await sent(message.content, { from: '+15005550009', receiptUrl: undefined });
    expect(body).toMatchObject({ from: '15005550009', callbackData: message.id });
    expect(body).not.toHaveProperty('notifyUrl');
    expect(outcome).not.toHaveProperty('sender');
  });
});
