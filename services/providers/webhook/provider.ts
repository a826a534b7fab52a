import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Channel } from '#core/domain/message/channel.ts';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import { DAY_MS } from '#core/domain/text/duration.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type Response,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { defineProvider, type HttpResult, type ProviderContext, type Verification } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import { unreached } from '../unreached.ts';
import { CONFIGS, secretsToRedact, secrets, signingKey, type Account } from './account.ts';
import { judgeRefusal } from './outcomes.ts';
import { checkPayload, messagePayload, senderUsed } from './payload.ts';
import { gatewayReceipts } from './receipts.ts';
import { signedHeaders } from '../standard-webhook.ts';
import { vendorName } from '../vendor-text.ts';
import { emailGuide, pushGuide, smsGuide, whatsappGuide } from './guide.ts';

/** Longer texts are not searched for in a gateway's failure text. */
const HIDDEN_CHARACTERS_MAX = 4_096;

const Accepted = z.looseObject({
  providerMessageId: z.string().max(255).transform(vendorName).optional().catch(undefined),
});

const common = {
  dedupe: 'key',
  // The guide to own gateways asks for this.
  keyLifetimeMs: 7 * DAY_MS,
  receipts: gatewayReceipts,
  bodyCharactersMax: null,
  secrets,
  tenantHost: { setting: 'url', hostOf: ({ url }: Account['config']) => new URL(url).hostname },
} as const;

/** A tenant's own gateway, one provider per channel: sends the message as JSON, signed by Standard Webhooks. */
export default [
  defineProvider({
    ...common,
    id: 'webhook-sms',
    channel: 'sms',
    name: 'Own SMS gateway',
    guide: smsGuide,
    config: CONFIGS.sms,
    secretRoute: { url: true, from: false },
    send,
    verify: verifierFor('sms'),
  }),
  defineProvider({
    ...common,
    id: 'webhook-email',
    channel: 'email',
    name: 'Own email gateway',
    guide: emailGuide,
    config: CONFIGS.email,
    secretRoute: { url: true, from: false, fromName: false },
    send,
    verify: verifierFor('email'),
  }),
  defineProvider({
    ...common,
    id: 'webhook-push',
    channel: 'push',
    name: 'Own push gateway',
    guide: pushGuide,
    config: CONFIGS.push,
    secretRoute: { url: true },
    send,
    verify: verifierFor('push'),
  }),
  defineProvider({
    ...common,
    id: 'webhook-whatsapp',
    channel: 'whatsapp',
    name: 'Own WhatsApp gateway',
    guide: whatsappGuide,
    config: CONFIGS.whatsapp,
    secretRoute: { url: true, from: false },
    send,
    verify: verifierFor('whatsapp'),
  }),
] as const;

async function send(message: OutboundMessage, account: Account, context: ProviderContext): Promise<Outcome> {
  const result = await post(
    message.id,
    messagePayload(message, account, context.epochMs()),
    account,
    context,
  );
  if (isBlocked(result)) return { kind: 'rejected_transient', failure: BLOCKED };
  return outcomeOfSend(result, {
    judge: judgeRefusal,
    hidden: hiddenWith(message, account),
    now: context.epochMs(),
    accepted: (response) => {
      const read = readAccepted(response);
      const sender = senderUsed(message, account.config);
      return read && { providerMessageId: read.providerMessageId ?? null, sender };
    },
  });
}

function verifierFor(channel: Channel) {
  return async (account: Account, context: ProviderContext): Promise<Verification> => {
    const result = await post(
      `check_${randomUUID()}`,
      checkPayload(channel, context.epochMs()),
      account,
      context,
    );
    if (isBlocked(result)) return { kind: 'invalid', failure: BLOCKED };
    if (result.kind !== 'response') return verificationUnknown(result);
    if (!isSuccess(result))
      return verificationOfRefusal(result, judgeRefusal(result), secretsToRedact(account));
    return readAccepted(result) === undefined ? verificationUnknown(result) : { kind: 'valid' };
  };
}

function post(id: string, payload: object, account: Account, context: ProviderContext): Promise<HttpResult> {
  const { origin, pathname, search } = new URL(account.config.url);
  const body = JSON.stringify(payload);
  return context.http({
    method: 'POST',
    url: `${context.origin(origin)}${pathname}${search}`,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json',
      ...signedHeaders(id, context.epochMs(), body, signingKey(account.secrets)),
    },
    body,
    isTenantHost: true,
  });
}

/**
 * Accepts an empty body or a JSON object. Any other body with a success status may come from another server at that URL.
 */
function readAccepted({ text }: Response): z.output<typeof Accepted> | undefined {
  return text.trim() === '' ? {} : Accepted.safeParse(parseJson(text)).data;
}

/** The account must name another host: neither the message nor the network is at fault. */
const BLOCKED = { ...unreached('egress_blocked'), class: 'auth_or_config' } as const;

function isBlocked(result: HttpResult): boolean {
  return result.kind === 'not_sent' && result.code === 'egress_blocked';
}

function hiddenWith({ to, receiptUrl, content }: OutboundMessage, account: Account): string[] {
  const texts = secretStrings(content).filter(({ length }) => length >= 4 && length <= HIDDEN_CHARACTERS_MAX);
  return [...secretsToRedact(account), to, ...(receiptUrl === undefined ? [] : [receiptUrl]), ...texts];
}
