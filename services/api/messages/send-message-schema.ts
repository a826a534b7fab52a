import { z } from 'zod';
import { base64Bytes, isBase64 } from '#core/domain/text/base64.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { CATEGORIES, PRIORITIES } from '#core/domain/message/message-options.ts';
import { normalAddress, parseMailbox } from '#core/domain/recipient/mailbox.ts';
import { normalNumber } from '#core/domain/recipient/phone-number.ts';
import { pushDataFault } from '#core/domain/message/push-data.ts';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { exactNumbers } from '../http/input/exact-numbers.ts';
import { atMostPairs, isLine, lineIssue, lineText, text, uuidField } from '../http/input/fields.ts';
import { idempotencyKeyField } from '../http/routes/idempotency.ts';
import { timeField } from '../http/input/time-field.ts';
import { whatsappMedia, whatsappTemplate } from './whatsapp-fields.ts';

/** All attachments of a message together, decoded. */
const ATTACHMENT_BYTES_MAX = 10 * 1024 * 1024;
const METADATA_PAIRS_MAX = 20;
const TAGS_MAX = 10;
const HEADERS_MAX = 50;

/** `to` is one field with a rule per channel: a fault names the rule, not the value. */
function recipient(rule: string, message: string, isValid: (to: string) => boolean) {
  return lineText(1, 200)
    .refine(isValid, { error: message, params: { rule } })
    .describe('Recipient, echoed as sent.');
}

const numberTo = recipient(
  'e164',
  'Must be an E.164 phone number',
  (to) => normalNumber(to) !== undefined,
).meta({ examples: ['+15550000001'] });

const mailbox = lineText(1, 320).refine((value) => parseMailbox(value) !== undefined, {
  error: 'Must be one RFC 5322 mailbox',
  params: { rule: 'mailbox' },
});

const metadata = atMostPairs(
  METADATA_PAIRS_MAX,
  z.record(
    z.string().min(1).max(64),
    z.union([z.string().max(500), z.number(), z.boolean(), z.null()], {
      error: 'Must be a string of at most 500 characters, a number, true, false or null',
    }),
  ),
).check(exactNumbers);

const every = {
  externalId: text(1, 255).optional().describe("Caller's own reference."),
  expiresAt: timeField()
    .optional()
    .describe(
      'No provider is called after this time: at most `retentionDays` of the plan after acceptance, or after `sendAt`. Default: 24 hours, for `otp` 10 minutes.',
    ),
  ttlSeconds: z
    .int()
    .min(1)
    .max(31_536_000)
    .optional()
    .describe(
      'Instead of `expiresAt`: seconds after acceptance, or after `sendAt`. At most `retentionDays` of the plan.',
    ),
  category: z.enum(CATEGORIES).default('transactional').describe('Purpose of the message.'),
  priority: z
    .enum(PRIORITIES)
    .default('normal')
    .describe('Priority relative to the other messages of the tenant.'),
  providerId: uuidField().optional().describe('Sends through this provider account only.'),
  metadata: metadata.optional().describe("Caller's own data, returned with the record."),
  tags: z
    .array(text(1, 64))
    .max(TAGS_MAX)
    .optional()
    .describe("Caller's own tags, returned with the record."),
  deliveryGuarantee: z
    .enum(['at_least_once', 'at_most_once'])
    .default('at_least_once')
    .describe('What to do when a provider call ended without an answer.'),
  contentRetention: z
    .enum(['retain', 'discard'])
    .default('retain')
    .describe('`discard` empties the content as soon as no provider needs it.'),
  sendAt: timeField()
    .optional()
    .describe(
      'When to send the message, up to `scheduleHorizonDays` ahead: until then it is `scheduled`. Its lifetime counts from then. A time in the past: at once.',
    ),
  idempotencyKey: idempotencyKeyField,
};

const Sms = z.object({
  channel: z.literal('sms'),
  to: numberTo,
  body: text(1, 4096).describe('Text; segmented automatically.'),
  from: lineText(1, 32)
    .refine(isSmsSender, { error: SMS_SENDER_RULE, params: { rule: 'sender' } })
    .optional()
    .describe("Overrides the provider account's sender."),
  ...every,
});

