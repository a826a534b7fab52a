// Written by `npm run gen` from the folders beside it; run it after adding one.
import apns from './apns/provider.ts';
import aws from './aws/provider.ts';
import fcm from './fcm/provider.ts';
import infobip from './infobip/provider.ts';
import mailgun from './mailgun/provider.ts';
import messagebird from './messagebird/provider.ts';
import plivo from './plivo/provider.ts';
import postmark from './postmark/provider.ts';
import resend from './resend/provider.ts';
import sendgrid from './sendgrid/provider.ts';
import simulator from './simulator/provider.ts';
import sinch from './sinch/provider.ts';
import smtp from './smtp/provider.ts';
import telnyx from './telnyx/provider.ts';
import twilio from './twilio/provider.ts';
import vonage from './vonage/provider.ts';
import webhook from './webhook/provider.ts';
import whatsappCloud from './whatsapp-cloud/provider.ts';
import type { AnyProvider } from './provider.ts';

/** Every id of the catalog. */
export type ProviderKind =
  | 'apns'
  | 'aws-sms'
  | 'fcm'
  | 'infobip'
  | 'infobip-whatsapp'
  | 'mailgun'
  | 'messagebird'
  | 'plivo'
  | 'postmark'
  | 'resend'
  | 'sendgrid'
  | 'ses'
  | 'simulator-email'
  | 'simulator-push'
  | 'simulator-sms'
  | 'simulator-whatsapp'
  | 'sinch'
  | 'smtp'
  | 'telnyx'
  | 'twilio'
  | 'twilio-whatsapp'
  | 'vonage'
  | 'vonage-whatsapp'
  | 'webhook-email'
  | 'webhook-push'
  | 'webhook-sms'
  | 'webhook-whatsapp'
  | 'whatsapp-cloud';

const DEFINITIONS: readonly AnyProvider[] = [
  apns,
  ...aws,
  fcm,
  ...infobip,
  mailgun,
  messagebird,
  plivo,
  postmark,
  resend,
  sendgrid,
  ...simulator,
  sinch,
  smtp,
  telnyx,
  ...twilio,
  ...vonage,
  ...webhook,
  whatsappCloud,
];

/** The catalog by id, in the order of the ids. */
export const PROVIDERS: ReadonlyMap<string, AnyProvider> = new Map(
  DEFINITIONS.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map((provider) => [provider.id, provider]),
);
