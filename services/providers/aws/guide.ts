import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

const keys = (actions: string): readonly string[] => [
  `In the console of IAM create a user for Despatch, with a policy that allows ${actions} and nothing else.`,
  'Open the user, tab Security credentials, and create an access key. Its id is `accessKeyId`, its secret `secretAccessKey`. Temporary credentials need `sessionToken` too, and end at their time.',
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
    'In the console of AWS End User Messaging, SMS, the pages Phone numbers, Sender IDs and Phone pools show what can be `originationIdentity`.',
    'A new account is in the sandbox and sends to verified numbers alone, until AWS has granted production access.',
  ],
  account: { publicConfig: { ...publicConfig, senderId: 'Acme' }, secretConfig },
  fields: {
    body: '`MessageBody`; with the mode sns `Message`.',
    from: '`OriginationIdentity`; with the mode sns an attribute of the message.',
    expiresAt:
      '`TimeToLive`, where less than 72 hours are left; at least 5 seconds. With the mode sns AWS is not told.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: [
    'A `body` has at most 1600 characters.',
    'AWS holds an account to a monthly spend limit; beyond it messages wait until it is raised or they expire.',
  ],
  unsupported: [
    'With the mode sns: receipts. The last state of a message is `sent`.',
    'Media (MMS), and a highest price for a message.',
  ],
};

export const sesGuide: ProviderGuide<'email'> = {
  documentation: 'https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html',
  credentials: [
    ...keys('`ses:SendEmail` and `ses:GetAccount`'),
    'In the console of Amazon SES, page Identities, verify the domain or the address that mails come from, in the region that sends.',
    'A new account is in the sandbox and sends to verified addresses alone, until AWS has granted production access.',
  ],
  account: { publicConfig: { ...publicConfig, from: 'hello@example.com', fromName: 'Acme' }, secretConfig },
  fields: {
    from: '`FromEmailAddress`. An identity of the account has to cover it.',
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
    'AWS holds an account to a number of mails in 24 hours and in a second; what is beyond it is tried again.',
    'How long SES tries to deliver a mail is a setting of the configuration set.',
  ],
  unsupported: ['Templates of SES, cc and bcc.'],
};
