import { randomUUID } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { SNS_CERTIFICATE } from './stand-in-certificate.ts';
import { awsReporter } from './stand-in-reports.ts';

/** Starts End User Messaging, SNS with its certificate, and SES as one server on loopback. */
export function startAwsStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options, reportsBy(awsReporter));
}

function answer(request: Received): Reply | undefined {
  const { method, path, headers, body } = request;
  const isSigned =
    /^AWS4-HMAC-SHA256 Credential=\w+\/\d{8}\/[\w-]+\/(?:sns|sms-voice|ses)\/aws4_request, /.test(
      headers['authorization'] ?? '',
    );
  const action = /^PinpointSMSVoiceV2\.(\w+)$/.exec(headers['x-amz-target'] ?? '')?.[1];
  if (method === 'POST' && path === '/') {
    if (action !== undefined) return isSigned ? eum(action, body) : UNSIGNED;
    return isSigned ? sns(new URLSearchParams(body)) : xmlError(403, 'MissingAuthenticationToken', 'No');
  }
  if (method === 'GET' && /^\/SimpleNotificationService-\w+\.pem$/.test(path))
    return { status: 200, headers: { 'content-type': 'application/x-pem-file' }, body: SNS_CERTIFICATE };
  if (!path.startsWith('/v2/email/')) return undefined;
  if (!isSigned) return UNSIGNED;
  if (method === 'GET' && path === '/v2/email/account') {
    return {
      status: 200,
      body: { SendingEnabled: true, ProductionAccessEnabled: true, EnforcementStatus: 'HEALTHY' },
    };
  }
  return method === 'POST' && path === '/v2/email/outbound-emails' ? sendEmail(body) : undefined;
}

const UNSIGNED: Reply = {
  status: 403,
  headers: { 'x-amzn-errortype': 'MissingAuthenticationTokenException' },
  body: { message: 'Missing Authentication Token' },
};

function eum(action: string, body: string): Reply | undefined {
  if (action === 'DescribeAccountAttributes') {
    return { status: 200, body: { AccountAttributes: [{ Name: 'ACCOUNT_TIER', Value: 'PRODUCTION' }] } };
  }
  if (action !== 'SendTextMessage') return undefined;
  const sent = jsonObject(body);
  if (sent === undefined)
    return { status: 400, body: { __type: 'com.amazon.coral.service#SerializationException' } };
  const { DestinationPhoneNumber: to, MessageBody: text } = sent;
  if (typeof to === 'string' && typeof text === 'string') {
    return { status: 200, body: { MessageId: randomUUID() } };
  }
  return {
    status: 400,
    body: {
      __type: 'com.amazonaws.smsvoice.v2#ValidationException',
      Message: 'Invalid',
      Reason: 'INVALID_PARAMETER',
      Fields: [],
    },
  };
}

function sns(form: URLSearchParams): Reply | undefined {
  const action = form.get('Action');
  if (action === 'GetSMSAttributes') {
    return xml(
      200,
      '<GetSMSAttributesResponse><GetSMSAttributesResult><attributes/></GetSMSAttributesResult></GetSMSAttributesResponse>',
    );
  }
  if (action !== 'Publish') return undefined;
  if (!form.get('PhoneNumber') || !form.get('Message')) {
    return xmlError(400, 'InvalidParameter', 'Invalid parameter: Empty message');
  }
  return xml(
    200,
    `<PublishResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishResult><MessageId>${randomUUID()}</MessageId></PublishResult></PublishResponse>`,
  );
}

function sendEmail(body: string): Reply {
  const mail = jsonObject(body) as
    | { readonly FromEmailAddress?: string; readonly Content?: { readonly Simple?: unknown } }
    | undefined;
  if (mail === undefined)
    return { status: 400, headers: { 'x-amzn-errortype': 'SerializationException' }, body: {} };
  if (mail.FromEmailAddress === undefined || mail.Content?.Simple === undefined) {
    return {
      status: 400,
      headers: { 'x-amzn-errortype': 'BadRequestException' },
      body: { message: 'Missing required parameter' },
    };
  }
  return { status: 200, body: { MessageId: `0100017${randomUUID()}-000000` } };
}

function xml(status: number, body: string): Reply {
  return { status, headers: { 'content-type': 'text/xml' }, body: `<?xml version="1.0"?>${body}` };
}

function xmlError(status: number, code: string, message: string): Reply {
  return xml(
    status,
    `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`,
  );
}
