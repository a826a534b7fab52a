import { describe, expect, test } from 'vitest';
import type { ProviderContext } from '../provider.ts';
import type { ReceiptCall } from '../receipt.ts';
import { judgeEnvelope, parseEnvelope } from './sns-envelope.ts';
import { CERTIFICATE_URL, signedEnvelope, snsContext, TOPIC_ARN } from './stand-in-envelope.ts';

const call = (body: object | string): ReceiptCall => ({
  method: 'POST',
  url: 'https://hooks.example/v1/receipts/a/b',
  headers: {},
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
  receivedAt: 0,
});
const judge = (
  body: object | string,
  context = snsContext().context,
  topicArn: string | undefined = TOPIC_ARN,
) => judgeEnvelope(call(body), topicArn, context);
const read = () => ({ kind: 'receipts', receipts: [] }) as const;
const subscribeUrl = (
  over: Record<string, string> = {},
  origin = 'https://sns.eu-central-1.amazonaws.com/',
) =>
  `${origin}?${new URLSearchParams({ Action: 'ConfirmSubscription', TopicArn: TOPIC_ARN, Token: 't', ...over }).toString()}`;
const subscription = (SubscribeURL: string, over: object = {}) => ({
  Type: 'SubscriptionConfirmation',
  Message: 'You have chosen to subscribe',
  Token: 't',
  SubscribeURL,
  ...over,
});

describe('a call of SNS', () => {
  test.each(['1', '2'] as const)(
    'is genuine with a signature of version %s, of every type',
    async (version) => {
      for (const said of [
        { Message: '{}' },
        { Message: '{}', Subject: 'With a subject' },
        subscription(subscribeUrl()),
        { ...subscription(subscribeUrl()), Type: 'UnsubscribeConfirmation' },
      ]) {
        expect(await judge(signedEnvelope(said, version))).toEqual({ kind: 'genuine' });
      }
    },
  );

  test.each([
    'Message',
    'MessageId',
    'Subject',
    'Timestamp',
    'Type',
    'Signature',
    'SignatureVersion',
  ] as const)('whose %s was changed is forged', async (field) => {
    const envelope = signedEnvelope({ Message: '{}', Subject: 'x' }, '2');
    const other = { Type: 'UnsubscribeConfirmation', SignatureVersion: '1' }[field as string] ?? 'AAAA';
    expect(await judge({ ...envelope, [field]: other })).toEqual({
      kind: 'forged',
      reason: 'signature_mismatch',
    });
  });

  test('for another topic, or where no topic is configured, is from somebody unknown', async () => {
    const other = signedEnvelope({ Message: '{}', TopicArn: `${TOPIC_ARN}-of-another` }, '2');
    const forged = { kind: 'forged', reason: 'unknown_sender' };
    expect(await judge(other)).toEqual(forged);
    expect(
      await judgeEnvelope(call(signedEnvelope({ Message: '{}' }, '2')), undefined, snsContext().context),
    ).toEqual(forged);
  });

  test.each([
    'http://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem',
    'https://sns.eu-central-1.amazonaws.com.evil.example/SimpleNotificationService-0.pem',
    'https://evil.example/SimpleNotificationService-0.pem',
    'https://sns.eu-central-1.evilamazonaws.com/SimpleNotificationService-0.pem',
    'https://sns.x.y.amazonaws.com/SimpleNotificationService-0.pem',
    'https://sns.eu-central-1.amazonaws.com:8443/SimpleNotificationService-0.pem',
    'https://user@sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem',
    'https://sns.eu-central-1.amazonaws.com/other/SimpleNotificationService-0.pem',
    'https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem?x=.pem',
    'https://sns.eu-central-1.amazonaws.com/?Action=x&y=.pem',
    'https://169.254.169.254/SimpleNotificationService-0.pem',
    'https://127.0.0.1/SimpleNotificationService-0.pem',
    'https://[::1]/SimpleNotificationService-0.pem',
    'https://sns.localhost/SimpleNotificationService-0.pem',
    'https://sns.eu-central-1.amazonaws.com@evil.example/SimpleNotificationService-0.pem',
    'https://evil.example#.sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem',
    'https://s3.amazonaws.com/bucket/SimpleNotificationService-0.pem',
    'https://bucket.s3.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem',
    'file:///SimpleNotificationService-0.pem',
    'nonsense',
  ])('with a certificate at %s is forged, and nothing is asked for', async (SigningCertURL) => {
    const { context, asked } = snsContext();
    expect(await judge(signedEnvelope({ Message: '{}', SigningCertURL }, '2'), context)).toEqual({
      kind: 'forged',
      reason: 'unknown_sender',
    });
    expect(asked).toEqual([]);
  });

  test('of China has a host of its own', async () => {
    const SigningCertURL = CERTIFICATE_URL.replace(
      'eu-central-1.amazonaws.com',
      'cn-north-1.amazonaws.com.cn',
    );
    expect(await judge(signedEnvelope({ Message: '{}', SigningCertURL }, '2'))).toEqual({ kind: 'genuine' });
  });

  test('has its certificate fetched once', async () => {
    const { context, asked } = snsContext();
    const envelope = signedEnvelope({ Message: '{}' }, '1');
    expect(await Promise.all([judge(envelope, context), judge(envelope, context)])).toHaveLength(2);
    await judge(envelope, context);
    expect(asked).toEqual([CERTIFICATE_URL]);
  });

  test.each<[name: string, result: Awaited<ReturnType<ProviderContext['http']>>, verdict: object]>([
    ['cannot be reached', { kind: 'not_sent', code: 'dns' }, { kind: 'undecided' }],
    ['fails', { kind: 'response', status: 503, headers: {}, text: '' }, { kind: 'undecided' }],
    ['redirects', { kind: 'response', status: 302, headers: {}, text: '' }, { kind: 'undecided' }],
    [
      'is no certificate',
      { kind: 'response', status: 200, headers: {}, text: '<html>' },
      { kind: 'undecided' },
    ],
    [
      'is not there',
      { kind: 'response', status: 404, headers: {}, text: '' },
      { kind: 'forged', reason: 'signature_mismatch' },
    ],
  ])('whose certificate %s is judged accordingly, and anew the next time', async (_, result, verdict) => {
    const { context, asked } = snsContext([result]);
    const envelope = signedEnvelope({ Message: '{}' }, '2');
    expect(await judge(envelope, context)).toEqual(verdict);
    expect(await judge(envelope, context)).toEqual({ kind: 'genuine' });
    expect(asked).toHaveLength(2);
  });

  test('signed with a certificate that has expired, or is not valid yet, is undecided', async () => {
    for (const now of [Date.UTC(2019, 0, 1), Date.UTC(2121, 0, 1)]) {
      expect(await judge(signedEnvelope({ Message: '{}' }, '2'), snsContext([], now).context)).toEqual({
        kind: 'undecided',
      });
    }
  });

  test.each([
    ['{}'],
    ['null'],
    ['x'],
    [{ Type: 'Notification' }],
    [{ ...signedEnvelope({ Message: '{}' }, '2'), SignatureVersion: '3' }],
  ])('%j has no signature', async (body) => {
    expect(await judge(body)).toEqual({ kind: 'forged', reason: 'signature_missing' });
  });
});

