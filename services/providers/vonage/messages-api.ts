import { z } from 'zod';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  classify,
  parseJson,
  type ClassifiedError,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import type { ProviderContext } from '../provider.ts';
import { withoutPlus } from '../without-plus.ts';
import { secretsToRedact, MESSAGES_ORIGINS, type Account } from './account.ts';
import { forgetApplicationToken, messagesAuthorization } from './application-token.ts';
import { meaningOfParameters, MESSAGES_CODES } from './outcomes.ts';

const Accepted = z.looseObject({ message_uuid: z.string().min(1) });
const Problem = z.looseObject({
  type: z.string().optional().catch(undefined),
  title: z.string().optional().catch(undefined),
  detail: z.string().optional().catch(undefined),
  invalid_parameters: z
    .array(z.looseObject({ name: z.string().catch(''), reason: z.string().optional().catch(undefined) }))
    .catch([]),
});

export type VonageMessage = Pick<OutboundMessage, 'id' | 'to' | 'from' | 'receiptUrl' | 'channel'> & {
  /** The content-specific part of the request. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Texts of the content that must not appear in an error. */
  readonly texts: readonly string[];
};

/** https://developer.vonage.com/en/api/messages */
export async function sendByMessages(
  message: VonageMessage,
  account: Account,
  context: ProviderContext,
): Promise<Outcome> {
  const { id, to, from, channel, fields, receiptUrl } = message;
  const authorization = await messagesAuthorization(account, context);
  const result = await context.http({
    method: 'POST',
    url: `${context.origin(MESSAGES_ORIGINS[account.config.region])}/v1/messages`,
    headers: { authorization, 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify({
      channel,
      from: withoutPlus(from ?? account.config.from),
      to: withoutPlus(to),
      ...fields,
      client_ref: id,
      ...(receiptUrl === undefined ? {} : { webhook_url: receiptUrl, webhook_version: 'v1' }),
    }),
  });
  if (result.kind === 'response' && result.status === 401) forgetApplicationToken(context);
  return outcomeOfSend(result, {
    judge: judgeProblem,
    hidden: [
      ...secretsToRedact(account),
      authorization,
      authorization.replace(/^\w+ /, ''),
      to,
      ...message.texts,
      receiptUrl ?? '',
    ],
    now: context.epochMs(),
    accepted: ({ text }) => {
      const providerMessageId = Accepted.safeParse(parseJson(text)).data?.message_uuid;
      const sender = from === undefined ? account.config.from : undefined;
      return providerMessageId === undefined ? undefined : { providerMessageId, sender };
    },
  });
}

/** An error's code is the last part of the URL that describes it. */
export function codeOfType(type: string | undefined): string | undefined {
  return /#([\w-]{1,64})$/.exec(type ?? '')?.[1];
}

function judgeProblem(response: Response): ClassifiedError {
  const classified = classify(response, MESSAGES_CODES, read);
  if (response.status !== 422) return classified;
  const names = Problem.safeParse(parseJson(response.text)).data?.invalid_parameters.map(({ name }) => name);
  return { ...classified, meaning: meaningOfParameters(names ?? []) ?? classified.meaning };
}

function read(body: unknown): VendorError {
  const { type, title, detail, invalid_parameters: invalid } = Problem.safeParse(body).data ?? {};
  return {
    providerCode: codeOfType(type),
    providerMessage: invalid?.[0]?.reason ?? detail ?? title,
  };
}
