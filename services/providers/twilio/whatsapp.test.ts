import { describe, expect, test } from 'vitest';
import type { WhatsappContent } from '#core/domain/message/content.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { TWILIO_CODES } from './outcomes.ts';
import definitions from './provider.ts';
import { startTwilioStandIn } from './stand-in.ts';

const [, whatsapp] = definitions;
const ACCOUNT_SID = `AC${'0123456789abcdef'.repeat(2)}`;
const CONTENT_SID = `HX${'0123456789abcdef'.repeat(2)}`;
const SERVICE_SID = `MG${'1'.repeat(32)}`;
const account = {
  publicConfig: { accountSid: ACCOUNT_SID, from: '+15005550006' },
  secretConfig: { authToken: 'canary-auth-token-1' },
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

const refusal = (status: number, code: number) => ({
  status,
  body: { code, message: 'Refused', more_info: 'https://www.twilio.com/docs', status },
});

httpProviderSuite({
  provider: whatsapp,
  startStandIn: startTwilioStandIn,
  account,
  otherSettings: {
    accountSid: `AC${'1'.repeat(32)}`,
    apiKeySid: `SK${'1'.repeat(32)}`,
    region: 'au1',
    edge: 'sydney',
    from: '+15005550007',
    messagingServiceSid: SERVICE_SID,
  },
  message,
  sendPath: /\/Messages\.json$/,
  verifyPath: /\/Accounts\/\w+\.json$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe(`/2010-04-01/Accounts/${ACCOUNT_SID}/Messages.json`);
    expect(received.headers).toMatchObject({
      authorization: `Basic ${btoa(`${ACCOUNT_SID}:canary-auth-token-1`)}`,
      'content-type': 'application/x-www-form-urlencoded',
    });
    expect([...new URLSearchParams(received.body)]).toEqual([
      ['To', 'whatsapp:+15551230001'],
      ['From', 'whatsapp:+15005550006'],
      ['Body', 'Hello ✓'],
      ['StatusCallback', `${message.receiptUrl}?mid=${message.id}`],
    ]);
  },
  sender: account.publicConfig.from,
  providerMessageId: /^SM[0-9a-f]{32}$/,
  errorBody: (text) => ({ code: 20001, message: text, status: 400 }),
  refusals: [
    {
      reply: refusal(400, 63024),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'invalid_recipient', code: 'undeliverable', providerCode: '63024' },
      },
    },
    {
      reply: refusal(400, 21610),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'recipient_unavailable', code: 'recipient_opted_out', providerCode: '21610' },
      },
    },
    {
      reply: refusal(400, 63016),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'outside_window', providerCode: '63016' },
      },
    },
    {
      reply: refusal(400, 63007),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'sender_unregistered', providerCode: '63007' },
      },
    },
    {
      reply: refusal(429, 63018),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', code: 'rate_limited', providerCode: '63018' },
      },
    },
    {
      reply: refusal(400, 63012),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: '63012' },
      },
    },
  ],
  wrongCredential: refusal(401, 20003),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.accountSid', 'secretConfig.authToken'],
    },
    {
      account: {
        publicConfig: { accountSid: ACCOUNT_SID, from: 'Acme Shop' },
        secretConfig: account.secretConfig,
      },
      fields: ['publicConfig.from'],
    },
    {
      account: { publicConfig: { accountSid: ACCOUNT_SID }, secretConfig: account.secretConfig },
      fields: ['publicConfig.from'],
    },
  ],
});

