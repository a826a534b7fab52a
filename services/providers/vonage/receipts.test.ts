import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { HOUR_MS } from '#core/domain/text/duration.ts';
import type { SentAccount } from '#test/suites/provider-conformance.ts';
import { receiptSuite, RECEIPT_URL, type UnsignedCall } from '#test/suites/receipt-conformance.ts';
import type { ReceiptCall } from '../receipt.ts';
import { GENUINE } from '../signature.ts';
import { MESSAGES_CODES, SMS_RECEIPT_CODES } from './outcomes.ts';
import definitions from './provider.ts';
import { vonageSmsReceipts } from './receipts.ts';
import { DIGESTS, signVonageCall, signVonageParameters } from './stand-in-signature.ts';

const [sms, whatsapp] = definitions;
const REFERENCE = '7f3b2a34-1111-4222-8333-444455556666';
const UUID = 'aaaaaaaa-bbbb-4ccc-8ddd-0123456789ab';
const AT = Date.UTC(2026, 10, 22, 12);
const accountWith = (signatureSecret: string | undefined, settings: object = {}): SentAccount => ({
  publicConfig: { apiKey: 'abcd1234', from: '+447700900000', ...settings },
  secretConfig: { apiSecret: 'canary-api-secret-1', ...(signatureSecret ? { signatureSecret } : {}) },
});
const account = accountWith('canary-signature-secret-1');
const otherAccount = accountWith('canary-signature-secret-2');

const status = (word: string, over: object = {}): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    message_uuid: UUID,
    to: '15551230001',
    from: '447700900000',
    timestamp: '2026-11-22T12:00:00Z',
    status: word,
    channel: 'sms',
    client_ref: REFERENCE,
    ...over,
  }),
});
const about = { reference: REFERENCE, providerMessageId: UUID };
const ofType = (number: number) => ({
  error: {
    type: `https://developer.vonage.com/api-errors/messages#${number}`,
    title: String(number),
    detail: 'About 15551230001',
  },
});

describe.each([
  ['vonage', sms],
  ['vonage-whatsapp', whatsapp],
] as const)('%s with the Messages API', (_, provider) => {
  receiptSuite({
    provider,
    account,
    otherAccount,
    reference: REFERENCE,
    // Both channels use the same parser.
    tells: ['read'],
    sign: signVonageCall,
    covers: { body: true, url: false, timestamp: false },
    calls: [
      { name: 'submitted', call: status('submitted'), receipts: [{ ...about, state: 'sent', at: AT }] },
      { name: 'delivered', call: status('delivered'), receipts: [{ ...about, state: 'delivered' }] },
      {
        name: 'read',
        call: status('read'),
        receipts: [{ ...about, state: 'delivered', engagement: 'read' }],
      },
      {
        name: 'rejected with a code at the end of its type',
        call: status('rejected', ofType(1240)),
        receipts: [
          {
            ...about,
            state: 'undelivered',
            failure: {
              class: 'recipient_unavailable',
              code: 'recipient_opted_out',
              providerCode: '1240',
            },
          },
        ],
      },
      {
        name: 'undeliverable with a code in the older format',
        call: status('undeliverable', {
          message_uuid: 'older',
          error: { code: 1300, reason: 'Not on the network' },
        }),
        receipts: [
          {
            reference: REFERENCE,
            providerMessageId: 'older',
            state: 'undelivered',
            failure: { class: 'invalid_recipient', code: 'unknown_recipient', providerCode: '1300' },
          },
        ],
      },
      {
        name: 'undeliverable with an unknown code as its title',
        call: status('undeliverable', { error: { type: 'about:blank', title: '1999' } }),
        receipts: [
          {
            ...about,
            state: 'undelivered',
            failure: { class: 'unknown', code: 'undelivered', providerCode: '1999' },
          },
        ],
      },
      {
        name: 'undeliverable without a reason or a reference',
        call: status('undeliverable', { message_uuid: 'plain', client_ref: undefined }),
        receipts: [
          {
            providerMessageId: 'plain',
            state: 'undelivered',
            failure: { class: 'unknown', code: 'undelivered' },
          },
        ],
      },
      {
        name: 'an unknown status',
        call: status('pondered'),
        receipts: [{ ...about, providerStatus: 'pondered' }],
      },
      {
        name: 'an inbound message',
        call: status('', { status: undefined, message_type: 'text', text: 'STOP' }),
        receipts: [],
      },
    ],
  });
});

