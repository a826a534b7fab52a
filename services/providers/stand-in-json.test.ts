import { describe, expect, test } from 'vitest';
import { startAwsStandIn } from './aws/stand-in.ts';
import { startFcmStandIn } from './fcm/stand-in.ts';
import { startInfobipStandIn } from './infobip/stand-in.ts';
import { startPostmarkStandIn } from './postmark/stand-in.ts';
import { startResendStandIn } from './resend/stand-in.ts';
import { startSendgridStandIn } from './sendgrid/stand-in.ts';
import type { StandIn, StandInOptions } from './stand-in.ts';
import { jsonObject } from './stand-in-json.ts';
import { startVonageStandIn } from './vonage/stand-in.ts';
import { startGatewayStandIn } from './webhook/stand-in.ts';
import { startWhatsappCloudStandIn } from './whatsapp-cloud/stand-in.ts';

type Case = {
  readonly path: string;
  readonly start: (options: StandInOptions) => Promise<StandIn>;
  readonly headers: Record<string, string>;
  readonly status: number;
  /** Part of the answer, headers included. */
  readonly says: string;
};

const bearer = { authorization: 'Bearer x' };
const signed = (service: string) => ({
  authorization: `AWS4-HMAC-SHA256 Credential=AKIA/20261122/eu-central-1/${service}/aws4_request, x`,
});
const CASES: readonly Case[] = [
  {
    path: '/',
    start: startAwsStandIn,
    headers: { ...signed('sms-voice'), 'x-amz-target': 'PinpointSMSVoiceV2.SendTextMessage' },
    status: 400,
    says: 'SerializationException',
  },
  {
    path: '/v2/email/outbound-emails',
    start: startAwsStandIn,
    headers: signed('ses'),
    status: 400,
    says: 'SerializationException',
  },
  {
    path: '/v1/projects/my-app/messages:send',
    start: startFcmStandIn,
    headers: { authorization: 'Bearer ya29.x' },
    status: 400,
    says: 'INVALID_ARGUMENT',
  },
  {
    path: '/sms/3/messages',
    start: startInfobipStandIn,
    headers: { authorization: 'App x' },
    status: 400,
    says: 'E400',
  },
  {
    path: '/whatsapp/1/message/text',
    start: startInfobipStandIn,
    headers: { authorization: 'App x' },
    status: 400,
    says: 'BAD_REQUEST',
  },
  {
    path: '/email',
    start: startPostmarkStandIn,
    headers: { 'x-postmark-server-token': 'x' },
    status: 422,
    says: '402',
  },
  { path: '/emails', start: startResendStandIn, headers: bearer, status: 400, says: 'validation_error' },
  { path: '/v3/mail/send', start: startSendgridStandIn, headers: bearer, status: 400, says: 'Bad Request' },
  {
    // The SMS API answers its own errors with 200.
    path: '/sms/json',
    start: startVonageStandIn,
    headers: { authorization: 'Basic x' },
    status: 200,
    says: '"status":"2"',
  },
  { path: '/v1/messages', start: startVonageStandIn, headers: bearer, status: 400, says: 'invalid-json' },
  {
    path: '/hook',
    start: (options) => startGatewayStandIn(undefined, options),
    headers: { 'webhook-signature': 'v1,x' },
    status: 400,
    says: 'invalid_body',
  },
  {
    path: '/v22.0/123/messages',
    start: startWhatsappCloudStandIn,
    headers: bearer,
    status: 400,
    says: 'OAuthException',
  },
];

describe.each(CASES)('the stand-in at $path', ({ path, start, headers, status, says }) => {
  test.each(['{', 'null', '[]', ''])('answers the invalid body %j like its vendor', async (body) => {
    await using standIn = await start({ isReporting: true });
    const answer = await fetch(standIn.origin + path, { method: 'POST', headers, body });
    expect(answer.status).toBe(status);
    expect(JSON.stringify([...answer.headers]) + (await answer.text())).toContain(says);
  });
});

test.each([
  ['{"a":1}', { a: 1 }],
  ['[1]', undefined],
  ['null', undefined],
  ['7', undefined],
  ['{', undefined],
])('jsonObject() of %s is %j', (text, expected) => {
  expect(jsonObject(text)).toEqual(expected);
});
