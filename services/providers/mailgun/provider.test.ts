import { describe, expect, test } from 'vitest';
import type { EmailContent } from '#core/domain/message/content.ts';
import { causeOfRefusal } from '#core/domain/recipient/suppression-cause.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import type { Fault } from '../stand-in.ts';
import mailgun from './provider.ts';
import { startMailgunStandIn } from './stand-in.ts';

const account = {
  publicConfig: {
    domain: 'mg.acme.example',
    from: 'news@acme.example',
    fromName: 'Acme',
    replyTo: 'team@acme.example',
  },
  secretConfig: { apiKey: 'canary-sending-key-1', webhookSigningKey: 'canary-signing-key-1' },
};
const message = {
  channel: 'email',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: 'ada@example.com',
  content: {
    from: { name: 'Zoë "Z" Doe, jr.', address: 'zoe@acme.example' },
    replyTo: { name: 'Help', address: 'help@acme.example' },
    subject: 'Grüße ✓',
    text: 'Hello & bye',
    html: '<p>Hello</p>',
    headers: { 'X-Campaign': 'spring', 'List-Unsubscribe': '<https://acme.example/u/1>' },
  },
  expiresAt: Date.now() + 86_400_000,
  attempt: 1,
} as const;
const fields = {
  from: '"Zoë \\"Z\\" Doe, jr." <zoe@acme.example>',
  to: 'ada@example.com',
  subject: 'Grüße ✓',
  text: 'Hello & bye',
  html: '<p>Hello</p>',
  'h:Reply-To': '"Help" <help@acme.example>',
  'h:X-Campaign': 'spring',
  'h:List-Unsubscribe': '<https://acme.example/u/1>',
  'v:despatch_message_id': message.id,
};

const refused = (
  status: number,
  text: string,
  kind: 'rejected_permanent' | 'rejected_transient',
  failure: object,
) => ({
  reply: { status, body: { message: text } },
  outcome: { kind, failure: { ...failure, httpStatus: status } } as never,
});
const never = 'rejected_permanent';
const later = 'rejected_transient';

