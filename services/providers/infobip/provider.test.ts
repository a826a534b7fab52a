import { describe, expect, test } from 'vitest';
import type { HttpRequest, HttpResult } from '#core/domain/sending/http-exchange.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { parsePublicConfig } from '#providers/registry.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { STATUS_CODES } from './outcomes.ts';
import definitions from './provider.ts';
import { startInfobipStandIn } from './stand-in.ts';

const [infobip] = definitions;
const account = {
  publicConfig: { baseUrl: 'xyz123.api.infobip.com', from: '+447860099299' },
  secretConfig: { apiKey: 'canary0123456789abcdef-api-key' },
};
const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Grüße & 100% +1' },
  expiresAt: Date.now() + 72 * 3_600_000,
  receiptUrl: 'https://hooks.example/v1/receipts/a/secret-token',
  attempt: 1,
} as const;

const fault = (status: number, errorCode: string, over: object = {}) => ({
  status,
  body: { errorCode, description: 'Refused', action: 'Check.', violations: [], resources: [], ...over },
});
const violation = (property: string) => ({ violations: [{ property, violation: 'is not valid' }] });
/** A refused message inside a success response. */
const rejection = (id: number, over: object = {}) => ({
  status: 200,
  body: {
    messages: [
      {
        messageId: message.id,
        destination: '15551230001',
        status: {
          groupId: 5,
          groupName: 'REJECTED',
          id,
          name: `REJECTED_${id}`,
          description: 'Refused',
          ...over,
        },
      },
    ],
  },
});

httpProviderSuite({
  provider: infobip,
  startStandIn: startInfobipStandIn,
  account,
  otherSettings: {
    baseUrl: 'other.api.infobip.com',
    from: 'Acme',
    dltEntityId: '1101',
    dltTemplateId: '1107',
  },
  message,
  sendPath: /\/sms\/3\/messages$/,
  verifyPath: /\/account\/1\/balance$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe('/sms/3/messages');
    expect(received.headers).toMatchObject({
      authorization: `App ${account.secretConfig.apiKey}`,
      accept: 'application/json',
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      messages: [
        {
          sender: '447860099299',
          destinations: [{ to: '15551230001', messageId: message.id }],
          content: { text: 'Grüße & 100% +1' },
          options: { validityPeriod: { amount: 172_800, timeUnit: 'SECONDS' } },
          webhooks: {
            delivery: { url: message.receiptUrl },
            contentType: 'application/json',
            callbackData: message.id,
          },
        },
      ],
    });
  },
  sender: account.publicConfig.from,
  providerMessageId: /^7f3b2a34-1111-4222-8333-444455556666$/,
  errorBody: (text) => ({ errorCode: 'E400', description: text, violations: [], resources: [] }),
  refusals: [
    {
      reply: rejection(52),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'invalid_number',
          providerCode: '52',
          providerMessage: 'Refused',
          httpStatus: 200,
        },
      },
    },
    {
      reply: rejection(10),
      outcome: {
        kind: 'rejected_permanent',
        // A register of the operator, which says nothing about this sender: no reason to suppress the recipient.
        failure: { class: 'recipient_unavailable', code: 'recipient_blocked', providerCode: '10' },
      },
    },
    {
      reply: rejection(13),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'sender_blocked', providerCode: '13' },
      },
    },
    {
      reply: rejection(25),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'body_too_long', providerCode: '25' },
      },
    },
    {
      reply: rejection(12),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'insufficient_credit', providerCode: '12' },
      },
    },
    {
      reply: rejection(20),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'recipient_unavailable', code: 'recipient_rate_limited', providerCode: '20' },
      },
    },
    {
      reply: rejection(21),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: '21' },
      },
    },
    {
      reply: rejection(4, { groupId: 2, groupName: 'UNDELIVERABLE' }),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'recipient_unavailable', code: 'operator_rejected', providerCode: '4' },
      },
    },
    {
      reply: rejection(999, { groupId: undefined }),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'unknown', code: 'rejected', providerCode: '999' },
      },
    },
    {
      reply: rejection(11, { groupId: undefined, groupName: undefined }),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'invalid_sender', providerCode: '11' },
      },
    },
    {
      reply: fault(400, 'E400', violation('messages[0].destinations[0].to')),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'invalid_number',
          providerCode: 'E400',
          providerMessage: 'is not valid',
        },
      },
    },
    {
      reply: fault(400, 'E400', violation('messages[0].sender')),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'sender_rejected', code: 'invalid_sender', providerCode: 'E400' },
      },
    },
    {
      reply: fault(400, 'E400', violation('messages[0].content.text')),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_content', providerCode: 'E400' },
      },
    },
    {
      reply: fault(400, 'E400', violation('messages[0].webhooks.delivery.url')),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'callback_url_refused', providerCode: 'E400' },
      },
    },
    {
      reply: rejection(56),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'callback_url_refused', providerCode: '56' },
      },
    },
    {
      reply: fault(400, 'E400'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'unknown', code: 'http_400', providerMessage: 'Refused' },
      },
    },
    {
      reply: fault(401, 'E401'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'authentication_failed', providerCode: 'E401' },
      },
    },
    {
      reply: fault(403, 'E403'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'forbidden', providerCode: 'E403' },
      },
    },
    {
      reply: fault(429, 'E429'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', code: 'rate_limited', providerCode: 'E429' },
      },
    },
  ],
  wrongCredential: fault(401, 'E401'),
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.baseUrl', 'publicConfig.from', 'secretConfig.apiKey'],
    },
    ...[
      'evil.example',
      'infobip.com.evil.example',
      'evilinfobip.com',
      'xyz.api.infobip.com/path',
      'xyz.api.infobip.com:8443',
      'user@xyz.api.infobip.com',
      'http://xyz.api.infobip.com',
      'xyz.api.infobip.com#.example',
      '127.0.0.1',
    ].map((baseUrl) => ({
      account: { publicConfig: { baseUrl, from: 'Acme' }, secretConfig: account.secretConfig },
      fields: ['publicConfig.baseUrl'],
    })),
    {
      account: {
        publicConfig: { ...account.publicConfig, from: 'A name of many words' },
        secretConfig: { apiKey: 'with space' },
      },
      fields: ['publicConfig.from', 'secretConfig.apiKey'],
    },
  ],
});

