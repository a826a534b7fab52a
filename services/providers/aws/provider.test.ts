import { describe, expect, test } from 'vitest';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { contextAt, httpProviderSuite } from '#test/suites/provider-conformance.ts';
import type { Reply } from '../stand-in.ts';
import { EUM_CODES } from './sms-outcomes.ts';
import { awsSms } from './sms.ts';
import { startAwsStandIn } from './stand-in.ts';

const secretConfig = { secretAccessKey: 'canary/secret+key-1', sessionToken: 'canary-session-token' };
const settings = { region: 'eu-central-1', accessKeyId: 'AKIAIOSFODNN7EXAMPLE' };
const eum = {
  publicConfig: {
    ...settings,
    originationIdentity: 'pool-1234',
    configurationSetName: 'events',
    topicArn: 'arn:aws:sns:eu-central-1:123456789012:sms-events',
  },
  secretConfig,
};
const sns = { publicConfig: { ...settings, mode: 'sns', senderId: 'Acme' }, secretConfig };
const message = {
  channel: 'sms',
  id: '7f3b2a34-1111-4222-8333-444455556666',
  to: '+15551230001',
  content: { body: 'Grüße & 100% +1' },
  expiresAt: Date.now() + 3_600_500,
  attempt: 1,
} as const;
const otherSettings = {
  region: 'us-gov-west-1',
  accessKeyId: 'AKIAIOSFODNN7OTHERS0',
  mode: 'sns',
  originationIdentity: '+15005550009',
  senderId: 'Other',
  messageType: 'PROMOTIONAL',
  configurationSetName: 'other',
  topicArn: 'arn:aws-us-gov:sns:us-gov-west-1:123456789012:other',
  dltEntityId: '1101',
  dltTemplateId: '1107',
};

const refusal = (status: number, type: string, over: object = {}): Reply => ({
  status,
  body: { __type: `com.amazonaws.smsvoice.v2#${type}`, Message: 'Refused', ...over },
});
const xmlRefusal = (status: number, code: string, text = 'Refused'): Reply => ({
  status,
  headers: { 'content-type': 'text/xml' },
  body: `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${text}</Message></Error></ErrorResponse>`,
});
const permanently = (failureClass: string, code: string) =>
  ({ kind: 'rejected_permanent', failure: { class: failureClass, code } }) as never;
const forNow = (failureClass: string, code: string) =>
  ({ kind: 'rejected_transient', failure: { class: failureClass, code } }) as never;

