import { describe, expect, test } from 'vitest';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import whatsapp from './provider.ts';
import { whatsappReceipts } from './receipts.ts';
import { signMetaCall } from './stand-in-signature.ts';

const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const ID = 'wamid.HBgLMTU1NTEyMzAwMDEVAgARGBI5QTNDQTVCM0Q0Q0Q2RTY3RTcA';
const AT = 1_795_348_800;
const account = {
  publicConfig: { phoneNumberId: '106540352242922' },
  secretConfig: { accessToken: 'EAAcanaryToken1', appSecret: 'canary-app-secret-1' },
};

const status = (word: string, over: object = {}) => ({
  id: ID,
  status: word,
  timestamp: String(AT),
  recipient_id: '15551230001',
  biz_opaque_callback_data: REFERENCE,
  ...over,
});
const change = (value: object, field = 'messages') => ({
  field,
  value: {
    messaging_product: 'whatsapp',
    metadata: { display_phone_number: '15550783881', phone_number_id: '106540352242922' },
    ...value,
  },
});
const changes = (...all: object[]): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    object: 'whatsapp_business_account',
    entry: all.map((one) => ({ id: '102290129340398', changes: [one] })),
  })
    // Meta escapes non-ASCII characters and slashes: the signature covers exactly its bytes.
    .replace(/[\u0080-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .replaceAll('/', '\\/'),
});
const call = (word: string, over: object = {}) => changes(change({ statuses: [status(word, over)] }));

const about = { reference: REFERENCE, providerMessageId: ID, at: AT * 1_000 };
const failed = (name: string, errors: unknown, failure: object, id = `wamid.${name}`) => ({
  name,
  call: call('failed', { errors, id }),
  receipts: [{ ...about, providerMessageId: id, state: 'undelivered', failure } as object],
});

receiptSuite({
  provider: whatsapp,
  account,
  otherAccount: { ...account, secretConfig: { ...account.secretConfig, appSecret: 'canary-app-secret-2' } },
  reference: REFERENCE,
  sign: signMetaCall,
  covers: { body: true, url: false, timestamp: false },
  calls: [
    { name: 'sent', call: call('sent'), receipts: [{ ...about, state: 'sent' }] },
    { name: 'delivered', call: call('delivered'), receipts: [{ ...about, state: 'delivered' }] },
    {
      name: 'read',
      call: call('read'),
      receipts: [{ ...about, state: 'delivered', engagement: 'read' }],
    },
    {
      name: 'played',
      call: call('played'),
      receipts: [{ ...about, state: 'delivered', engagement: 'read' }],
    },
    { name: 'deleted', call: call('deleted'), receipts: [{ ...about, providerStatus: 'deleted' }] },
    failed(
      'failed for an undeliverable recipient',
      [
        {
          code: 131026,
          title: 'Message undeliverable',
          error_data: { details: 'Über 15551230001 ist nichts bekannt' },
        },
      ],
      {
        class: 'invalid_recipient',
        code: 'undeliverable',
        providerCode: '131026',
        providerMessage: 'Über [redacted] ist nichts bekannt',
      },
    ),
    failed('failed for an opt-out', [{ code: 131050, title: 'User stopped marketing messages' }], {
      class: 'recipient_unavailable',
      code: 'recipient_opted_out',
      providerMessage: 'User stopped marketing messages',
    }),
    failed('failed with an unknown code', [{ code: 'constructor' }], {
      class: 'unknown',
      code: 'undelivered',
      providerCode: 'constructor',
    }),
    failed('failed without details', 'none', { class: 'unknown', code: 'undelivered' }),
    {
      name: 'several reports of several numbers',
      call: changes(
        change({ statuses: [status('sent', { id: 'wamid.a' }), status('delivered', { id: 'wamid.b' })] }),
        change({ statuses: [status('read', { id: 'wamid.c', biz_opaque_callback_data: undefined })] }),
      ),
      receipts: [
        { providerMessageId: 'wamid.a', state: 'sent' },
        { providerMessageId: 'wamid.b', state: 'delivered' },
        { providerMessageId: 'wamid.c', engagement: 'read' },
      ],
    },
    {
      name: 'an inbound message',
      call: changes(
        change({
          contacts: [{ profile: { name: 'Ada' }, wa_id: '15551230001' }],
          messages: [{ from: '15551230001', id: 'wamid.in', type: 'text', text: { body: 'Hi' } }],
        }),
      ),
      receipts: [],
    },
    {
      name: 'an event about calls and templates',
      call: changes(
        change({ statuses: [status('RINGING', { type: 'call' })] }, 'calls'),
        change({ event: 'APPROVED' }, 'message_template_status_update'),
      ),
      receipts: [],
    },
  ],
});

describe('the handshake of whatsapp-cloud', () => {
  const TOKEN = 't0ken_-';
  const ask = (query: Record<string, string>, method: 'GET' | 'POST' = 'GET') =>
    whatsappReceipts.handshake?.(
      { method, url: `${RECEIPT_URL}?${new URLSearchParams(query).toString()}` },
      TOKEN,
    );
  const question = { 'hub.mode': 'subscribe', 'hub.challenge': '1158201444', 'hub.verify_token': TOKEN };

  test('returns the challenge as plain text for the right token', () => {
    expect(ask(question)).toEqual({ status: 200, contentType: 'text/plain', body: '1158201444' });
    expect(ask({ ...question, 'hub.challenge': 'A-z_9'.repeat(25) })?.body).toHaveLength(125);
  });

  test.each([
    ['another token', { 'hub.verify_token': 't0ken_' }],
    ['an empty token', { 'hub.verify_token': '' }],
    ['another mode', { 'hub.mode': 'unsubscribe' }],
    ['an empty challenge', { 'hub.challenge': '' }],
    ['an HTML page as the challenge', { 'hub.challenge': '<script>alert(1)</script>' }],
    ['two lines as the challenge', { 'hub.challenge': '1\n2' }],
    ['a line end after the challenge', { 'hub.challenge': '1\n' }],
    ['a challenge too long', { 'hub.challenge': '1'.repeat(129) }],
  ])('is refused for %s', (_, over) => {
    expect(ask({ ...question, ...over })).toBeUndefined();
  });

  test('is refused without parameters or by POST', () => {
    expect(ask({})).toBeUndefined();
    expect(ask(question, 'POST')).toBeUndefined();
  });
});

test('receipts of whatsapp-cloud may be unsigned if the account has no app secret', () => {
  const call = {
    method: 'POST',
    url: RECEIPT_URL,
    headers: {},
    body: new Uint8Array(),
    receivedAt: 0,
  } as const;
  expect(whatsappReceipts.verify?.(call, { config: {}, secrets: {} }, undefined as never)).toEqual({
    kind: 'genuine',
    isUnsigned: true,
  });
});
