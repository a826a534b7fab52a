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

describe('an SNS call', () => {
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
  ] as const)('with a changed %s is forged', async (field) => {
    const envelope = signedEnvelope({ Message: '{}', Subject: 'x' }, '2');
    const other = { Type: 'UnsubscribeConfirmation', SignatureVersion: '1' }[field as string] ?? 'AAAA';
    expect(await judge({ ...envelope, [field]: other })).toEqual({
      kind: 'forged',
      reason: 'signature_mismatch',
    });
  });

  test('for another topic, or without a configured topic, is forged: unknown_sender', async () => {
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
    'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem',
    'https://sns.eu-central-1.amazonaws.com.cn/SimpleNotificationService-0.pem',
    'https://sns.s3-us-west-2.amazonaws.com/SimpleNotificationService-0.pem',
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
  ])('with a certificate at %s is forged, and nothing is fetched', async (SigningCertURL) => {
    const { context, asked } = snsContext();
    expect(await judge(signedEnvelope({ Message: '{}', SigningCertURL }, '2'), context)).toEqual({
      kind: 'forged',
      reason: 'unknown_sender',
    });
    expect(asked).toEqual([]);
  });

  test.each([
    ['aws-cn', 'cn-north-1', 'amazonaws.com.cn'],
    ['aws-eusc', 'eusc-de-east-1', 'amazonaws.eu'],
  ])('of a region of %s, %s, has a certificate from %s', async (partition, region, suffix) => {
    const TopicArn = `arn:${partition}:sns:${region}:123456789012:events`;
    const SigningCertURL = CERTIFICATE_URL.replace('eu-central-1.amazonaws.com', `${region}.${suffix}`);
    const envelope = signedEnvelope({ Message: '{}', SigningCertURL, TopicArn }, '2');
    expect(await judge(envelope, snsContext().context, TopicArn)).toEqual({ kind: 'genuine' });
  });

  test('of a topic in no region is forged: its name could be that of a bucket', async () => {
    const { context, asked } = snsContext();
    const TopicArn = 'arn:aws:sns:s3-us-west-2:123456789012:events';
    const SigningCertURL = CERTIFICATE_URL.replace('eu-central-1', 's3-us-west-2');
    const envelope = signedEnvelope({ Message: '{}', SigningCertURL, TopicArn }, '2');
    expect(await judge(envelope, context, TopicArn)).toEqual({ kind: 'forged', reason: 'unknown_sender' });
    expect(asked).toEqual([]);
  });

  test('fetches its certificate once', async () => {
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
      'is not a certificate',
      { kind: 'response', status: 200, headers: {}, text: '<html>' },
      { kind: 'undecided' },
    ],
    [
      'is missing (404)',
      { kind: 'response', status: 404, headers: {}, text: '' },
      { kind: 'forged', reason: 'signature_mismatch' },
    ],
  ])(
    'whose certificate %s gets the right verdict, and is fetched again for the next call',
    async (_, result, verdict) => {
      const { context, asked } = snsContext([result]);
      const envelope = signedEnvelope({ Message: '{}' }, '2');
      expect(await judge(envelope, context)).toEqual(verdict);
      expect(await judge(envelope, context)).toEqual({ kind: 'genuine' });
      expect(asked).toHaveLength(2);
    },
  );

  test('signed with an expired or not yet valid certificate is undecided', async () => {
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

describe('a subscription call', () => {
  const parse = (url: string, over: object = {}) =>
    parseEnvelope(call(signedEnvelope(subscription(url, over), '2')), read);

  test('is confirmed at its SubscribeURL', () => {
    expect(parse(subscribeUrl())).toEqual({ kind: 'confirm', url: subscribeUrl() });
  });

  test.each([
    ['another host', subscribeUrl({}, 'https://evil.example/')],
    ['a host with the same prefix', subscribeUrl({}, 'https://sns.eu-central-1.amazonaws.com.evil.example/')],
    ['a host of another region', subscribeUrl({}, 'https://sns.eu-west-1.amazonaws.com/')],
    ['a host that may be a bucket', subscribeUrl({}, 'https://sns.s3-us-west-2.amazonaws.com/')],
    ['plain http', subscribeUrl({}, 'http://sns.eu-central-1.amazonaws.com/')],
    ['another port', subscribeUrl({}, 'https://sns.eu-central-1.amazonaws.com:444/')],
    ['another action', subscribeUrl({ Action: 'Publish' })],
    ['a cloud metadata address', subscribeUrl({}, 'https://169.254.169.254/')],
    ['the local host', subscribeUrl({}, 'https://127.0.0.1/')],
    [
      'another host behind user info',
      subscribeUrl({}, 'https://sns.eu-central-1.amazonaws.com@evil.example/'),
    ],
    ['a URL with user info', subscribeUrl({}, 'https://user@sns.eu-central-1.amazonaws.com/')],
    ['another topic', subscribeUrl({ TopicArn: `${TOPIC_ARN}2` })],
    ['another path', subscribeUrl({}, 'https://sns.eu-central-1.amazonaws.com/x')],
    ['no URL', ''],
  ])('whose URL has %s is unreadable', (_, url) => {
    expect(parse(url)).toEqual({ kind: 'unreadable' });
  });

  test('that ends the subscription gives no receipts', () => {
    expect(parse(subscribeUrl(), { Type: 'UnsubscribeConfirmation' })).toEqual({
      kind: 'receipts',
      receipts: [],
    });
  });
});