describe('with End User Messaging', () => {
  httpProviderSuite({
    provider: awsSms,
    startStandIn: startAwsStandIn,
    account: eum,
    otherSettings,
    message,
    sendPath: /^\/$/,
    verifyPath: /^\/$/,
    request: (received) => {
      expect(received.headers).toMatchObject({
        'content-type': 'application/x-amz-json-1.0',
        'x-amz-target': 'PinpointSMSVoiceV2.SendTextMessage',
        'x-amz-security-token': 'canary-session-token',
        authorization: expect.stringMatching(
          /^AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE\/\d{8}\/eu-central-1\/sms-voice\/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, Signature=[0-9a-f]{64}$/,
        ) as string,
      });
      expect(JSON.parse(received.body)).toEqual({
        DestinationPhoneNumber: '+15551230001',
        OriginationIdentity: 'pool-1234',
        MessageBody: 'Grüße & 100% +1',
        MessageType: 'TRANSACTIONAL',
        ConfigurationSetName: 'events',
        TimeToLive: expect.toSatisfy((seconds: number) => seconds > 3_500 && seconds <= 3_600) as number,
        Context: { despatchMessageId: message.id },
      });
    },
    sender: 'pool-1234',
    providerMessageId: /^[0-9a-f-]{36}$/,
    errorBody: (text) => ({ __type: 'ValidationException', Message: text }),
    refusals: [
      {
        reply: refusal(400, 'ConflictException', { Reason: 'DESTINATION_PHONE_NUMBER_OPTED_OUT' }),
        outcome: {
          kind: 'rejected_permanent',
          failure: {
            class: 'recipient_unavailable',
            code: 'recipient_opted_out',
            providerCode: 'DESTINATION_PHONE_NUMBER_OPTED_OUT',
            providerMessage: 'Refused',
            httpStatus: 400,
          },
        },
      },
      {
        reply: refusal(400, 'ValidationException', {
          Reason: 'INVALID_PARAMETER',
          Fields: [{ Name: 'DestinationPhoneNumber', Message: 'x' }],
        }),
        outcome: permanently('invalid_recipient', 'invalid_number'),
      },
      {
        reply: refusal(400, 'ValidationException', { Reason: 'DESTINATION_COUNTRY_BLOCKED' }),
        outcome: permanently('sender_rejected', 'region_not_permitted'),
      },
      { reply: refusal(400, 'ConflictException'), outcome: permanently('unknown', 'conflict') },
      {
        reply: refusal(400, 'ResourceNotFoundException', { ResourceType: 'sender-id' }),
        outcome: permanently('sender_rejected', 'invalid_sender'),
      },
      {
        reply: refusal(400, 'ResourceNotFoundException', { ResourceType: 'configuration-set' }),
        outcome: forNow('auth_or_config', 'configuration_set_missing'),
      },
      {
        reply: refusal(400, 'ServiceQuotaExceededException', {
          Reason: 'MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT',
        }),
        outcome: forNow('auth_or_config', 'insufficient_credit'),
      },
      {
        reply: refusal(400, 'ServiceQuotaExceededException'),
        outcome: forNow('provider_throttled', 'quota_exceeded'),
      },
      {
        reply: refusal(400, 'UnrecognizedClientException'),
        outcome: forNow('auth_or_config', 'authentication_failed'),
      },
      { reply: refusal(400, 'AccessDeniedException'), outcome: forNow('auth_or_config', 'forbidden') },
      {
        reply: {
          status: 400,
          headers: { 'x-amzn-errortype': 'ThrottlingException:http://internal.amazon.com/coral/' },
          body: { message: 'Rate exceeded' },
        },
        outcome: {
          kind: 'rejected_transient',
          failure: {
            class: 'provider_throttled',
            code: 'rate_limited',
            providerCode: 'ThrottlingException',
            providerMessage: 'Rate exceeded',
          },
        },
      },
      {
        reply: refusal(500, 'InternalServerException'),
        outcome: forNow('provider_unavailable', 'provider_error'),
      },
      {
        reply: refusal(403, 'RequestTimeTooSkewed'),
        outcome: forNow('provider_unavailable', 'clock_skewed'),
      },
      { reply: refusal(400, 'SomethingNew'), outcome: permanently('unknown', 'http_400') },
    ],
    wrongCredential: refusal(403, 'InvalidSignatureException'),
    invalidAccounts: [
      {
        account: { publicConfig: {}, secretConfig: {} },
        fields: ['publicConfig.region', 'publicConfig.accessKeyId', 'secretConfig.secretAccessKey'],
      },
      {
        account: {
          publicConfig: {
            region: 'evil.example/',
            accessKeyId: 'lower-case-key-id',
            mode: 'pinpoint',
            originationIdentity: 'two words',
            configurationSetName: 'a/b',
            topicArn: 'arn:aws:sqs:eu-central-1:123456789012:queue',
          },
          secretConfig,
        },
        fields: [
          'publicConfig.region',
          'publicConfig.accessKeyId',
          'publicConfig.mode',
          'publicConfig.originationIdentity',
          'publicConfig.configurationSetName',
          'publicConfig.topicArn',
        ],
      },
      {
        account: { publicConfig: { ...eum.publicConfig, mode: 'sns' }, secretConfig },
        fields: [
          'publicConfig.configurationSetName',
          'publicConfig.topicArn',
          'publicConfig.originationIdentity',
        ],
      },
    ],
  });
});

describe('with SNS', () => {
  httpProviderSuite({
    provider: awsSms,
    startStandIn: startAwsStandIn,
    account: sns,
    otherSettings: { ...otherSettings, mode: 'eum' },
    message,
    sendPath: /^\/$/,
    verifyPath: /^\/$/,
    request: (received) => {
      expect(received.headers).toMatchObject({
        'content-type': 'application/x-www-form-urlencoded; charset=utf-8',
        authorization: expect.stringContaining('/eu-central-1/sns/aws4_request') as string,
      });
      expect(Object.fromEntries(new URLSearchParams(received.body))).toEqual({
        Action: 'Publish',
        Version: '2010-03-31',
        PhoneNumber: '+15551230001',
        Message: 'Grüße & 100% +1',
        'MessageAttributes.entry.1.Name': 'AWS.SNS.SMS.SMSType',
        'MessageAttributes.entry.1.Value.DataType': 'String',
        'MessageAttributes.entry.1.Value.StringValue': 'Transactional',
        'MessageAttributes.entry.2.Name': 'AWS.SNS.SMS.SenderID',
        'MessageAttributes.entry.2.Value.DataType': 'String',
        'MessageAttributes.entry.2.Value.StringValue': 'Acme',
      });
    },
    sender: 'Acme',
    providerMessageId: /^[0-9a-f-]{36}$/,
    errorBody: (text) => xmlRefusal(400, 'Refused', text).body,
    refusals: [
      {
        reply: xmlRefusal(400, 'InvalidParameter', 'Invalid parameter: PhoneNumber Reason: x &amp; y'),
        outcome: {
          kind: 'rejected_permanent',
          failure: {
            class: 'invalid_recipient',
            code: 'address_refused',
            providerCode: 'InvalidParameter',
            providerMessage: 'Invalid parameter: PhoneNumber Reason: x & y',
          },
        },
      },
      {
        reply: xmlRefusal(400, 'InvalidParameter', 'PhoneNumber Reason: Phone number is opted out'),
        outcome: permanently('recipient_unavailable', 'recipient_opted_out'),
      },
      {
        reply: xmlRefusal(
          400,
          'InvalidParameter',
          'Invalid parameter: PhoneNumber Reason: +4915112345678 is not valid to publish to',
        ),
        outcome: permanently('invalid_recipient', 'address_refused'),
      },
      {
        reply: xmlRefusal(400, 'InvalidParameter', 'Empty message'),
        outcome: permanently('content_rejected', 'invalid_parameter'),
      },
      {
        reply: xmlRefusal(403, 'SignatureDoesNotMatch'),
        outcome: forNow('auth_or_config', 'authentication_failed'),
      },
      {
        reply: xmlRefusal(403, 'InvalidSecurity', 'Signature not valid'),
        outcome: forNow('auth_or_config', 'authentication_failed'),
      },
      { reply: xmlRefusal(403, 'AuthorizationError'), outcome: forNow('auth_or_config', 'forbidden') },
      { reply: xmlRefusal(400, 'Throttling'), outcome: forNow('provider_throttled', 'rate_limited') },
      {
        reply: xmlRefusal(503, 'ServiceUnavailable'),
        outcome: forNow('provider_unavailable', 'provider_error'),
      },
    ],
    wrongCredential: xmlRefusal(403, 'InvalidClientTokenId'),
    invalidAccounts: [],
  });
});