describe('a subscription', () => {
  const parse = (url: string, over: object = {}) =>
    parseEnvelope(call(signedEnvelope(subscription(url, over), '2')), read);

  test('is to be confirmed at SNS', () => {
    expect(parse(subscribeUrl())).toEqual({ kind: 'confirm', url: subscribeUrl() });
  });

  test.each([
    ['another host', subscribeUrl({}, 'https://evil.example/')],
    [
      'a host that only begins alike',
      subscribeUrl({}, 'https://sns.eu-central-1.amazonaws.com.evil.example/'),
    ],
    ['plain http', subscribeUrl({}, 'http://sns.eu-central-1.amazonaws.com/')],
    ['another port', subscribeUrl({}, 'https://sns.eu-central-1.amazonaws.com:444/')],
    ['another action', subscribeUrl({ Action: 'Publish' })],
    ['metadata of a cloud', subscribeUrl({}, 'https://169.254.169.254/')],
    ['this machine', subscribeUrl({}, 'https://127.0.0.1/')],
    ['a user at another host', subscribeUrl({}, 'https://sns.eu-central-1.amazonaws.com@evil.example/')],
    ['a user of SNS', subscribeUrl({}, 'https://user@sns.eu-central-1.amazonaws.com/')],
    ['another topic', subscribeUrl({ TopicArn: `${TOPIC_ARN}2` })],
    ['another path', subscribeUrl({}, 'https://sns.eu-central-1.amazonaws.com/x')],
    ['nowhere', ''],
  ])('that leads to %s is not', (_, url) => {
    expect(parse(url)).toEqual({ kind: 'unreadable' });
  });

  test('that ends says nothing of a message', () => {
    expect(parse(subscribeUrl(), { Type: 'UnsubscribeConfirmation' })).toEqual({
      kind: 'receipts',
      receipts: [],
    });
  });
});