const PART = '0A0000000123ABCD1';
const dlr = (word: string, over: Record<string, string> = {}): Record<string, string> => ({
  msisdn: '15551230001',
  to: '447700900000',
  'network-code': '12345',
  messageId: PART,
  price: '0.03330000',
  status: word,
  scts: '2611221200',
  'err-code': '0',
  'client-ref': REFERENCE,
  'message-timestamp': '2026-11-22 12:00:00',
  note: 'a&b=c',
  ...over,
});
const form = (word: string, over: Record<string, string> = {}): UnsignedCall => ({
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: new URLSearchParams(dlr(word, over)).toString(),
});
const json = (word: string, over: Record<string, string> = {}): UnsignedCall => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(dlr(word, over)),
});
const query = (word: string, over: Record<string, string> = {}): UnsignedCall => ({
  method: 'GET',
  query: `?${new URLSearchParams(dlr(word, over)).toString()}`,
});

const part = { reference: REFERENCE, providerMessageId: PART, segment: PART };

describe.each(Object.keys(DIGESTS))('vonage with the SMS API, signed with %s', (signatureMethod) => {
  const settings = { api: 'sms', signatureMethod };
  receiptSuite({
    provider: sms,
    account: accountWith('canary-signature-secret-1', settings),
    otherAccount: accountWith('canary-signature-secret-2', settings),
    reference: REFERENCE,
    sign: signVonageParameters,
    covers: { body: true, url: false, timestamp: false },
    calls: [
      {
        name: 'delivered, as a form',
        call: form('delivered'),
        receipts: [{ ...part, state: 'delivered', at: AT, providerStatus: 'delivered' }],
      },
      {
        name: 'delivered of another part, as JSON',
        call: json('delivered', { messageId: 'PART2' }),
        receipts: [
          { reference: REFERENCE, providerMessageId: 'PART2', segment: 'PART2', state: 'delivered' },
        ],
      },
      {
        name: 'buffered, as a query',
        call: query('buffered'),
        receipts: [{ ...part, state: 'sent' }],
      },
      { name: 'accepted', call: form('accepted'), receipts: [{ ...part, state: 'sent' }] },
      { name: 'unknown', call: form('unknown'), receipts: [{ ...part, state: 'sent' }] },
      {
        name: 'failed for an unreachable number',
        call: form('failed', { 'err-code': '3' }),
        receipts: [
          {
            ...part,
            state: 'undelivered',
            failure: { class: 'invalid_recipient', code: 'unreachable_number', providerCode: '3' },
          },
        ],
      },
      {
        name: 'rejected as spam',
        call: json('rejected', { 'err-code': '6' }),
        receipts: [
          {
            ...part,
            state: 'undelivered',
            failure: { class: 'content_rejected', code: 'blocked', providerCode: '6' },
          },
        ],
      },
      {
        name: 'expired with an unknown code',
        call: form('expired', { 'err-code': '77' }),
        receipts: [
          {
            ...part,
            state: 'undelivered',
            failure: { class: 'unknown', code: 'undelivered', providerCode: '77' },
          },
        ],
      },
      {
        name: 'an unknown status',
        call: form('pondered'),
        receipts: [{ ...part, providerStatus: 'pondered' }],
      },
      {
        name: 'an inbound message',
        call: {
          ...form(''),
          body: new URLSearchParams({
            msisdn: '15551230001',
            to: '447700900000',
            messageId: '0B',
            text: 'STOP',
            type: 'text',
          }).toString(),
        },
        receipts: [],
      },
    ],
  });
});

test.each([
  ['3', 'invalid_recipient', 'unreachable_number'],
  ['9', 'recipient_unavailable', 'recipient_opted_out'],
  ['11', 'recipient_unavailable', 'unroutable'],
  ['16', 'provider_unavailable', 'provider_error'],
  ['53', 'sender_rejected', 'sender_unregistered'],
  ['99', 'provider_unavailable', 'provider_error'],
])('the err-code %s of the SMS API is %s, %s', (code, failureClass, reason) => {
  expect(SMS_RECEIPT_CODES[code]).toEqual({ class: failureClass, code: reason, retry: false });
});

test('an unroutable number of the Messages API is not an invalid recipient', () => {
  expect(MESSAGES_CODES['1250']).toEqual({
    class: 'recipient_unavailable',
    code: 'unroutable',
    retry: false,
  });
});

