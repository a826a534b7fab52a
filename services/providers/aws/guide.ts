import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

const keys = (actions: string): readonly string[] => [
  `In the console of IAM create a user for Despatch, with a policy that allows ${actions} and nothing else.`,
  'Open the user, tab Security credentials, and create an access key. Its id is `accessKeyId`, its secret `secretAccessKey`. Temporary credentials also need `sessionToken`, and expire.',
];
const secretConfig = { secretAccessKey: 'your-secret-access-key' };
const publicConfig = { region: 'eu-central-1', accessKeyId: 'AKIAIOSFODNN7EXAMPLE' };

export const smsGuide: ProviderGuide<'sms'> = {
  documentation:
    'https://docs.aws.amazon.com/pinpoint/latest/apireference_smsvoicev2/API_SendTextMessage.html',
  credentials: [
    ...keys(
      '`sms-voice:SendTextMessage` and `sms-voice:DescribeAccountAttributes`, with `mode` sns `sns:Publish` and `sns:GetSMSAttributes`,',
    ),
    'In the console of AWS End User Messaging, SMS, the pages Phone numbers, Sender IDs and Phone pools show the values that `originationIdentity` can have.',
    'A new account is in the sandbox and sends only to verified numbers until AWS has granted production access.',
  ],
  account: { publicConfig: { ...publicConfig, senderId: 'Acme' }, secretConfig },
  fields: {
    body: '`MessageBody`; with the mode sns `Message`.',
    from: '`OriginationIdentity`; with the mode sns an attribute of the message.',
    expiresAt:
      '`TimeToLive`, if less than 72 hours are left; at least 5 seconds. With the mode sns AWS does not get it.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: [
    'A `body` has at most 1600 characters.',
    'AWS limits an account’s spend per month. Above the limit messages wait until AWS raises it or they expire.',
  ],
  unsupported: [
    'With the mode sns: receipts. `sent` is the last state of a message.',
    'Media (MMS), and a maximum price for a message.',
  ],
};

export const sesGuide: ProviderGuide<'email'> = {
  documentation: 'https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html',
  credentials: [
    ...keys('`ses:SendEmail` and `ses:GetAccount`'),
    'In the console of Amazon SES, page Identities, verify the domain or the address of the sender, in the region that sends.',
    'A new account is in the sandbox and sends only to verified addresses until AWS has granted production access.',
  ],
  account: { publicConfig: { ...publicConfig, from: 'hello@example.com', fromName: 'Acme' }, secretConfig },
  fields: {
    from: '`FromEmailAddress`. An identity of the account must cover it.',
    subject: '`Subject`.',
    bodyHtml: '`Html`.',
    bodyText: '`Text`.',
    replyTo: '`ReplyToAddresses`.',
    headers: '`Headers`.',
    attachments: '`Attachments`.',
    expiresAt: null,
  },
  messages: [MAIL_EXAMPLE],
  limits: [
    'AWS limits the mails of an account per 24 hours and per second; mails above the limit are retried.',
    'A mail has at most 15 headers of 996 characters each, name and value together, counted as they are encoded. More fail with `too_many_headers` or `header_too_long`, without a call. The two headers of the unsubscribe link of a marketing mail count.',
    'The configuration set defines how long SES tries to deliver a mail.',
  ],
  unsupported: ['Templates of SES, cc and bcc.'],
};
