import { generateKeyPairSync } from 'node:crypto';
import { decodeJwt, jwtVerify } from 'jose';
import { describe, expect, test } from 'vitest';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { parseAccount } from '#providers/registry.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import { secretsToRedact, signerOf, type Account } from './account.ts';
import { fcmMessage } from './message.ts';
import { FCM_CODES } from './outcomes.ts';
import fcm from './provider.ts';
import { startFcmStandIn } from './stand-in.ts';

const { privateKey, publicKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});
const ellipticKey = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
}).privateKey;

const CLIENT_EMAIL = 'sender@my-app-1a2b3.iam.gserviceaccount.com';
const sent = {
  publicConfig: { projectId: 'my-app-1a2b3', clientEmail: CLIENT_EMAIL },
  secretConfig: { privateKey },
};
const account: Account = { config: sent.publicConfig, secrets: { privateKey } };
const message = {
  channel: 'push',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: 'device-token-1:APA91b',
  content: {
    title: 'Hi',
    body: 'There',
    data: { a: 'x', n: 1, o: { p: true } },
    badge: 3,
    sound: 'ding',
    collapseKey: 'k',
  },
  expiresAt: Date.now() + 3_600_500,
  attempt: 1,
} as const;

const refusal = (status: number, googleStatus: string, errorCode?: string, text = 'Refused') => ({
  status,
  body: {
    error: {
      code: status,
      message: text,
      status: googleStatus,
      details:
        errorCode === undefined
          ? []
          : [{ '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode }],
    },
  },
});

httpProviderSuite({
  provider: fcm,
  startStandIn: startFcmStandIn,
  account: sent,
  otherSettings: { projectId: 'other-project', clientEmail: 'other@acme.example' },
  message,
  sendPath: /\/messages:send$/,
  verifyPath: /^\/token$/,
  request: (received) => {
    expect(received.method).toBe('POST');
    expect(received.path).toBe('/v1/projects/my-app-1a2b3/messages:send');
    expect(received.headers).toMatchObject({
      authorization: expect.stringMatching(/^Bearer ya29\./) as string,
      'content-type': 'application/json',
    });
    expect(JSON.parse(received.body)).toEqual({
      message: {
        token: 'device-token-1:APA91b',
        notification: { title: 'Hi', body: 'There' },
        data: { a: 'x', n: '1', o: '{"p":true}' },
        android: {
          priority: 'HIGH',
          ttl: expect.stringMatching(/^3(?:600|59\d)s$/) as string,
          collapse_key: 'k',
          notification: { sound: 'ding', notification_count: 3 },
        },
        apns: {
          headers: {
            'apns-push-type': 'alert',
            'apns-priority': '10',
            'apns-expiration': expect.stringMatching(/^\d{10}$/) as string,
            'apns-collapse-id': 'k',
          },
          payload: { aps: { badge: 3, sound: 'ding' } },
        },
        webpush: { headers: { TTL: expect.stringMatching(/^3(?:600|59\d)$/) as string } },
      },
    });
  },
  sender: undefined,
  providerMessageId: /^projects\/my-app-1a2b3\/messages\/0:/,
  errorBody: (text) => refusal(400, 'INVALID_ARGUMENT', 'INVALID_ARGUMENT', text).body,
  refusals: [
    {
      reply: refusal(404, 'NOT_FOUND', 'UNREGISTERED'),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'unregistered',
          providerCode: 'UNREGISTERED',
          providerMessage: 'Refused',
          httpStatus: 404,
        },
      },
    },
    {
      // Without the code of an FcmError, it is the project that was not found, not the device.
      reply: refusal(404, 'NOT_FOUND'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'project_not_found', providerCode: 'NOT_FOUND' },
      },
    },
    {
      reply: refusal(
        400,
        'INVALID_ARGUMENT',
        'INVALID_ARGUMENT',
        'The registration token is not a valid FCM registration token',
      ),
      outcome: { kind: 'rejected_permanent', failure: { class: 'invalid_recipient', code: 'invalid_token' } },
    },
    {
      reply: {
        status: 400,
        body: {
          error: {
            code: 400,
            status: 'INVALID_ARGUMENT',
            message: 'Invalid value',
            details: [
              {
                '@type': 'type.googleapis.com/google.rpc.BadRequest',
                fieldViolations: [{ field: 'message.data[0].value' }],
              },
            ],
          },
        },
      },
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'content_rejected', code: 'invalid_parameter' },
      },
    },
    {
      reply: refusal(403, 'PERMISSION_DENIED', 'SENDER_ID_MISMATCH'),
      outcome: {
        kind: 'rejected_permanent',
        failure: {
          class: 'invalid_recipient',
          code: 'token_of_other_project',
          providerCode: 'SENDER_ID_MISMATCH',
        },
      },
    },
    {
      reply: refusal(403, 'PERMISSION_DENIED'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'auth_or_config', code: 'forbidden', providerCode: 'PERMISSION_DENIED' },
      },
    },
    {
      reply: refusal(429, 'RESOURCE_EXHAUSTED', 'QUOTA_EXCEEDED'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_throttled', code: 'rate_limited', providerCode: 'QUOTA_EXCEEDED' },
      },
    },
    {
      reply: refusal(503, 'UNAVAILABLE', 'UNAVAILABLE'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: 'UNAVAILABLE' },
      },
    },
    {
      reply: refusal(500, 'INTERNAL', 'INTERNAL'),
      outcome: {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: 'INTERNAL' },
      },
    },
    {
      // Google may have completed the call all the same.
      reply: refusal(504, 'DEADLINE_EXCEEDED'),
      outcome: {
        kind: 'ambiguous',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: 'DEADLINE_EXCEEDED' },
      },
    },
    {
      reply: refusal(499, 'CANCELLED'),
      outcome: {
        kind: 'ambiguous',
        failure: { class: 'provider_unavailable', code: 'provider_error', providerCode: 'CANCELLED' },
      },
    },
    {
      reply: refusal(400, 'SOMETHING_NEW'),
      outcome: {
        kind: 'rejected_permanent',
        failure: { class: 'unknown', code: 'http_400', providerCode: 'SOMETHING_NEW' },
      },
    },
  ],
  wrongCredential: {
    status: 400,
    body: { error: 'invalid_grant', error_description: 'Invalid JWT Signature.' },
  },
  invalidAccounts: [
    {
      account: { publicConfig: {}, secretConfig: {} },
      fields: ['publicConfig.projectId', 'secretConfig.privateKey'],
    },
    {
      account: {
        publicConfig: { ...sent.publicConfig, projectId: 'a/../b' },
        secretConfig: { privateKey: ellipticKey },
      },
      fields: ['publicConfig.projectId', 'secretConfig.privateKey'],
    },
    {
      account: { publicConfig: { projectId: 'my-app-1a2b3' }, secretConfig: { privateKey } },
      fields: ['publicConfig.clientEmail'],
    },
    {
      account: {
        publicConfig: { projectId: 'my-app-1a2b3' },
        secretConfig: { serviceAccountJson: '{"client_email": 7}' },
      },
      fields: ['secretConfig.serviceAccountJson'],
    },
  ],
});

