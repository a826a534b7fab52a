import { expect, test } from 'vitest';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { lookupSuite } from '#test/suites/lookup-conformance.ts';
import { contextAt } from '#test/suites/provider-conformance.ts';
import { resendLookup } from './lookup.ts';
import resend from './provider.ts';
import { startResendStandIn } from './stand-in.ts';

const account = {
  publicConfig: { from: 'news@acme.example' },
  secretConfig: { apiKey: 're_canary_1' },
};
const UNKNOWN = '37e4414c-5e25-4dbc-a071-43552a4bd53b';
const answer = (last_event: string) => ({ object: 'email', id: UNKNOWN, last_event });

lookupSuite({
  provider: resend,
  startStandIn: startResendStandIn,
  account,
  message: {
    channel: 'email',
    id: '7f3b2a34-1111-4222-8333-444455556666',
    to: 'ada@example.com',
    content: { from: { address: 'news@acme.example' }, subject: 'Hello', text: 'Hello' },
    expiresAt: Date.now() + 86_400_000,
    attempt: 1,
  },
  path: /^\/emails\/[^/]+$/,
  request: (received, id) => {
    expect(received.path).toBe(`/emails/${id}`);
    expect(received.headers).toMatchObject({
      authorization: 'Bearer re_canary_1',
      accept: 'application/json',
    });
    expect(received.body).toBe('');
  },
  unknownId: UNKNOWN,
  answers: [
    ...['queued', 'scheduled', 'delivery_delayed', 'new_word'].map((event) => ({
      body: answer(event),
      says: [{ providerStatus: event }],
    })),
    { body: answer('sent'), says: [{ providerStatus: 'sent', state: 'sent' }] },
    { body: answer('delivered'), says: [{ providerStatus: 'delivered', state: 'delivered' }] },
    ...(['opened', 'clicked', 'complained'] as const).map((event) => ({
      body: answer(event),
      says: [{ providerStatus: event, state: 'delivered' as const, engagement: event }],
    })),
    {
      // Without details, nothing says whether the bounce is permanent.
      body: answer('bounced'),
      says: [
        {
          providerStatus: 'bounced',
          state: 'undelivered' as const,
          failure: { class: 'recipient_unavailable' as const, code: 'bounced' },
        },
      ],
    },
    {
      body: {
        ...answer('bounced'),
        to: ['ada@example.com'],
        bounce: {
          message: 'The provider did not specify the reason.',
          type: 'Permanent',
          subType: 'General',
          diagnosticCode: ['smtp; 550 5.1.1 user unknown <ada@example.com>'],
        },
      },
      says: [
        {
          providerStatus: 'bounced',
          state: 'undelivered' as const,
          failure: {
            class: 'invalid_recipient' as const,
            code: 'unknown_recipient',
            providerCode: 'General',
            providerMessage: 'smtp; 550 5.1.1 user unknown <[redacted]>',
          },
        },
      ],
    },
    ...['failed', 'canceled'].map((event) => ({
      body: answer(event),
      says: [
        {
          providerStatus: event,
          state: 'undelivered' as const,
          failure: { class: 'unknown' as const, code: 'undelivered' },
        },
      ],
    })),
  ],
  errorBody: (message) => ({ statusCode: 400, name: 'application_error', message }),
});

test('the lookup of a large mail is read to its state, which follows the content', async () => {
  await using http = createHttpClient();
  await using standIn = await startResendStandIn();
  const context = contextAt(resend, http, standIn.origin);
  const sender = { config: {}, secrets: { apiKey: 're_1' } };
  const html = `<p>${'Grüße "✓" '.repeat(50_000)}</p>`;
  const from = { address: 'news@acme.example' };
  const sent = await resend.send(
    {
      channel: 'email',
      id: '7f3b2a34-1111-4222-8333-444455556666',
      to: 'ada@example.com',
      content: { from, subject: 'Hello', text: 'Hello', html },
      expiresAt: Date.now() + 86_400_000,
      attempt: 1,
    },
    sender,
    context,
  );
  const providerMessageId = sent.kind === 'accepted' ? sent.providerMessageId : null;
  expect(await resendLookup.ask({ messageId: UNKNOWN, providerMessageId }, sender, context)).toMatchObject({
    kind: 'found',
    reports: [{ state: 'delivered' }],
  });
  const shown = await fetch(`${standIn.origin}/emails/${providerMessageId ?? ''}`, {
    headers: { authorization: 'Bearer re_1' },
  });
  expect(await shown.json()).toMatchObject({ html, text: 'Hello', last_event: 'delivered' });
});

test('a suppressed mail is undelivered', async () => {
  await using http = createHttpClient();
  await using standIn = await startResendStandIn();
  standIn.fail({ kind: 'reply', status: 200, body: answer('suppressed') });
  const question = { messageId: UNKNOWN, providerMessageId: UNKNOWN };
  const sender = { config: {}, secrets: { apiKey: 're_1' } };
  expect(await resendLookup.ask(question, sender, contextAt(resend, http, standIn.origin))).toMatchObject({
    kind: 'found',
    reports: [{ providerStatus: 'suppressed', state: 'undelivered', failure: { class: expect.any(String) } }],
  });
});

test('a sending-only key is forbidden to look up', async () => {
  await using http = createHttpClient();
  await using standIn = await startResendStandIn();
  const body = { statusCode: 401, name: 'restricted_api_key', message: 'This API key is restricted' };
  standIn.fail({ kind: 'reply', status: 401, body });
  const question = { messageId: UNKNOWN, providerMessageId: UNKNOWN };
  const sender = { config: {}, secrets: { apiKey: 're_1' } };
  expect(await resendLookup.ask(question, sender, contextAt(resend, http, standIn.origin))).toMatchObject({
    kind: 'forbidden',
    failure: { providerCode: 'restricted_api_key' },
  });
});