/** The `List-` headers are those of RFC 2369, RFC 2919 (`Id`) and RFC 8058 (`Unsubscribe-Post`). */
const HEADER_NAME =
  /^(?:List-(?:Archive|Help|Id|Owner|Post|Subscribe|Unsubscribe|Unsubscribe-Post)|Feedback-ID|Precedence|Auto-Submitted|In-Reply-To|References|Importance|X-[A-Za-z0-9-]{1,60})$/i;
/** Prefixes of headers that are commands to the provider: a message could change with them which account sends and what is sent. */
const PROVIDER_HEADERS = ['SMTPAPI', 'SG-', 'Mailgun-', 'MC-', 'PM-', 'SES-', 'MSYS-', 'Mailjet-'].map(
  (name) => `X-${name}`,
);
const PROVIDER_HEADER = new RegExp(`^(?:${PROVIDER_HEADERS.join('|')})`, 'i');

const headers = atMostPairs(HEADERS_MAX, z.record(z.string(), z.string().max(998).nullable()))
  .check((context) => {
    for (const [name, value] of Object.entries(context.value)) {
      const isCommand = PROVIDER_HEADER.test(name);
      if (isCommand || !HEADER_NAME.test(name)) {
        context.issues.push({
          code: 'custom',
          input: context.value,
          params: { rule: 'header' },
          path: [name],
          message: isCommand
            ? 'Must not be a header that providers read as a command'
            : 'Must be one of the headers that the API allows',
        });
      } else if (value !== null && !isLine(value))
        context.issues.push({ ...lineIssue(context.value), path: [name] });
    }
  })
  .describe(
    `At most ${HEADERS_MAX}: \`List-Archive\`, \`List-Help\`, \`List-Id\`, \`List-Owner\`, \`List-Post\`, \`List-Subscribe\`, \`List-Unsubscribe\`, \`List-Unsubscribe-Post\`, \`In-Reply-To\`, \`References\`, \`Importance\`, \`Precedence\`, \`Auto-Submitted\`, \`Feedback-ID\`, \`X-*\`. Providers read some names as commands: those that begin with ${PROVIDER_HEADERS.map((name) => `\`${name}\``).join(', ')} are refused.`,
  );

const attachment = z.object({
  filename: lineText(1, 255).describe('Shown to the recipient.'),
  contentType: z
    .string()
    .regex(
      /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}(?:; ?[\w-]+=[\w."-]+)*$/,
      'Must be a media type, such as application/pdf',
    )
    .describe('The media type, such as `application/pdf`.'),
  content: z
    .string()
    .max(Math.ceil(ATTACHMENT_BYTES_MAX / 3) * 4)
    .refine(isBase64, {
      error: 'Must be base64 with padding and without line breaks',
      params: { rule: 'base64' },
    })
    .describe('Base64 of the standard alphabet, with padding and without line breaks.')
    .meta({ contentEncoding: 'base64' }),
});

const Email = z.object({
  channel: z.literal('email'),
  to: recipient('email', 'Must be an email address', (to) => normalAddress(to) !== undefined).meta({
    examples: ['delivered@simulator.invalid'],
  }),
  from: mailbox.describe('RFC 5322 from address.').meta({ examples: ['Acme <hello@example.com>'] }),
  subject: lineText(1, 998).describe('Subject line.'),
  bodyHtml: z.string().optional().describe('HTML body.'),
  bodyText: z.string().optional().describe('Plain text.'),
  body: z.string().optional().describe('The text if neither `bodyHtml` nor `bodyText` is present.'),
  replyTo: mailbox.optional().describe('Address for replies.'),
  headers: headers.optional(),
  attachments: z
    .array(attachment.meta({ id: 'Attachment', description: 'A file attached to an email.' }))
    .max(20)
    .refine(
      (all) => all.reduce((sum, { content }) => sum + base64Bytes(content), 0) <= ATTACHMENT_BYTES_MAX,
      {
        error: 'Must have at most 10 MiB in all',
        params: { rule: 'max' },
      },
    )
    .optional()
    .describe('At most 20, and 10 MiB in total, decoded.'),
  ...every,
});

const pushData = z.record(z.string(), z.unknown()).check(exactNumbers, (context) => {
  const fault = pushDataFault(context.value);
  if (fault === undefined) return;
  const { rule, message } = fault;
  context.issues.push({ code: 'custom', input: context.value, params: { rule }, message });
});

const Push = z.object({
  channel: z.literal('push'),
  to: recipient('token', 'Must be a device token', (to) => to.trim() !== '')
    .describe('Device token.')
    .meta({
      examples: ['delivered'],
    }),
  title: text(1, 1024).optional().describe('Shown above the text.'),
  body: text(1, 4096).optional().describe('The text.'),
  data: pushData
    .optional()
    .describe(
      'At least one of `title`, `body` and `data` is required. At most 4096 bytes of keys and values as texts in all.',
    ),
  badge: z.int().min(0).max(INT32_MAX).optional().describe("Number on the app's icon."),
  sound: lineText(1, 255).optional().describe('Name of a sound of the app.'),
  collapseKey: lineText(1, 64)
    .optional()
    .describe('A later notification with the same key replaces this one.'),
  ...every,
});

const Whatsapp = z.object({
  channel: z.literal('whatsapp'),
  to: numberTo,
  body: text(1, 4096).optional().describe('Exactly one of `body`, `template` and `media` is required.'),
  template: whatsappTemplate.optional(),
  media: whatsappMedia.optional(),
  ...every,
});

/** The body of `POST /v1/messages`, per channel. Fields of other channels are ignored. */
export const SendMessage = z
  .discriminatedUnion('channel', [
    Sms.meta({ id: 'SendSmsMessage', description: 'A text message to a phone.' }),
    Email.meta({ id: 'SendEmailMessage', description: 'An email.' }),
    Push.meta({ id: 'SendPushMessage', description: 'A push notification to one device.' }),
    Whatsapp.meta({
      id: 'SendWhatsappMessage',
      description: 'A WhatsApp message: a text, a template or a file.',
    }),
  ])
  .superRefine((message, context) => {
    if (message.expiresAt !== undefined && message.ttlSeconds !== undefined) {
      context.addIssue(issue('ttlSeconds', 'conflict', 'Excludes expiresAt'));
    }
    if (message.channel === 'push' && !(message.title ?? message.body ?? message.data)) {
      context.addIssue(issue('body', 'required', 'One of title, body and data is required'));
    }
    if (message.channel === 'whatsapp') {
      const given = [message.body, message.template, message.media].filter((part) => part !== undefined);
      if (given.length === 0)
        context.addIssue(issue('body', 'required', 'One of body, template and media is required'));
      if (given.length > 1)
        context.addIssue(issue('body', 'conflict', 'Only one of body, template and media is allowed'));
    }
  })
  .meta({
    id: 'SendMessage',
    description: 'A message to send; `channel` determines which schema applies.',
    discriminator: { propertyName: 'channel' },
  });
export type SendMessage = z.output<typeof SendMessage>;

function issue(field: string, rule: string, message: string) {
  return { code: 'custom' as const, path: [field], params: { rule }, message };
}

/** Limit of a whole request; 10 MiB of attachments are 14 MiB in base64. */
export const SEND_BYTES_MAX = 15 * 1024 * 1024;

/**
 * Returns the length of the attachments in a body that is not validated yet: the rest of the body may have 1 MiB, like
 * every body.
 */
export function attachedLength(body: unknown): number {
  const { channel, attachments } = (body ?? {}) as { channel?: unknown; attachments?: unknown };
  // On another channel attachments are unknown fields.
  if (channel !== 'email' || !Array.isArray(attachments)) return 0;
  return attachments.reduce<number>((sum, attachment) => {
    const { content } = (attachment ?? {}) as { content?: unknown };
    return typeof content === 'string' ? sum + content.length : sum;
  }, 0);
}