describe('fcm', () => {
  async function setup() {
    const http = createHttpClient();
    const standIn = await startFcmStandIn();
    const context = contextAt(fcm, http, standIn.origin);
    const sendIn = (of: typeof context, over: object = {}) => fcm.send({ ...message, ...over }, account, of);
    const paths = () => standIn.received.map(({ path }) => (path === '/token' ? 'token' : 'send'));
    return {
      standIn,
      context,
      paths,
      send: (over?: object) => sendIn(context, over),
      sendUntil: (until: AbortSignal) => sendIn(contextAt(fcm, http, standIn.origin, until)),
      [Symbol.asyncDispose]: async () => {
        await http[Symbol.asyncDispose]();
        await standIn[Symbol.asyncDispose]();
      },
    };
  }

  test('concurrent sends request one token, with an assertion signed by the service account', async () => {
    await using it = await setup();
    await Promise.all([it.send(), it.send(), it.send()]);
    await it.send();
    expect(it.paths().filter((step) => step === 'token')).toHaveLength(1);
    const assertion = new URLSearchParams(it.standIn.received[0]?.body).get('assertion') ?? '';
    expect(decodeJwt(assertion)).toMatchObject({
      iss: CLIENT_EMAIL,
      aud: 'https://oauth2.googleapis.com/token',
      scope: 'https://www.googleapis.com/auth/firebase.messaging',
    });
    const { createPublicKey } = await import('node:crypto');
    await expect(jwtVerify(assertion, createPublicKey(publicKey))).resolves.toBeTruthy();
  });

  test('the stand-in answers a call without a token and one without a recipient as Google does', async () => {
    await using it = await setup();
    const answer = async (authorization: string, message: object) => {
      const url = `${it.standIn.origin}/v1/projects/my-app/messages:send`;
      const body = JSON.stringify({ message });
      const response = await fetch(url, { method: 'POST', headers: { authorization }, body });
      return ((await response.json()) as { error: object }).error;
    };
    const refused = await answer('Bearer other', { token: 'device-token-1' });
    expect(refused).toMatchObject({ code: 401, status: 'UNAUTHENTICATED' });
    // Which is no code of an FcmError.
    expect(refused).not.toHaveProperty('details');
    expect(await answer('Bearer ya29.any', {})).toMatchObject({
      code: 400,
      message: 'Recipient of the message is not set.',
      status: 'INVALID_ARGUMENT',
      details: [
        {
          '@type': 'type.googleapis.com/google.rpc.BadRequest',
          fieldViolations: [{ field: 'message' }],
        },
        {
          '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError',
          errorCode: 'INVALID_ARGUMENT',
        },
      ],
    });
  });

  test('a token refused before it expires is replaced, and the message is accepted', async () => {
    await using it = await setup();
    await it.send();
    it.standIn.fail({ kind: 'reply', ...refusal(401, 'UNAUTHENTICATED') }, /send$/);
    expect(await it.send()).toMatchObject({ kind: 'accepted' });
    expect(it.paths()).toEqual(['token', 'send', 'send', 'token', 'send']);
  });

  test("a missing APNs credential rejects the message, but keeps the account's token", async () => {
    await using it = await setup();
    await it.send();
    it.standIn.fail({ kind: 'reply', ...refusal(401, 'UNAUTHENTICATED', 'THIRD_PARTY_AUTH_ERROR') }, /send$/);
    expect(await it.send()).toMatchObject({
      kind: 'rejected_permanent',
      failure: { class: 'sender_rejected', code: 'push_certificate_missing' },
    });
    expect(await it.send()).toMatchObject({ kind: 'accepted' });
    expect(it.paths()).toEqual(['token', 'send', 'send', 'send']);
  });

  test.each([
    ['hangs', { kind: 'hang' }, 'provider_unavailable'],
    ['resets', { kind: 'reset' }, 'provider_unavailable'],
    ['is throttled', { kind: 'reply', status: 429, body: '' }, 'provider_throttled'],
    [
      'is behind a gateway that waits in vain',
      { kind: 'reply', status: 504, body: '' },
      'provider_unavailable',
    ],
    ['sends an unreadable answer', { kind: 'reply', status: 200, body: 'hm' }, 'provider_unavailable'],
    ['refuses the key', { kind: 'reply', status: 400, body: { error: 'invalid_grant' } }, 'auth_or_config'],
    ['answers with an unknown 4xx', { kind: 'reply', status: 422, body: {} }, 'unknown'],
    ['is not found', { kind: 'reply', status: 404, body: {} }, 'provider_unavailable'],
  ] as const)(
    'a token endpoint that %s gives a transient failure without a send',
    async (_, fault, failureClass) => {
      await using it = await setup();
      const deadline = new AbortController();
      const timed = { ...fault, onReached: () => deadline.abort() };
      it.standIn.fail(timed, /^\/token$/);
      expect(await it.sendUntil(deadline.signal)).toMatchObject({
        kind: 'rejected_transient',
        failure: { class: failureClass },
      });
      expect(it.paths()).toEqual(['token']);
      expect(await it.send()).toMatchObject({ kind: 'accepted' });
    },
  );

  const quota = (text: string, violations: readonly object[]) => {
    const { status, body } = refusal(429, 'RESOURCE_EXHAUSTED', 'QUOTA_EXCEEDED', text);
    const failure = { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations };
    return { status, body: { error: { ...body.error, details: [...body.error.details, failure] } } };
  };

  test.each([
    ['with a violation of a device', 'recipient_unavailable', quota('No', [{ subject: 'device' }])],
    [
      'with a violation by a device',
      'recipient_unavailable',
      quota('No', [{ subject: 7 }, { description: 'Device message rate exceeded.' }]),
    ],
    ['whose text names a device', 'recipient_unavailable', quota('Device quota exceeded.', [])],
    ['of the project', 'provider_throttled', quota('Message rate exceeded.', [{ subject: 'project' }])],
    [
      'of all sends',
      'provider_throttled',
      refusal(429, 'RESOURCE_EXHAUSTED', undefined, 'Quota of any device exceeded'),
    ],
  ])('a limit %s is %s', async (_, failureClass, reply) => {
    await using it = await setup();
    it.standIn.fail({ kind: 'reply', ...reply }, /send$/);
    expect(await it.send()).toMatchObject({
      kind: 'rejected_transient',
      failure: { class: failureClass },
      retryAfterMs: 60_000,
    });
  });

  test('the wait that FCM names at a limit counts', async () => {
    await using it = await setup();
    it.standIn.fail({ kind: 'reply', ...quota('', []), headers: { 'retry-after': '7' } }, /send$/);
    expect(await it.send()).toMatchObject({ retryAfterMs: 7_000 });
  });

  test('a data-only push is a background push for APNs', async () => {
    await using it = await setup();
    await it.send({ content: { data: { a: '1' } } });
    const body = JSON.parse(it.standIn.received[1]?.body ?? '') as { message: object };
    expect(body.message).not.toHaveProperty('notification');
    expect(body.message).toMatchObject({
      apns: {
        headers: { 'apns-push-type': 'background', 'apns-priority': '5' },
        payload: { aps: { 'content-available': 1 } },
      },
    });
  });

  test('the credential check returns invalid for a project that the key may not use', async () => {
    await using it = await setup();
    it.standIn.fail({ kind: 'reply', ...refusal(403, 'PERMISSION_DENIED') }, /send$/);
    expect(await fcm.verify(account, it.context)).toMatchObject({
      kind: 'invalid',
      failure: { code: 'forbidden' },
    });
  });

  test('the credential check returns invalid for a missing project', async () => {
    await using it = await setup();
    it.standIn.fail({ kind: 'reply', ...refusal(404, 'NOT_FOUND') }, /send$/);
    expect(await fcm.verify(account, it.context)).toMatchObject({
      kind: 'invalid',
      failure: { code: 'project_not_found' },
    });
  });

  test.each([
    ['order 17', 'order 17'],
    ['k'.repeat(65), expect.stringMatching(/^[\w-]{43}$/)],
    ['заказ-17', expect.stringMatching(/^[\w-]{43}$/)],
  ])('the collapse key %j is also sent to APNs', (collapseKey, id) => {
    const { apns, android } = fcmMessage({ ...message, content: { title: 'Hi', collapseKey } }, Date.now());
    expect(apns.headers['apns-collapse-id']).toEqual(id);
    expect(android).toMatchObject({ collapse_key: collapseKey });
  });

  test.each([
    [{ title: 'Hi' }, undefined],
    [{ body: 'Hi', data: { order: '17' } }, undefined],
    [{ title: 'Hi', badge: 0 }, { aps: { badge: 0 } }],
    [{ badge: 3 }, { aps: { badge: 3 } }],
    [{ data: { order: '17' } }, { aps: { 'content-available': 1 } }],
  ])('FCM refuses an empty aps, so %j is sent with the payload %j for Apple', (content, payload) => {
    expect(fcmMessage({ ...message, content }, Date.now()).apns.payload).toEqual(payload);
  });

  test('the credential check requests a new token, and so detects a revoked key', async () => {
    await using it = await setup();
    await it.send();
    it.standIn.fail({ kind: 'reply', status: 400, body: { error: 'invalid_grant' } }, /^\/token$/);
    expect(await fcm.verify(account, it.context)).toMatchObject({ kind: 'invalid' });
  });

  test('a key with escaped line breaks and a whole service account file are accepted', () => {
    const escaped = privateKey.replaceAll('\n', '\\n');
    expect(parseAccount(fcm, sent.publicConfig, { privateKey: escaped })).toMatchObject({
      secrets: { privateKey },
    });
    const serviceAccountJson = JSON.stringify({
      client_email: CLIENT_EMAIL,
      private_key: privateKey,
      token_uri: 'http://evil.example',
    });
    const parsed = parseAccount(fcm, { projectId: 'my-app-1a2b3' }, { serviceAccountJson });
    expect(parsed).toMatchObject({ ok: true });
    expect(signerOf(parsed as unknown as Account)).toEqual({ clientEmail: CLIENT_EMAIL, privateKey });
    expect(secretsToRedact(parsed as unknown as Account)).toContain(privateKey);
  });

  test.each(
    Object.entries(FCM_CODES).map(([code, meaning]) => [code, meaning.class, meaning.retry] as const),
  )(
    'code %s of class %s is retried unless it is about the recipient or content: %s',
    (_, failureClass, retry) => {
      expect(retry).toBe(!['invalid_recipient', 'content_rejected'].includes(failureClass));
    },
  );
});