httpProviderSuite({
  provider: mailgun,
  startStandIn: startMailgunStandIn,
  account,
  otherSettings: {
    domain: 'mg.other.example',
    region: 'eu',
    from: 'other@acme.example',
    fromName: 'Other',
    replyTo: 'else@acme.example',
  },
  message,
  sendPath: /\/messages$/,
  // The account's key may only send, so the check tries the send endpoint.
  verifyPath: /\/messages$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe('/v3/mg.acme.example/messages');
    expect(received.headers).toMatchObject({
      authorization: `Basic ${btoa('api:canary-sending-key-1')}`,
      'content-type': 'application/x-www-form-urlencoded',
    });
    expect([...new URLSearchParams(received.body)]).toEqual(Object.entries(fields));
  },
  sender: undefined,
  providerMessageId: /^[^<>]+@mg\.acme\.example$/,
  errorBody: (text) => ({ message: text }),
  refusals: [
    refused(400, "'to' parameter is not a valid address. please check documentation", never, {
      class: 'invalid_recipient',
      code: 'invalid_address',
      providerMessage: "'to' parameter is not a valid address. please check documentation",
    }),
    refused(400, "'from' parameter is not a valid address. please check documentation", never, {
      class: 'sender_rejected',
      code: 'invalid_sender',
    }),
    refused(400, "Need at least one of 'text', 'html' parameters specified", never, {
      class: 'content_rejected',
      code: 'invalid_content',
    }),
    refused(
      403,
      'Domain mg.acme.example is not allowed to send: Free accounts are for test purposes only.',
      never,
      {
        class: 'sender_rejected',
        code: 'trial_restriction',
      },
    ),
    refused(400, 'Domain mg.acme.example is not allowed to send: recipient limit exceeded', later, {
      class: 'provider_throttled',
      code: 'rate_limited',
    }),
    // A new account that has sent more than a hundred mails in an hour.
    refused(
      400,
      'Domain mg.acme.example is not allowed to send: You are sending too fast. Your account is on probation and the account has been temporarily disabled.',
      later,
      { class: 'provider_throttled', code: 'rate_limited' },
    ),
    refused(400, 'Send options (parameters starting with o:, h:, or v:) are limited to 16 kB total', never, {
      class: 'content_rejected',
      code: 'invalid_headers',
    }),
    refused(403, 'The domain is unverified and requires DNS configuration.', later, {
      class: 'auth_or_config',
      code: 'sender_unverified',
    }),
    refused(
      420,
      'Domain mg.acme.example is not allowed to send: recipient limit exceeded, try again after Mon, 25 Aug 2025 07:00:31 UTC',
      later,
      { class: 'provider_throttled', code: 'rate_limited' },
    ),
    refused(403, 'Domain mg.acme.example is not allowed to send', later, {
      class: 'auth_or_config',
      code: 'account_suspended',
    }),
    refused(404, 'Domain not found: mg.acme.example', later, {
      class: 'auth_or_config',
      code: 'domain_not_found',
    }),
    // Every sandbox domain has this word in its name.
    refused(
      403,
      'Domain sandbox1.mailgun.org is not allowed to send: Please activate your Mailgun account. Check your inbox',
      later,
      { class: 'auth_or_config', code: 'account_suspended' },
    ),
    refused(403, 'Domain sandbox1.mailgun.org is not allowed to send: recipient limit exceeded', later, {
      class: 'provider_throttled',
      code: 'rate_limited',
    }),
    refused(
      403,
      'Domain sandbox1.mailgun.org is not allowed to send: Sandbox subdomains are for test purposes only. Please add your own domain or add the address to authorized recipients in Account Settings.',
      never,
      { class: 'sender_rejected', code: 'trial_restriction' },
    ),
    refused(402, 'Payment required', later, { class: 'auth_or_config', code: 'insufficient_credit' }),
    refused(400, 'Something new', never, { class: 'unknown', code: 'http_400' }),
    {
      reply: { status: 401, body: 'Forbidden' },
      outcome: {
        kind: later,
        failure: { class: 'auth_or_config', code: 'authentication_failed', httpStatus: 401 },
      },
    },
    {
      reply: { status: 413, body: '' },
      outcome: { kind: never, failure: { class: 'content_rejected', code: 'payload_too_large' } },
    },
    {
      reply: { status: 200, body: 'Mailgun Magnificent API' },
      outcome: { kind: later, failure: { class: 'auth_or_config', code: 'wrong_endpoint' } },
    },
  ],
  wrongCredential: { status: 401, body: 'Forbidden' },
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.domain', 'secretConfig.apiKey'],
    },
    {
      account: {
        publicConfig: {
          domain: 'mg.acme.example/../evil',
          region: 'moon',
          from: 'not-a-mail-address',
          fromName: 'Evil\r\nBcc: x@example.com',
          replyTo: 'neither',
        },
        secretConfig: { apiKey: 'canary\r\nx-injected: 1', webhookSigningKey: 'canary two' },
      },
      fields: [
        'publicConfig.domain',
        'publicConfig.region',
        'publicConfig.from',
        'publicConfig.fromName',
        'publicConfig.replyTo',
        'secretConfig.apiKey',
        'secretConfig.webhookSigningKey',
      ],
    },
  ],
});