describe('twilio-whatsapp', () => {
  const sent = async (content: WhatsappContent, over: object = {}, config: object = {}) => {
    await using http = createHttpClient();
    await using standIn = await startTwilioStandIn();
    const outcome = await whatsapp.send(
      { ...message, content, ...over },
      {
        config: { accountSid: ACCOUNT_SID, from: '+15005550006', ...config },
        secrets: { authToken: 'token' },
      },
      contextAt(whatsapp, http, standIn.origin),
    );
    const form = standIn.received.map(({ body }) => Object.fromEntries(new URLSearchParams(body)));
    return { outcome, form: form[0] };
  };
  const template = { kind: 'template', name: CONTENT_SID, language: 'en_US' } as const;

  test('a template is sent by its ContentSid, with positional, named or no variables', async () => {
    const { form } = await sent({ ...template, variables: ['Ada', '7'] });
    expect(form).toMatchObject({ ContentSid: CONTENT_SID, ContentVariables: '{"1":"Ada","2":"7"}' });
    expect(form).not.toHaveProperty('Body');
    const named = await sent({ ...template, variables: { who: 'Ada', '2': 'x"y' } });
    expect(JSON.parse(named.form?.['ContentVariables'] ?? '')).toEqual({ who: 'Ada', '2': 'x"y' });
    expect((await sent({ ...template, variables: [] })).form).not.toHaveProperty('ContentVariables');
  });

  test.each<[string, string, WhatsappContent]>([
    [
      'a template name that is not a ContentSid',
      'invalid_template',
      { ...template, name: 'order', variables: [] },
    ],
    [
      'a separate template header',
      'unsupported_template_part',
      { ...template, variables: [], header: { type: 'text', text: 'Ada' } },
    ],
    [
      'separate template buttons',
      'unsupported_template_part',
      { ...template, variables: [], buttons: [{ type: 'url', text: 'order-1' }] },
    ],
    [
      'a caption of a document',
      'unsupported_caption',
      { kind: 'media', type: 'document', url: 'https://x.example/a.pdf', caption: 'Look' },
    ],
  ])('%s is rejected without a call, since Twilio would ignore it', async (_, code, content) => {
    const { outcome, form } = await sent(content);
    expect(outcome).toMatchObject({
      kind: 'rejected_permanent',
      failure: { class: 'content_rejected', code, providerMessage: expect.stringMatching(/\w{3}/) as string },
    });
    expect(form).toBeUndefined();
  });

  test.each([['image'], ['video'], ['audio'], ['document'], ['sticker']] as const)(
    'media of type %s are sent by URL',
    async (type) => {
      const url = 'https://x.example/a?b=c&d=ü';
      const { outcome, form } = await sent({ kind: 'media', type, url });
      expect(outcome).toMatchObject({
        kind: 'accepted',
        providerMessageId: expect.stringMatching(/^MM/) as string,
      });
      expect(form).toMatchObject({ MediaUrl: url });
      expect(form).not.toHaveProperty('Body');
    },
  );

  test('an image is sent with its caption', async () => {
    const { form } = await sent({
      kind: 'media',
      type: 'image',
      url: 'https://x.example/a.png',
      caption: 'Look',
    });
    expect(form).toMatchObject({ Body: 'Look', MediaUrl: 'https://x.example/a.png' });
  });

  test("the message's sender overrides a messaging service, which overrides the number", async () => {
    const text = message.content;
    const own = await sent(text, { from: '+15005550009' }, { messagingServiceSid: SERVICE_SID });
    expect(own.form).toMatchObject({ From: 'whatsapp:+15005550009' });
    expect(own.form).not.toHaveProperty('MessagingServiceSid');
    const service = await sent(text, {}, { messagingServiceSid: SERVICE_SID });
    expect(service.form).toMatchObject({ MessagingServiceSid: SERVICE_SID });
    expect(service.outcome).toMatchObject({ sender: SERVICE_SID });
  });

  test('ValidityPeriod ends when the message expires', async () => {
    const { form } = await sent(message.content, { expiresAt: Date.now() + 600_500 });
    expect(Number(form?.['ValidityPeriod'])).toBeGreaterThan(590);
    expect(Number(form?.['ValidityPeriod'])).toBeLessThanOrEqual(600);
  });

  test('variables, receipt URL and recipient are redacted in a rejection', async () => {
    await using http = createHttpClient();
    await using standIn = await startTwilioStandIn();
    const texts = ['Ada Lovelace', message.receiptUrl, message.to];
    standIn.fail({ kind: 'reply', status: 400, body: { code: 63005, message: `No: ${texts.join(' ')}` } });
    const outcome = await whatsapp.send(
      { ...message, content: { ...template, variables: ['Ada Lovelace'] } },
      { config: { accountSid: ACCOUNT_SID, from: '+15005550006' }, secrets: { authToken: 'token' } },
      contextAt(whatsapp, http, standIn.origin),
    );
    expect(outcome).toMatchObject({
      failure: { providerMessage: 'No: [redacted] [redacted] [redacted]' },
    });
  });

  test.each([
    ['63001', 'auth_or_config', true],
    ['63003', 'invalid_recipient', false],
    ['63005', 'content_rejected', false],
    ['63015', 'invalid_recipient', false],
    ['63019', 'provider_unavailable', true],
    ['63027', 'content_rejected', false],
    ['63032', 'recipient_unavailable', false],
    ['63049', 'recipient_unavailable', false],
    ['63058', 'sender_rejected', false],
  ])('code %s is %s, retry %s', (code, failureClass, retry) => {
    expect(TWILIO_CODES[code]).toMatchObject({ class: failureClass, retry });
  });

  // https://www.twilio.com/docs/api/errors
  test.each([
    [11751, 'content_rejected', 'invalid_media', false],
    [21655, 'content_rejected', 'invalid_template', false],
    [63002, 'auth_or_config', 'sender_unregistered', true],
    [63006, 'content_rejected', 'invalid_content', false],
    [63008, 'auth_or_config', 'forbidden', true],
    [63022, 'auth_or_config', 'sender_unregistered', true],
    [63023, 'provider_unavailable', 'provider_error', true],
    [63026, 'content_rejected', 'blocked', false],
    [63029, 'content_rejected', 'invalid_template', false],
    [63030, 'content_rejected', 'invalid_content', false],
    [63031, 'invalid_recipient', 'recipient_is_sender', false],
    [63033, 'recipient_unavailable', 'recipient_opted_out', false],
    [63034, 'content_rejected', 'invalid_media', false],
    [63040, 'content_rejected', 'template_unavailable', false],
    [63041, 'content_rejected', 'template_unavailable', false],
    [63042, 'content_rejected', 'template_unavailable', false],
    [63050, 'recipient_unavailable', 'recipient_opted_out', false],
    [63051, 'auth_or_config', 'sender_unregistered', true],
    [63053, 'provider_unavailable', 'template_not_ready', true],
    [63054, 'content_rejected', 'template_unavailable', false],
    [63059, 'auth_or_config', 'sender_unregistered', true],
    [63109, 'auth_or_config', 'sender_unregistered', true],
    [63111, 'auth_or_config', 'sender_unregistered', true],
    [63112, 'auth_or_config', 'account_suspended', true],
    [63120, 'auth_or_config', 'account_suspended', true],
  ])('code %i is %s, %s, retry %s', (code, failureClass, ourCode, retry) => {
    expect(TWILIO_CODES[code]).toEqual({ class: failureClass, code: ourCode, retry });
  });
});
