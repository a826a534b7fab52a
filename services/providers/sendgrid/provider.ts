import { z } from 'zod';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { retryAfterMs } from '#core/domain/sending/retry-after.ts';
import { headerText, mailAddress, token } from '../fields.ts';
import { hiddenInMail } from '../mail-content.ts';
import { hasAsciiLocalPart, UNSUPPORTED_RECIPIENT } from '../mailbox.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import {
  accountFault,
  classify,
  failureOf,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type ClassifiedError,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { NO_CREDITS, SENDGRID_FIELDS, UNVERIFIED_SENDER } from './outcomes.ts';
import { sendgridMail } from './payload.ts';
import { publicKeyOf, sendgridReceipts } from './receipts.ts';
import { sendgridGuide } from './guide.ts';

const config = z.object({
  from: mailAddress('Default sender address, verified with SendGrid; used with `fromName`.').optional(),
  fromName: headerText('Sender name used with `from` when the message gives none.').optional(),
  region: z
    .enum(['global', 'eu'])
    .default('global')
    .describe('Where the account lives: global or eu. Default global.'),
  webhookPublicKey: z
    .string()
    .max(512, 'Must be at most 512 characters')
    .refine(
      (text) => publicKeyOf(text) !== undefined,
      'Must be a P-256 public key in base64, without PEM lines',
    )
    .optional()
    .describe(
      'Verification key of the signed event webhook. Without it, only the secret in the receipt URL authenticates receipts.',
    ),
});

const secrets = z.object({
  apiKey: token('API key with the permission mail.send (begins with SG.).'),
});

type Account = { readonly config: z.output<typeof config>; readonly secrets: z.output<typeof secrets> };

const ErrorBody = z.looseObject({
  errors: z.array(
    z.looseObject({
      message: z.string().nullish().catch(undefined),
      field: z.string().nullish().catch(undefined),
    }),
  ),
});
const ScopesBody = z.looseObject({ scopes: z.array(z.string()) });

export default defineProvider({
  id: 'sendgrid',
  channel: 'email',
  name: 'Twilio SendGrid',
  dedupe: 'none',
  receipts: sendgridReceipts,
  bodyCharactersMax: null,
  guide: sendgridGuide,
  config,
  secrets,
  secretRoute: { region: true, from: false, fromName: false, webhookPublicKey: false },

  async send(message, credentials, context): Promise<Outcome> {
    if (!hasAsciiLocalPart(message.to)) {
      return { kind: 'rejected_permanent', failure: UNSUPPORTED_RECIPIENT };
    }
    const result = await context.http({
      method: 'POST',
      url: `${context.origin(vendorOrigin(credentials))}/v3/mail/send`,
      headers: { ...authorization(credentials), 'content-type': 'application/json' },
      body: JSON.stringify(sendgridMail(message, credentials.config)),
    });
    const now = context.epochMs();
    return outcomeOfSend(result, {
      judge: (response) => ({ ...judgeSend(response), waitMs: resetMs(response, now) }),
      hidden: [...secretStrings(credentials.secrets), ...hiddenInMail(message)],
      now,
      accepted,
    });
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: `${context.origin(vendorOrigin(credentials))}/v3/scopes`,
      headers: authorization(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    const hidden = secretStrings(credentials.secrets);
    if (result.status !== 200) return verificationOfRefusal(result, classify(result, {}, read), hidden);
    const scopes = ScopesBody.safeParse(parseJson(result.text)).data?.scopes;
    if (scopes === undefined) return verificationUnknown(result);
    if (scopes.includes('mail.send')) return { kind: 'valid' };
    return {
      kind: 'invalid',
      failure: failureOf(result, { meaning: accountFault('missing_scope'), vendorError: {} }, hidden),
    };
  },
});

function vendorOrigin({ config }: Account): string {
  return config.region === 'eu' ? 'https://api.eu.sendgrid.com' : 'https://api.sendgrid.com';
}

function authorization({ secrets }: Account): Record<string, string> {
  return { authorization: `Bearer ${secrets.apiKey}`, accept: 'application/json' };
}

/**
 * Returns the wait that a 429 asks for. SendGrid gives no Retry-After but the time, in seconds since the epoch, at which the
 * limit starts anew.
 */
function resetMs({ status, headers }: Response, now: number): number | undefined {
  const reset = headers['x-ratelimit-reset'];
  if (status !== 429 || reset === undefined || !/^\d{10}$/.test(reset)) return undefined;
  return retryAfterMs(new Date(Number(reset) * 1_000).toUTCString(), now);
}

/**
 * The answer is an empty 202 (200 in sandbox mode) with the id in a header; an HTML page with a success status is not the API's
 * answer.
 */
function accepted({ text, headers }: Response) {
  const isAnswer = text.trim() === '' || parseJson(text) !== undefined;
  return isAnswer ? { providerMessageId: headers['x-message-id'] ?? null } : undefined;
}

function judgeSend(response: Response): ClassifiedError {
  const classified = classify(response, response.status === 400 ? SENDGRID_FIELDS : {}, read);
  const { providerCode: field, providerMessage: text = '' } = classified.vendorError;
  if (response.status === 403 && (field?.startsWith('from') === true || /sender identity/i.test(text))) {
    return { ...classified, meaning: UNVERIFIED_SENDER };
  }
  return response.status === 401 && /credits exceeded/i.test(text)
    ? { ...classified, meaning: NO_CREDITS }
    : classified;
}

/** SendGrid names the faulty field instead of a code; array indices in it do not affect the kind of fault. */
function read(body: unknown): VendorError {
  const first = ErrorBody.safeParse(body).data?.errors[0];
  return {
    providerCode: first?.field?.replace(/\[?\.?\d{1,4}\]?(?=\.|$)/g, '') ?? undefined,
    providerMessage: first?.message ?? undefined,
  };
}