describe('mailgun', () => {
  const credentials = (config: object = {}, apiKey = 'key-1') => ({
    config: { domain: 'mg.acme.example', region: 'us' as const, ...config },
    secrets: { apiKey },
  });
  const sent = async (over: Partial<EmailContent>, config: object = {}, remainingMs = 86_400_000) => {
    await using http = createHttpClient();
    await using standIn = await startMailgunStandIn();
    const context = { ...contextAt(mailgun, http, standIn.origin), epochMs: () => 0 };
    const content = { from: { address: 'news@acme.example' }, subject: 's', ...over };
    const outcome = await mailgun.send(
      { ...message, content, expiresAt: remainingMs },
      credentials(config),
      context,
    );
    expect(outcome).toMatchObject({ kind: 'accepted' });
    const { body = '', headers = {} } = standIn.received[0] ?? {};
    return new Response(body, { headers: { 'content-type': headers['content-type'] ?? '' } }).formData();
  };

  test('attachments are sent as form files with their names and types', async () => {
    const attachments = [
      { filename: 'a.txt', contentType: 'text/plain', content: btoa('one\r\n--despatch') },
      { filename: 'Übersicht.csv', contentType: 'text/csv', content: btoa('two') },
    ];
    const form = await sent({ ...message.content, attachments });
    const [first, second] = form.getAll('attachment') as File[];
    form.delete('attachment');
    expect([...form]).toEqual(Object.entries(fields));
    expect([first?.name, first?.type, await first?.text()]).toEqual([
      'a.txt',
      'text/plain',
      'one\r\n--despatch',
    ]);
    expect([second?.name, second?.type, await second?.text()]).toEqual(['Übersicht.csv', 'text/csv', 'two']);
  });

  test('a mail without content has the text part that the API requires', async () => {
    expect((await sent({})).get('text')).toBe(' ');
    expect((await sent({ html: '<p>x</p>' })).has('text')).toBe(false);
  });

  test("the account's name and reply address are used if the mail has none", async () => {
    const form = await sent(
      {},
      { from: 'news@acme.example', fromName: 'Acme', replyTo: 'team@acme.example' },
    );
    expect(form.get('from')).toBe('"Acme" <news@acme.example>');
    expect(form.get('h:Reply-To')).toBe('team@acme.example');
  });

  test('the domains of sender and reply address are sent in ASCII', async () => {
    const form = await sent({
      from: { name: 'Müller', address: 'news@münchen.example' },
      replyTo: { address: 'help@münchen.example' },
    });
    expect(form.get('from')).toBe('"Müller" <news@xn--mnchen-3ya.example>');
    expect(form.get('h:Reply-To')).toBe('help@xn--mnchen-3ya.example');
  });

  test('a sender that Mailgun does not support is rejected as invalid_sender, without a call', async () => {
    await using http = createHttpClient();
    await using standIn = await startMailgunStandIn();
    const mail = {
      ...message,
      content: { ...message.content, from: { address: 'jürgen@acme.example' } },
    };
    expect(await mailgun.send(mail, credentials({}), contextAt(mailgun, http, standIn.origin))).toEqual({
      kind: 'rejected_permanent',
      failure: { class: 'sender_rejected', code: 'invalid_sender' },
    });
    expect(standIn.received).toEqual([]);
  });

  test.each([
    ["'h:Reply-To' parameter is not a valid address. please check documentation", 'invalid_reply_to'],
    ["'from' parameter is not a valid address: recipient-care@acme.example", 'invalid_sender'],
    ["'from' parameter is not a valid address: reply-to@acme", 'invalid_sender'],
    ['The recipient is refused', 'address_refused'],
  ])('a text that does not say that the recipient is at fault suppresses nobody: %s', async (text, code) => {
    await using http = createHttpClient();
    await using standIn = await startMailgunStandIn();
    standIn.fail({ kind: 'reply', status: 400, body: { message: text } });
    const outcome = await mailgun.send(message, credentials(), contextAt(mailgun, http, standIn.origin));
    expect(outcome).toMatchObject({ kind: 'rejected_permanent', failure: { code } });
    expect(causeOfRefusal(outcome)).toBeNull();
  });

  test('a non-ASCII mailbox that Mailgun does not take suppresses nobody', async () => {
    await using http = createHttpClient();
    await using standIn = await startMailgunStandIn();
    const text = "'to' parameter is not a valid address. please check documentation";
    standIn.fail({ kind: 'reply', status: 400, body: { message: text } });
    const mail = { ...message, to: 'dån@example.com' };
    const outcome = await mailgun.send(mail, credentials(), contextAt(mailgun, http, standIn.origin));
    expect(outcome).toMatchObject({
      kind: 'rejected_permanent',
      failure: { class: 'invalid_recipient', code: 'unsupported_address', providerMessage: text },
    });
    expect(causeOfRefusal(outcome)).toBeNull();
  });

  test.each<[status: number, rest: string, wait: number | undefined]>([
    [420, ', try again after Mon, 25 Aug 2025 07:00:31 UTC', 30_000],
    [429, ', try again after Mon, 25 Aug 2025 07:00:31 UTC', 30_000],
    [403, ', try again after Mon, 25 Aug 2025 07:00:31 UTC', 30_000],
    [420, ', try again after Mon, 25 Aug 2025 06:00:00 UTC', 1_000],
    [420, ', try again after Tue, 26 Aug 2025 07:00:31 UTC', 900_000],
    [420, ', try again after a while', undefined],
    [420, '', undefined],
  ])('a limit reported with %i and "%s" is waited for: %s ms', async (status, rest, retryAfterMs) => {
    await using http = createHttpClient();
    await using standIn = await startMailgunStandIn();
    const text = `Domain mg.acme.example is not allowed to send: recipient limit exceeded${rest}`;
    standIn.fail({ kind: 'reply', status, body: { message: text } });
    const context = {
      ...contextAt(mailgun, http, standIn.origin),
      epochMs: () => Date.parse('2025-08-25T07:00:01Z'),
    };
    expect(await mailgun.send(message, credentials(), context)).toEqual({
      kind: 'rejected_transient',
      failure: {
        class: 'provider_throttled',
        code: 'rate_limited',
        providerMessage: text,
        httpStatus: status,
      },
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  });

  test.each([
    [1_000, '5m'],
    [600_000, '10m'],
    [3_600_000, '1h'],
    [5_430_000, '1h30m'],
    [8 * 3_600_000 - 1, '7h59m'],
    [8 * 3_600_000, null],
  ])('a mail that expires in %i ms has the delivery window %s', async (remainingMs, window) => {
    expect((await sent({}, {}, remainingMs)).get('o:deliver-within')).toBe(window);
  });

  const checked = async (apiKey: string, ...faults: readonly Fault[]) => {
    await using http = createHttpClient();
    await using standIn = await startMailgunStandIn();
    for (const fault of faults) standIn.fail(fault);
    const verification = await mailgun.verify(
      credentials({}, apiKey),
      contextAt(mailgun, http, standIn.origin),
    );
    return { verification, paths: standIn.received.map(({ method, path }) => `${method} ${path}`) };
  };
  const reply = (status: number, body: unknown) => ({ kind: 'reply', status, body }) as const;
  const domain = (state: string) => reply(200, { domain: { name: 'mg.acme.example', state } });

  test('the credential check of an account key reads the state of its domain', async () => {
    expect(await checked('key-1')).toEqual({
      verification: { kind: 'valid' },
      paths: ['GET /v4/domains/mg.acme.example'],
    });
  });

  test.each([
    ['unverified', 'sender_unverified'],
    ['disabled', 'account_suspended'],
  ])('the credential check returns invalid for a domain that is %s', async (state, code) => {
    expect((await checked('key-1', domain(state))).verification).toMatchObject({
      kind: 'invalid',
      failure: { class: 'auth_or_config', code, providerCode: state },
    });
  });

  test('the credential check returns invalid for a domain in the other region', async () => {
    const { verification } = await checked('key-1', reply(404, { message: 'Domain not found' }));
    expect(verification).toMatchObject({ kind: 'invalid', failure: { code: 'domain_not_found' } });
  });

  test('the credential check of a sending key tries the send endpoint', async () => {
    const { verification, paths } = await checked('sending-key');
    expect(verification).toEqual({ kind: 'valid' });
    expect(paths).toEqual(['GET /v4/domains/mg.acme.example', 'POST /v3/mg.acme.example/messages']);
  });

  test('the credential check of a key that may neither read nor send returns invalid', async () => {
    const { verification } = await checked('x', reply(401, 'Forbidden'), reply(401, 'Forbidden'));
    expect(verification).toMatchObject({ kind: 'invalid', failure: { code: 'authentication_failed' } });
  });

  test('the credential check returns valid for an unknown domain state', async () => {
    expect((await checked('key-1', domain('constructor'))).verification).toEqual({ kind: 'valid' });
  });
});
