import { describe, expect, test } from 'vitest';
import type { WhatsappContent } from '#core/domain/message/content.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import definitions from './provider.ts';
import { startVonageStandIn } from './stand-in.ts';

const [, whatsapp] = definitions;
const account = {
  publicConfig: { apiKey: 'abcd1234', from: '+447700900000' },
  secretConfig: { apiSecret: 'canary-api-secret-1', signatureSecret: 'canary-signature-1' },
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

const problem = (status: number, code: string | number, over: object = {}) => ({
  status,
  headers: { 'content-type': 'application/problem+json' },
  body: {
    type: `https://developer.vonage.com/api-errors/messages#${code}`,
    title: 'Error',
    detail: 'Refused',
    ...over,
  },
});
const invalid = (name: string) => ({ invalid_parameters: [{ name, reason: 'Is not valid' }] });

httpProviderSuite({
  provider: whatsapp,
  startStandIn: startVonageStandIn,
  account,
  otherSettings: {
    apiKey: 'abcd9999',
    from: '+447700900001',
    applicationId: '00000000-0000-4000-8000-000000000000',
    region: 'us',
  },
  message,
  sendPath: /\/v1\/messages$/,
  verifyPath: /\/account\/get-balance$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.headers).toMatchObject({
      authorization: `Basic ${btoa('abcd1234:canary-api-secret-1')}`,
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      channel: 'whatsapp',
      message_type: 'text',
      from: '447700900000',
      to: '15551230001',
      text: 'Hello ✓',
      client_ref: message.id,
      webhook_url: message.receiptUrl,
      webhook_version: 'v1',
    });
  },
  sender: account.publicConfig.from,
  providerMessageId: /^[0-9a-f-]{36}$/,
  errorBody: (text) => problem(400, 'invalid-params', { detail: text }).body,
  refusals: [
    {
      reply: problem(422, 1340),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'outside_window', providerCode: '1340' },
      },
    },
    {
      reply: problem(422, 1022),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_template', providerCode: '1022' },
      },
    },
    {
      reply: problem(422, 1150, invalid('image.url')),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_media', providerCode: '1150' },
      },
    },
    {
      reply: problem(422, 1300),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'invalid_recipient', code: 'unknown_recipient', providerCode: '1300' },
      },
    },
    {
      reply: problem(401, 'unauthorized'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'authentication_failed' },
      },
    },
    {
      reply: problem(429, 1000),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', code: 'rate_limited', providerCode: '1000' },
      },
    },
  ],
  wrongCredential: { status: 401, body: { 'error-code': '401', 'error-code-label': 'failed' } },
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.apiKey', 'publicConfig.from', 'secretConfig.apiSecret'],
    },
    {
      account: {
        publicConfig: { ...account.publicConfig, from: 'Acme Shop' },
        secretConfig: account.secretConfig,
      },
      fields: ['publicConfig.from'],
    },
  ],
});

describe('vonage-whatsapp', () => {
  const sentBody = async (content: WhatsappContent, over: object = {}) => {
    await using http = createHttpClient();
    await using standIn = await startVonageStandIn();
    const outcome = await whatsapp.send(
      { ...message, content, ...over },
      { config: { ...account.publicConfig, region: 'global' }, secrets: account.secretConfig },
      contextAt(whatsapp, http, standIn.origin),
    );
    expect(outcome).toMatchObject({ kind: 'accepted' });
    return JSON.parse(standIn.received[0]?.body ?? '') as Record<string, unknown>;
  };

  test("a template is sent in WhatsApp's own format, with all its parameters", async () => {
    const template = { kind: 'template', name: 'order', language: 'en_US' } as const;
    const own = (components: object[] | undefined) => ({
      message_type: 'custom',
      custom: {
        type: 'template',
        template: {
          name: 'order',
          language: { policy: 'deterministic', code: 'en_US' },
          ...(components === undefined ? {} : { components }),
        },
      },
    });
    expect(await sentBody({ ...template, variables: [] })).toMatchObject(own(undefined));
    expect(await sentBody({ ...template, variables: ['Ada'] })).toMatchObject(
      own([{ type: 'body', parameters: [{ type: 'text', text: 'Ada' }] }]),
    );
    const filled = await sentBody({
      ...template,
      variables: { who: 'Ada' },
      header: { type: 'image', url: 'https://x.example/a' },
      buttons: [{ type: 'url', text: 'order-1' }],
    });
    expect(filled).toMatchObject(
      own([
        {
          type: 'header',
          parameters: [{ type: 'image', image: { link: 'https://x.example/a' } }],
        },
        { type: 'body', parameters: [{ type: 'text', parameter_name: 'who', text: 'Ada' }] },
        {
          type: 'button',
          sub_type: 'url',
          index: '0',
          parameters: [{ type: 'text', text: 'order-1' }],
        },
      ]),
    );
  });

  test.each([
    [{ type: 'image', caption: 'Look' }, 'image', { caption: 'Look' }],
    [{ type: 'video', caption: 'Look' }, 'video', { caption: 'Look' }],
    [{ type: 'audio' }, 'audio', {}],
    [{ type: 'sticker' }, 'sticker', {}],
    [
      { type: 'document', caption: 'Look', filename: 'bill.pdf' },
      'file',
      { caption: 'Look', name: 'bill.pdf' },
    ],
  ] as const)('media %j are sent as %s with their URL and %j', async (media, kind, shown) => {
    const url = 'https://x.example/a';
    const body = await sentBody({ kind: 'media', url, ...media });
    expect(body['message_type']).toBe(kind);
    expect(body[kind]).toEqual({ url, ...shown });
  });

  test("the message's sender overrides the account's, and receipts require a receipt URL", async () => {
    const body = await sentBody(message.content, { from: '+15005550009', receiptUrl: undefined });
    expect(body).toMatchObject({ from: '15005550009', client_ref: message.id });
    expect(body).not.toHaveProperty('webhook_url');
    expect(body).not.toHaveProperty('webhook_version');
  });
});
