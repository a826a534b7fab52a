import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  classify,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type ClassifiedError,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { defineProvider, type HttpResult, type ProviderContext, type Verification } from '../provider.ts';
import { config, secretsToRedact, secrets, type Account } from './account.ts';
import { apnsHeaders, apnsPayload } from './notification.ts';
import { APNS_REASONS } from './outcomes.ts';
import { providerToken, renew } from './provider-token.ts';
import { apnsGuide } from './guide.ts';

const ORIGINS = {
  production: 'https://api.push.apple.com',
  sandbox: 'https://api.sandbox.push.apple.com',
} as const;

const ErrorBody = z.looseObject({
  reason: z.string(),
  /** When Apple learned that the device token is no longer valid, in milliseconds since the epoch. */
  timestamp: z.number().optional().catch(undefined),
});

export default defineProvider({
  id: 'apns',
  channel: 'push',
  name: 'Apple Push Notification service',
  dedupe: 'none',
  receipts: null,
  bodyCharactersMax: null,
  guide: apnsGuide,
  config,
  secrets,
  secretRoute: { teamId: true, keyId: true, bundleId: false, environment: true },

  async send(message, account, context): Promise<Outcome> {
    const headers = apnsHeaders(message, account.config.bundleId);
    const body = JSON.stringify(apnsPayload(message.content));
    const { result, token } = await call(message.to, headers, body, account, context);
    return outcomeOfSend(result, {
      judge,
      hidden: secretsToRedact(account, token, message.to, ...textsOf(message)),
      now: context.epochMs(),
      // A success has an empty body; an HTML page with a success status is not the API's answer.
      accepted: (response) =>
        response.text.trim() === ''
          ? { providerMessageId: response.headers['apns-id'] ?? message.id }
          : undefined,
    });
  },

  async verify(account, context): Promise<Verification> {
    const headers = {
      'apns-id': randomUUID(),
      'apns-topic': account.config.bundleId,
      'apns-push-type': 'background',
      'apns-priority': '5',
      'apns-expiration': '0',
    };
    const body = JSON.stringify({ aps: { 'content-available': 1 } });
    const { result, token } = await call(NO_DEVICE, headers, body, account, context);
    if (result.kind !== 'response' || isSuccess(result)) return verificationUnknown(result);
    const classified = judge(result);
    // APNs checked the made-up device token, so the credential works.
    if (classified.meaning.class === 'invalid_recipient') return { kind: 'valid' };
    return verificationOfRefusal(result, classified, secretsToRedact(account, token));
  },
});

/** Has the format of a device token but belongs to no device. */
const NO_DEVICE = '0'.repeat(64);

type Called = { readonly result: HttpResult; readonly token: string };

/**
 * Makes one call and retries it once with a new token if the token expired early. APNs did nothing with the rejected call,
 * so the retry cannot duplicate the message.
 */
async function call(
  device: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  account: Account,
  context: ProviderContext,
): Promise<Called> {
  const token = await providerToken(account, context);
  const { environment, teamId, keyId, bundleId } = account.config;
  const post = async (bearer: string): Promise<Called> => {
    const result = await context.http({
      method: 'POST',
      url: `${context.origin(ORIGINS[environment])}/3/device/${encodeURIComponent(device)}`,
      headers: { ...headers, authorization: `bearer ${bearer}`, 'content-type': 'application/json' },
      body,
      // Apple binds a connection to the team, the key and the apps of the first request on it.
      http2: JSON.stringify([teamId, keyId, bundleId]),
    });
    return { result, token: bearer };
  };
  const first = await post(token.current);
  const isExpired = first.result.kind === 'response' && reasonOf(first.result) === 'ExpiredProviderToken';
  if (!isExpired || !renew(token, first.token, account, context.epochMs())) return first;
  return post(token.current);
}

function judge(response: Response): ClassifiedError {
  return classify(response, APNS_REASONS, read);
}

function read(body: unknown): VendorError {
  const error = ErrorBody.safeParse(body).data;
  const since = new Date(error?.timestamp ?? Number.NaN);
  return {
    providerCode: error?.reason,
    providerMessage: Number.isNaN(since.getTime()) ? undefined : `Not a device since ${since.toISOString()}`,
  };
}

function reasonOf(response: Response): string | undefined {
  return ErrorBody.safeParse(parseJson(response.text)).data?.reason;
}

function textsOf({ content }: OutboundFor<'push'>): string[] {
  return [content.title, content.body].filter((text) => text !== undefined);
}