describe('infobip', () => {
  const credentials = { config: account.publicConfig, secrets: account.secretConfig };
  const setup = async () => {
    const stack = new AsyncDisposableStack();
    const http = stack.use(createHttpClient());
    const standIn = stack.use(await startInfobipStandIn());
    const context = contextAt(infobip, http, standIn.origin);
    const send = (over: object = {}) => infobip.send({ ...message, ...over }, credentials, context);
    return { send, standIn, context, [Symbol.asyncDispose]: () => stack.disposeAsync() };
  };
  const idsOf = (received: readonly { path: string; body: string }[]) =>
    received
      .filter(({ path }) => path === '/sms/3/messages')
      .map(({ body }) => /"messageId":"([^"]+)"/.exec(body)?.[1]);

  test.each(['https://XYZ123.api.infobip.com/', 'xyz123.api.infobip.com'])(
    'accepts the host %s',
    (baseUrl) => {
      expect(parsePublicConfig(infobip, { baseUrl, from: 'Acme' })).toMatchObject({
        value: { baseUrl: 'xyz123.api.infobip.com' },
      });
    },
  );

  test('a duplicate that the log shows as accepted counts as accepted and is not sent again', async () => {
    await using at = await setup();
    expect(await at.send()).toMatchObject({ kind: 'accepted', providerMessageId: message.id });
    expect(await at.send({ attempt: 2 })).toMatchObject({ kind: 'accepted', providerMessageId: message.id });
    expect(idsOf(at.standIn.received)).toEqual([message.id, message.id]);
    expect(at.standIn.received.at(-1)?.path).toBe(`/sms/3/logs?messageId=${message.id}`);
  });

  test('a duplicate counts as accepted if the log has an accepted entry beside a rejection', async () => {
    await using at = await setup();
    at.standIn.fail({ kind: 'reply', ...rejection(23) }, /messages$/);
    const results = [...rejection(12).body.messages, { status: { groupId: 1, id: 26, name: 'PENDING' } }];
    at.standIn.fail({ kind: 'reply', status: 200, body: { results } } as never, /logs/);
    expect(await at.send({ attempt: 2 })).toMatchObject({ kind: 'accepted', providerMessageId: message.id });
    expect(idsOf(at.standIn.received)).toHaveLength(1);
  });

  test.each<[string, object, string]>([
    ['no answer', { kind: 'reset' }, 'connection_reset'],
    ['too many requests', { kind: 'reply', ...fault(429, 'E429') }, 'rate_limited'],
    ['a server error', { kind: 'reply', ...fault(500, 'E500') }, 'provider_error'],
    ['a refusal', { kind: 'reply', ...fault(403, 'E403') }, 'forbidden'],
    ['no entry', { kind: 'reply', status: 200, body: { results: [] } }, 'not_in_log'],
    [
      'only the duplicate',
      { kind: 'reply', status: 200, body: { results: rejection(23).body.messages } },
      'not_in_log',
    ],
  ])('a duplicate is ambiguous while the log gives %s', async (_, answer, code) => {
    await using at = await setup();
    at.standIn.fail({ kind: 'reply', ...rejection(23) }, /messages$/);
    at.standIn.fail(answer as never, /logs/);
    expect(await at.send({ attempt: 2 })).toMatchObject({ kind: 'ambiguous', failure: { code } });
    expect(idsOf(at.standIn.received)).toHaveLength(1);
  });

  test('a message whose id was used by a rejected attempt is sent under its next id', async () => {
    await using at = await setup();
    at.standIn.fail({ kind: 'reply', ...rejection(12) }, /messages$/);
    expect(await at.send()).toMatchObject({ kind: 'rejected_transient' });
    at.standIn.fail({ kind: 'reply', ...rejection(23) }, /messages$/);
    at.standIn.fail({ kind: 'reply', status: 200, body: { results: rejection(12).body.messages } }, /logs/);
    expect(await at.send({ attempt: 2 })).toMatchObject({
      kind: 'accepted',
      providerMessageId: `${message.id}-2`,
    });
    expect(idsOf(at.standIn.received)).toEqual([message.id, message.id, `${message.id}-2`]);
    for (const { body } of at.standIn.received.filter(({ method }) => method === 'POST'))
      expect(body).toContain(`"callbackData":"${message.id}"`);
  });

  /** An account without credit at first, whose log has every id. */
  const withoutCredit = (rejected: number, forgotten = 0) => {
    const idAt = (count: number) => (count === 1 ? message.id : `${message.id}-${count}`);
    const past = new Set(Array.from({ length: forgotten }, (_, index) => idAt(index + 1)));
    const taken = new Map(Array.from({ length: rejected }, (_, index) => [idAt(index + 1), 12]));
    const calls: string[] = [];
    let isOut = false;
    let credit = 0;
    const statusOf = (id: number) => rejection(id, id === 26 ? { groupId: 1, groupName: 'PENDING' } : {});
    const answer = ({ method, url, body }: HttpRequest) => {
      const [, asked = ''] = /messageId=(.+)$/.exec(url) ?? [];
      const known = past.has(asked) ? undefined : taken.get(asked);
      if (method === 'GET') return { results: known === undefined ? [] : statusOf(known).body.messages };
      const [, id = ''] = /"messageId":"([^"]+)"/.exec(String(body)) ?? [];
      const status = taken.has(id) ? 23 : credit > 0 ? 26 : 12;
      if (status !== 23) taken.set(id, status);
      const [one] = statusOf(status).body.messages;
      return { messages: [{ ...one, messageId: id }] };
    };
    const context = {
      ...contextAt(infobip, undefined as never, ''),
      http: async (request: HttpRequest): Promise<HttpResult> => {
        calls.push(request.method);
        if (isOut && calls.length > 2) return { kind: 'not_sent', code: 'timeout' };
        return { kind: 'response', status: 200, headers: {}, text: JSON.stringify(answer(request)) };
      },
    };
    return {
      send: (attempt: number) => infobip.send({ ...message, attempt }, credentials, context),
      calls,
      buy: () => (credit = 1),
      runOut: () => (isOut = true),
      idAt,
    };
  };

  test('a message that was rejected ten times for want of credit is sent once there is credit', async () => {
    const at = withoutCredit(0);
    for (let attempt = 1; attempt <= 10; attempt += 1)
      expect(await at.send(attempt)).toMatchObject({
        kind: 'rejected_transient',
        failure: { code: 'insufficient_credit' },
      });
    at.buy();
    expect(await at.send(11)).toMatchObject({ kind: 'accepted', providerMessageId: at.idAt(11) });
    expect(await at.send(12)).toMatchObject({ kind: 'accepted', providerMessageId: at.idAt(11) });
  });

  test.each([
    [260, 261, 6],
    [260, 400, 24],
    [2, 998, 26],
  ])('after %i used ids, attempt %i needs at most %i calls', async (rejected, attempt, callsMax) => {
    const at = withoutCredit(rejected);
    at.buy();
    expect(await at.send(attempt)).toMatchObject({ providerMessageId: at.idAt(rejected + 1) });
    expect(at.calls.length).toBeLessThanOrEqual(callsMax);
  });

  test('a message is sent although the log no longer has the ids of its first attempts', async () => {
    const at = withoutCredit(600, 100);
    at.buy();
    expect(await at.send(601)).toMatchObject({ kind: 'accepted', providerMessageId: at.idAt(601) });
  });

  test('a search for the last used id that runs out of time is transient', async () => {
    const at = withoutCredit(260);
    at.runOut();
    expect(await at.send(261)).toMatchObject({ kind: 'rejected_transient', failure: { code: 'timeout' } });
  });

  test('a message whose ids are all used ends, which is no fault of the account', async () => {
    expect(await withoutCredit(999).send(1_200)).toEqual({
      kind: 'rejected_permanent',
      failure: { class: 'unknown', code: 'ids_used_up' },
    });
  });

  test("the message's sender overrides the account's, and an alphanumeric one is sent unchanged", async () => {
    await using at = await setup();
    expect(await at.send({ from: 'Acme + Co' })).not.toHaveProperty('sender');
    expect(at.standIn.received[0]?.body).toContain('"sender":"Acme + Co"');
    await at.send({ id: '7f3b2a34-1111-4222-8333-444455556667', from: '+Acme' });
    expect(at.standIn.received[1]?.body).toContain('"sender":"+Acme"');
  });

  test('the validity period ends at expiry, and no report is requested without a receipt URL', async () => {
    await using at = await setup();
    await at.send({ expiresAt: Date.now() + 600_500, receiptUrl: undefined });
    const [sent] = (JSON.parse(at.standIn.received[0]?.body ?? '') as { messages: Record<string, never>[] })
      .messages;
    expect(sent).toMatchObject({
      options: { validityPeriod: { timeUnit: 'SECONDS' } },
      webhooks: { contentType: 'application/json', callbackData: message.id },
    });
    expect(sent?.['webhooks']).not.toHaveProperty('delivery');
    const { amount } = (sent?.['options'] as { validityPeriod: { amount: number } } | undefined)
      ?.validityPeriod ?? { amount: 0 };
    expect(amount).toBeGreaterThan(590);
    expect(amount).toBeLessThanOrEqual(600);
  });

  test('every call marks its host as chosen by the tenant', async () => {
    await using at = await setup();
    const requests: unknown[] = [];
    const context = {
      ...at.context,
      http: async (request: Parameters<typeof at.context.http>[0]) => {
        requests.push([request.isTenantHost, request.url.replace(/\?.*/, '').replace(at.standIn.origin, '')]);
        return at.context.http(request);
      },
    };
    await infobip.send(message, credentials, context);
    await infobip.send(message, credentials, context);
    await infobip.verify(credentials, context);
    expect(requests).toEqual([
      [true, '/sms/3/messages'],
      [true, '/sms/3/messages'],
      [true, '/sms/3/logs'],
      [true, '/account/1/balance'],
    ]);
  });

  test("a rejection's text, receipt URL and number are redacted", async () => {
    await using at = await setup();
    const description = `No: ${message.content.body} ${message.receiptUrl} 15551230001`;
    at.standIn.fail({ kind: 'reply', ...fault(400, 'E400', { description }) });
    expect(await at.send()).toMatchObject({
      failure: { providerMessage: 'No: [redacted] [redacted] [redacted]' },
    });
  });

  test('the credential check of a key without access to the balance returns unknown', async () => {
    await using at = await setup();
    at.standIn.fail({ kind: 'reply', ...fault(403, 'E403') });
    expect(await infobip.verify(credentials, at.context)).toMatchObject({
      kind: 'unknown',
      failure: { code: 'forbidden' },
    });
  });

  test.each([
    ['6', 'sender_rejected', false],
    ['8', 'invalid_recipient', false],
    ['14', 'recipient_unavailable', false],
    ['16', 'provider_unavailable', true],
    ['17', 'auth_or_config', true],
    ['18', 'sender_rejected', false],
    ['24', 'content_rejected', false],
  ])('status %s is %s, retry %s', (id, failureClass, retry) => {
    expect(STATUS_CODES[id]).toMatchObject({ class: failureClass, retry });
  });
});