describe('a Vonage signature', () => {
  const judge = async (call: ReceiptCall, sent: SentAccount) =>
    vonageSmsReceipts.verify?.(
      call,
      { config: sent.publicConfig as never, secrets: sent.secretConfig },
      undefined as never,
    );
  const arrived = ({ method = 'POST', query = '', headers = {}, body = '' }: UnsignedCall): ReceiptCall => ({
    method,
    url: RECEIPT_URL + query,
    headers,
    body: Buffer.from(body),
    receivedAt: AT,
  });
  const call = arrived(status('delivered'));

  test('is not required if the account has no signature secret', async () => {
    for (const one of [status('delivered'), form('delivered'), query('delivered')])
      expect(await judge(arrived(one), accountWith(undefined))).toEqual({
        kind: 'genuine',
        isUnsigned: true,
      });
  });

  test('must contain the hash of the body', async () => {
    for (const payload_hash of [undefined, '', 'x', createHash('sha256').update('').digest('hex')])
      expect(
        await judge(signVonageCall(call, account, AT, { claims: { payload_hash } }), account),
      ).toMatchObject({
        kind: 'forged',
        reason: 'signature_mismatch',
      });
    const upper = createHash('sha256').update(call.body).digest('hex').toUpperCase();
    expect(
      await judge(signVonageCall(call, account, AT, { claims: { payload_hash: upper } }), account),
    ).toEqual({
      kind: 'genuine',
    });
  });

  test.each([[{ alg: 'none' }], [{ alg: 'HS512' }], [{ alg: 'RS256' }], [{ crit: ['x'], x: 1 }]])(
    'with the header %j is forged',
    async (header) => {
      expect(await judge(signVonageCall(call, account, AT, { header }), account)).toMatchObject({
        kind: 'forged',
        reason: 'signature_mismatch',
      });
    },
  );

  test('without a timestamp is forged', async () => {
    const claims = { iat: undefined };
    expect(await judge(signVonageCall(call, account, AT, { claims }), account)).toMatchObject({
      kind: 'forged',
    });
    const unsigned = arrived(form('delivered', { timestamp: '' }));
    const secret = String(account.secretConfig['signatureSecret']);
    const parameters = [...new URLSearchParams(String(Buffer.from(unsigned.body)))].toSorted(([a], [b]) =>
      a < b ? -1 : 1,
    );
    const text = parameters.map(([name, value]) => `&${name}=${value.replace(/[&=]/g, '_')}`).join('');
    const body = Buffer.from(`${String(unsigned.body)}&sig=${DIGESTS['md5hash']?.(secret, text)}`);
    const sent = { ...account, publicConfig: { ...account.publicConfig, signatureMethod: 'md5hash' } };
    expect(await judge({ ...unsigned, body }, sent)).toMatchObject({
      kind: 'forged',
      reason: 'timestamp_out_of_tolerance',
    });
  });

  test('is valid for as long as Vonage retries a receipt, and forged after that', async () => {
    const untimely = { kind: 'forged', reason: 'timestamp_out_of_tolerance' };
    const token = (hours: number) => judge(signVonageCall(call, account, AT - hours * HOUR_MS), account);
    expect([await token(24), await token(26), await token(-26)]).toEqual([GENUINE, untimely, untimely]);
    const sent = { ...account, publicConfig: { ...account.publicConfig, signatureMethod: 'sha256' } };
    const parameters = (hours: number) =>
      judge(signVonageParameters(arrived(form('delivered')), sent, AT - hours * HOUR_MS), sent);
    expect([await parameters(72), await parameters(74)]).toEqual([GENUINE, untimely]);
  });

  test.each(['', '0', 'A', 'x'.repeat(100_000), 'é'.repeat(32)])(
    'in the parameters that is truncated or invalid is forged: %.20s',
    async (sig) => {
      const signed = signVonageParameters(arrived(query('delivered')), account, AT);
      const url = signed.url.replace(/sig=[^&]*/, `sig=${encodeURIComponent(sig)}`);
      const sent = { ...account, publicConfig: { ...account.publicConfig, signatureMethod: 'md5hash' } };
      expect(await judge(signed, sent)).toEqual({ kind: 'genuine' });
      expect(await judge({ ...signed, url }, sent)).toMatchObject({ kind: 'forged' });
    },
  );

  test('covers the query of a receipt sent by GET', async () => {
    const sent = { ...account, publicConfig: { ...account.publicConfig, signatureMethod: 'sha256' } };
    const signed = signVonageParameters(arrived(query('failed')), sent, AT);
    expect(await judge(signed, sent)).toEqual({ kind: 'genuine' });
    const url = signed.url.replace('status=failed', 'status=delivered');
    expect(await judge({ ...signed, url }, sent)).toMatchObject({ kind: 'forged' });
  });
});
