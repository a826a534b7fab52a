import { randomUUID } from 'node:crypto';
import { behaviourOfAddress } from '../behaviour.ts';
import { parseJson } from '../classify-error.ts';
import type { ReceiptCall } from '../receipt.ts';
import type { Received, Reply, SigningAccount } from '../stand-in.ts';
import {
  behaviourOfDigits,
  type ReportedState,
  type Reporter,
  type TakenMessage,
  type UnsignedReport,
} from '../stand-in-reports.ts';
import { REFERENCE as MAIL_REFERENCE } from './ses-mail.ts';
import { REFERENCE as SMS_REFERENCE } from './sms-receipts.ts';
import { signedEnvelope } from './stand-in-envelope.ts';

type Text = {
  readonly DestinationPhoneNumber: string;
  readonly Context?: Readonly<Record<string, string>>;
};
type Mail = {
  readonly Destination: { readonly ToAddresses: readonly string[] };
  readonly EmailTags?: readonly { readonly Name: string; readonly Value: string }[];
};

/** Sends events of the account's topic in SNS's format. Publish (SNS) itself sends no reports. */
export const awsReporter: Reporter = {
  taken(request, reply) {
    const id = (reply.body as { readonly MessageId?: string } | undefined)?.MessageId;
    if (reply.status !== 200) return [];
    if (isPublish(request)) return published(request, reply);
    if (id === undefined) return [];
    return request.path === '/' ? [textOf(request.body, id)] : [mailOf(request.body, id)];
  },
  refused: refusalOf,
  write: (message, state, url) => {
    const event = message.fields?.['kind'] === 'mail' ? mailEvent(message, state) : textEvent(message, state);
    return event && notification(url, event);
  },
  sign: signSnsCall,
};

/** Used in the certificate's file name; as long as the one in SNS's file names. */
const CERTIFICATE = '0123456789abcdef'.repeat(2);

/** Puts the event into an envelope of the account's topic. Returns undefined when the account has no topic. */
function signSnsCall(
  call: ReceiptCall,
  { publicConfig }: SigningAccount,
  at: number,
): ReceiptCall | undefined {
  const topicArn = publicConfig['topicArn'];
  if (typeof topicArn !== 'string') return undefined;
  const region = topicArn.split(':')[3] ?? '';
  const envelope = signedEnvelope(
    {
      Message: Buffer.from(call.body).toString(),
      MessageId: randomUUID(),
      TopicArn: topicArn,
      Timestamp: new Date(at).toISOString(),
      SigningCertURL: `https://sns.${region}.amazonaws.com/SimpleNotificationService-${CERTIFICATE}.pem`,
      UnsubscribeURL: `https://sns.${region}.amazonaws.com/?Action=Unsubscribe`,
    },
    '2',
  );
  return { ...call, body: Buffer.from(JSON.stringify(envelope)) };
}

function notification(url: string, event: object): UnsignedReport {
  return {
    method: 'POST',
    url,
    headers: { 'content-type': 'text/plain; charset=UTF-8', 'x-amz-sns-message-type': 'Notification' },
    body: JSON.stringify(event),
  };
}

function isPublish({ path, headers }: Received): boolean {
  return path === '/' && headers['x-amz-target'] === undefined;
}

function published({ body }: Received, reply: Reply): TakenMessage[] {
  const to = new URLSearchParams(body).get('PhoneNumber');
  const id = /<MessageId>([^<]+)</.exec(String(reply.body))?.[1];
  if (to === null || id === undefined) return [];
  const behaviour = behaviourOfDigits(to);
  // AWS sends no further event about this message.
  return [
    { reference: '', to, behaviour: behaviour === 'invalid' ? behaviour : 'silent', providerMessageId: id },
  ];
}

function textOf(body: string, providerMessageId: string): TakenMessage {
  const { DestinationPhoneNumber: to, Context = {} } = parseJson(body) as Text;
  const reference = Context[SMS_REFERENCE] ?? '';
  return { reference, to, behaviour: behaviourOfDigits(to), providerMessageId };
}

function mailOf(body: string, providerMessageId: string): TakenMessage {
  const { Destination, EmailTags = [] } = parseJson(body) as Mail;
  const [to = ''] = Destination.ToAddresses;
  return {
    reference: EmailTags.find(({ Name }) => Name === MAIL_REFERENCE)?.Value ?? '',
    to,
    behaviour: behaviourOfAddress(to),
    providerMessageId,
    fields: { kind: 'mail' },
  };
}

function textEvent({ reference, to, providerMessageId }: TakenMessage, state: ReportedState): object {
  return {
    eventType: state === 'sent' ? 'TEXT_SENT' : 'TEXT_DELIVERED',
    eventVersion: '1.0',
    eventTimestamp: Date.now(),
    isFinal: state !== 'sent',
    destinationPhoneNumber: to,
    messageId: providerMessageId,
    messageStatus: state === 'sent' ? 'SENT' : 'DELIVERED',
    messageStatusDescription: 'Message has been accepted by phone',
    context: { [SMS_REFERENCE]: reference },
  };
}

function mailEvent({ reference, to, providerMessageId }: TakenMessage, state: ReportedState): object {
  const timestamp = new Date().toISOString();
  const mail = {
    timestamp,
    messageId: providerMessageId,
    destination: [to],
    tags: { [MAIL_REFERENCE]: [reference] },
  };
  return state === 'sent'
    ? { eventType: 'Send', mail, send: {} }
    : { eventType: 'Delivery', mail, delivery: { timestamp, recipients: [to], smtpResponse: '250 OK' } };
}

function refusalOf(request: Received): Reply {
  if (isPublish(request)) {
    return {
      status: 400,
      headers: { 'content-type': 'text/xml' },
      body: '<ErrorResponse><Error><Type>Sender</Type><Code>InvalidParameter</Code><Message>Invalid parameter: PhoneNumber</Message></Error></ErrorResponse>',
    };
  }
  if (request.path !== '/') {
    return {
      status: 400,
      headers: { 'x-amzn-errortype': 'BadRequestException' },
      body: { message: 'Invalid domain name: not a valid address' },
    };
  }
  return {
    status: 400,
    body: {
      __type: 'com.amazonaws.smsvoice.v2#ValidationException',
      Message: 'Invalid',
      Reason: 'INVALID_PARAMETER',
      Fields: [{ Name: 'DestinationPhoneNumber', Message: 'Invalid' }],
    },
  };
}
