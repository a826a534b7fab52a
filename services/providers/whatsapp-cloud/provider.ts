import { z } from 'zod';
import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { digits, optionalToken, token } from '../fields.ts';
import { defineProvider, type ProviderContext, type Verification } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import { hmac } from '../signature.ts';
import {
  accountFault,
  classify,
  isSuccess,
  parseJson,
  transient,
  verificationOfRefusal,
  verificationUnknown,
  type ClassifiedError,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { outcomeOfRefusal, outcomeOfUnreadable, outcomeWithoutResponse } from '../outcome-of-send.ts';
import { whatsappTexts } from '../whatsapp-texts.ts';
import { NO_SUCH_OBJECT, PAIR_LIMIT, PAIR_LIMIT_WAIT_MS, WHATSAPP_CODES } from './outcomes.ts';
import { whatsappPayload } from './payload.ts';
import { whatsappReceipts } from './receipts.ts';
import { whatsappCloudGuide } from './guide.ts';

const config = z.object({
  phoneNumberId: digits('Id of the sending phone number (not the number itself).'),
  businessAccountId: digits('Id of the WhatsApp Business Account.').optional(),
  apiVersion: z
    .string()
    .regex(/^v\d{1,3}\.\d{1,2}$/, 'Must look like v23.0')
    .default('v23.0')
    .describe('Version of the Graph API, for example v23.0 (the default).'),
});

const secrets = z.object({
  accessToken: token('Access token of a system user with whatsapp_business_messaging.'),
  appSecret: optionalToken(
    'Secret of the app that the access token belongs to. Receipts are signed with it; without it, only the secret in the receipt URL authenticates them. Calls prove that they know it; an app that requires such a proof refuses calls without it.',
  ),
});

type Account = { readonly config: z.output<typeof config>; readonly secrets: z.output<typeof secrets> };

const Accepted = z.looseObject({
  messages: z.tuple([z.looseObject({ id: z.string().min(1) })], z.unknown()),
});
const ErrorBody = z.looseObject({
  error: z.looseObject({
    code: z.union([z.number(), z.string()]).optional().catch(undefined),
    error_subcode: z.number().optional().catch(undefined),
    message: z.string().optional().catch(undefined),
    is_transient: z.boolean().optional().catch(undefined),
    error_data: z
      .looseObject({ details: z.string().optional().catch(undefined) })
      .optional()
      .catch(undefined),
  }),
});
const NumberBody = z.looseObject({ id: z.string() });

export default defineProvider({
  id: 'whatsapp-cloud',
  channel: 'whatsapp',
  name: 'WhatsApp Business Cloud API',
  dedupe: 'none',
  receipts: whatsappReceipts,
  bodyCharactersMax: 4_096,
  guide: whatsappCloudGuide,
  config,
  secrets,
  secretRoute: { phoneNumberId: true, apiVersion: true, businessAccountId: false },

  async send(message, credentials, context): Promise<Outcome> {
    const result = await context.http({
      method: 'POST',
      url: urlOf(credentials, context, '/messages', {}),
      headers: { ...authorization(credentials), 'content-type': 'application/json' },
      body: JSON.stringify({
        messaging_product: 'whatsapp',
        recipient_type: 'individual',
        to: message.to,
        ...whatsappPayload(message.content),
        biz_opaque_callback_data: message.id,
      }),
    });
    if (result.kind !== 'response') return outcomeWithoutResponse(result);
    const hidden = secretsToRedact(message, credentials);
    if (!isSuccess(result)) return outcomeOfRefusal(result, judgeCode(result), hidden, context.epochMs());
    const accepted = Accepted.safeParse(parseJson(result.text));
    if (!accepted.success) return outcomeOfUnreadable(result);
    return {
      kind: 'accepted',
      providerMessageId: accepted.data.messages[0].id,
      httpStatus: result.status,
      sender: credentials.config.phoneNumberId,
    };
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: urlOf(credentials, context, '', { fields: 'id' }),
      headers: authorization(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    if (!isSuccess(result)) return verdictOf(result, credentials);
    return NumberBody.safeParse(parseJson(result.text)).success
      ? { kind: 'valid' }
      : verificationUnknown(result);
  },
});

/** Returns the URL of the phone number's node or of an edge of it. */
function urlOf(
  { config, secrets }: Account,
  context: Pick<ProviderContext, 'origin'>,
  edge: string,
  parameters: Readonly<Record<string, string>>,
): string {
  const query = new URLSearchParams({ ...parameters, ...proof(secrets) }).toString();
  const node = `${context.origin('https://graph.facebook.com')}/${config.apiVersion}/${config.phoneNumberId}`;
  return `${node}${edge}${query && `?${query}`}`;
}

/**
 * https://developers.facebook.com/docs/graph-api/guides/secure-requests. An app may require the proof. Without the token it is
 * worth nothing, so it may stand in access logs.
 */
function proof({ accessToken, appSecret }: Account['secrets']): Record<string, string> {
  return appSecret === undefined ? {} : { appsecret_proof: hmac('sha256', appSecret, accessToken) };
}

/** The token is sent in a header only: in a query it would end up in access logs. */
function authorization({ secrets }: Account): Record<string, string> {
  return { authorization: `Bearer ${secrets.accessToken}`, accept: 'application/json' };
}

/**
 * Reading the number needs another permission than sending from it
 * (https://developers.facebook.com/documentation/business-messaging/whatsapp/permissions), so a missing one says nothing about
 * whether the token may send.
 */
function verdictOf(refusal: Response, { secrets }: Account): Verification {
  const verdict = verificationOfRefusal(refusal, judgeCode(refusal), secretStrings(secrets));
  return verdict.kind === 'invalid' && verdict.failure.code === 'forbidden'
    ? { ...verdict, kind: 'unknown' }
    : verdict;
}

function judgeCode(response: Response): ClassifiedError {
  const classified = classify(response, WHATSAPP_CODES, read);
  if (classified.vendorError.providerCode === String(PAIR_LIMIT)) {
    return { ...classified, waitMs: PAIR_LIMIT_WAIT_MS };
  }
  if (classified.meaning.retry) return classified;
  const error = ErrorBody.safeParse(parseJson(response.text)).data?.error;
  if (classified.vendorError.providerCode === '100' && isAboutNumber(error)) {
    return { ...classified, meaning: accountFault('sender_unregistered') };
  }
  // The text alone tells a missing or wrong proof from a wrong parameter of the message.
  if (classified.vendorError.providerCode === '100' && /appsecret_proof/.test(error?.message ?? '')) {
    return { ...classified, meaning: accountFault('app_secret_refused') };
  }
  const isTransient = error?.is_transient === true;
  return isTransient
    ? { ...classified, meaning: transient('provider_unavailable', 'provider_error') }
    : classified;
}

/** Meta has announced that newer versions leave out the subcode, so the text tells it too. */
function isAboutNumber(error: z.output<typeof ErrorBody>['error'] | undefined): boolean {
  return (
    error?.error_subcode === NO_SUCH_OBJECT ||
    /does not exist, cannot be loaded due to missing permissions/.test(error?.message ?? '')
  );
}

function read(body: unknown): VendorError {
  const error = ErrorBody.safeParse(body).data?.error;
  return {
    providerCode: error?.code === undefined ? undefined : String(error.code),
    providerMessage: error?.error_data?.details ?? error?.message,
  };
}

function secretsToRedact({ to, content }: OutboundFor<'whatsapp'>, { secrets }: Account): string[] {
  return [...secretStrings(secrets), to, ...whatsappTexts(content)];
}