describe('aws-sms', () => {
  const sentBy = async (account: { publicConfig: object }, over: object) => {
    await using http = createHttpClient();
    await using standIn = await startAwsStandIn();
    const config = awsSms.config.parse(account.publicConfig);
    await awsSms.send(
      { ...message, ...over },
      { config, secrets: secretConfig },
      contextAt(awsSms, http, standIn.origin),
    );
    return standIn.received[0]?.body ?? '';
  };

  test("uses the message's sender, else the account's, else leaves the choice to AWS", async () => {
    expect(JSON.parse(await sentBy(eum, { from: '+15005550009' }))).toMatchObject({
      OriginationIdentity: '+15005550009',
    });
    expect(JSON.parse(await sentBy({ publicConfig: settings }, {}))).not.toHaveProperty(
      'OriginationIdentity',
    );
    const form = new URLSearchParams(await sentBy(sns, { from: '+15005550009' }));
    expect(form.get('MessageAttributes.entry.2.Name')).toBe('AWS.MM.SMS.OriginationNumber');
  });

  test.each([
    [1_000, 5],
    [60_500, 60],
    [259_300_000, undefined],
  ])('gives a message that expires in %i ms a TimeToLive of %s seconds', async (ms, seconds) => {
    const body = JSON.parse(await sentBy(eum, { expiresAt: Date.now() + ms })) as { TimeToLive?: number };
    if (seconds === undefined) expect(body.TimeToLive).toBeUndefined();
    else expect([seconds, seconds - 1]).toContain(body.TimeToLive);
  });

  test('the credential check of a key without permission to read the account returns unknown', async () => {
    await using http = createHttpClient();
    await using standIn = await startAwsStandIn();
    standIn.fail({ kind: 'reply', ...refusal(400, 'AccessDeniedException') });
    const account = { config: awsSms.config.parse(eum.publicConfig), secrets: secretConfig };
    expect(await awsSms.verify(account, contextAt(awsSms, http, standIn.origin))).toMatchObject({
      kind: 'unknown',
      failure: { code: 'forbidden' },
    });
  });

  test.each([
    ['ValidationException:DestinationPhoneNumber', 'invalid_recipient', false],
    ['NO_ORIGINATION_IDENTITIES_FOUND', 'sender_rejected', false],
    ['INVALID_IDENTITY_FOR_DESTINATION_COUNTRY', 'sender_rejected', false],
    ['INTERNATIONAL_SENDING_NOT_SUPPORTED', 'sender_rejected', false],
    ['CHANNEL_NOT_ENABLED', 'sender_rejected', false],
    ['PRICE_OVER_THRESHOLD', 'sender_rejected', false],
    ['DESTINATION_PHONE_NUMBER_NOT_VERIFIED', 'sender_rejected', false],
    ['DAILY_DESTINATION_CALL_LIMIT', 'provider_throttled', true],
    ['ACCOUNT_DISABLED', 'auth_or_config', true],
  ])('code %s is %s, retry %s', (code, failureClass, retry) => {
    expect(EUM_CODES[code]).toMatchObject({ class: failureClass, retry });
  });
});
