import { startApnsStandIn } from '#providers/apns/stand-in.ts';
import { startAwsStandIn } from '#providers/aws/stand-in.ts';
import { startFcmStandIn } from '#providers/fcm/stand-in.ts';
import { startInfobipStandIn } from '#providers/infobip/stand-in.ts';
import { startMailgunStandIn } from '#providers/mailgun/stand-in.ts';
import { startMessagebirdStandIn } from '#providers/messagebird/stand-in.ts';
import { startPlivoStandIn } from '#providers/plivo/stand-in.ts';
import { startPostmarkStandIn } from '#providers/postmark/stand-in.ts';
import type { ProviderKind } from '#providers/registry.gen.ts';
import { startResendStandIn } from '#providers/resend/stand-in.ts';
import { startSendgridStandIn } from '#providers/sendgrid/stand-in.ts';
import { STAND_IN_PUBLIC_KEY as SENDGRID_KEY } from '#providers/sendgrid/stand-in-key.ts';
import { startSinchStandIn } from '#providers/sinch/stand-in.ts';
import { startStandIn, type StandIn, type StandInOptions } from '#providers/stand-in.ts';
import { startTelnyxStandIn } from '#providers/telnyx/stand-in.ts';
import { STAND_IN_PUBLIC_KEY as TELNYX_KEY } from '#providers/telnyx/stand-in-key.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import { startVonageStandIn } from '#providers/vonage/stand-in.ts';
import { startGatewayStandIn } from '#providers/webhook/stand-in.ts';
import { startWhatsappCloudStandIn } from '#providers/whatsapp-cloud/stand-in.ts';
import { readAny } from './received-any.ts';
import { readFcm, readTwilio, readWhatsapp, type ReadArrival } from './received.ts';
import {
  readGatewayMail,
  readMailgunMail,
  readPostmarkMail,
  readResendMail,
  readSendgridMail,
  readSesMail,
  type ReadMail,
} from './received-mails.ts';

export type Vendor = {
  readonly start: (options: StandInOptions) => Promise<StandIn>;
  /** Reads the messages among its requests; for mails, `readMail` does. */
  readonly read?: ReadArrival;
  readonly readMail?: ReadMail;
  /** An additional text on its page. */
  readonly hint?: string;
};

/** Every id of the catalog except mail servers, which the inbox replaces. */
export type StandInId = Exclude<ProviderKind, 'smtp'>;

const startGateway = (options: StandInOptions): Promise<StandIn> => startGatewayStandIn(undefined, options);
const GATEWAY_HINT =
  'Whatever https URL a provider of this kind names, its calls come here. Reports are signed with its signingSecret.';
const TOPIC_HINT =
  'Reports on messages of a provider that names a topicArn, as Amazon SNS would publish them to that topic.';
const gateway: Vendor = { start: startGateway, read: readAny(/^/), hint: GATEWAY_HINT };
/** The worker simulates the outcomes, so this stand-in exists but never receives anything. */
const simulator: Vendor = {
  start: (options) => startStandIn(() => undefined, options),
  hint: 'A simulator calls nobody, so nothing ever arrives here.',
};
const infobip: Vendor = { start: startInfobipStandIn, read: readAny(/^\/(?:sms|whatsapp)\//) };
const vonage: Vendor = { start: startVonageStandIn, read: readAny(/^\/(?:sms\/json|v1\/messages)$/) };
const twilio: Vendor = { start: startTwilioStandIn, read: readTwilio };

export const VENDORS: Readonly<Record<StandInId, Vendor>> = {
  apns: { start: startApnsStandIn, read: readAny(/^\/3\/device\//) },
  'aws-sms': { start: startAwsStandIn, read: readAny(/^\/$/), hint: TOPIC_HINT },
  fcm: { start: startFcmStandIn, read: readFcm },
  infobip,
  'infobip-whatsapp': infobip,
  mailgun: { start: startMailgunStandIn, readMail: readMailgunMail },
  messagebird: { start: startMessagebirdStandIn, read: readAny(/^\/messages$/) },
  plivo: { start: startPlivoStandIn, read: readAny(/\/Message\/$/) },
  postmark: { start: startPostmarkStandIn, readMail: readPostmarkMail },
  resend: { start: startResendStandIn, readMail: readResendMail },
  sendgrid: {
    start: startSendgridStandIn,
    readMail: readSendgridMail,
    hint: `Signs its reports where a provider has the setting webhookPublicKey, which has to be ${SENDGRID_KEY}`,
  },
  ses: { start: startAwsStandIn, readMail: readSesMail, hint: TOPIC_HINT },
  'simulator-email': simulator,
  'simulator-push': simulator,
  'simulator-sms': simulator,
  'simulator-whatsapp': simulator,
  sinch: { start: startSinchStandIn, read: readAny(/\/batches$/) },
  telnyx: {
    start: startTelnyxStandIn,
    read: readAny(/^\/v2\/messages$/),
    hint: `Signs its reports with a key of its own. Of a provider the setting publicKey has to be ${TELNYX_KEY}`,
  },
  twilio,
  'twilio-whatsapp': twilio,
  vonage,
  'vonage-whatsapp': vonage,
  'webhook-email': { start: startGateway, readMail: readGatewayMail, hint: GATEWAY_HINT },
  'webhook-push': gateway,
  'webhook-sms': gateway,
  'webhook-whatsapp': gateway,
  'whatsapp-cloud': { start: startWhatsappCloudStandIn, read: readWhatsapp },
};
