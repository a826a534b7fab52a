import { parseJson } from '../classify-error.ts';
import type { Reply } from '../stand-in.ts';
import { behaviourOfDigits, jsonReport, type Reporter, type TakenMessage } from '../stand-in-reports.ts';

type Sms = {
  readonly destinations: readonly { readonly to: string }[];
  readonly webhooks?: { readonly callbackData?: string; readonly delivery?: { readonly url: string } };
};
type Whatsapp = { readonly to: string; readonly callbackData?: string; readonly notifyUrl?: string };
type Answered = { readonly messageId: string };

/** Infobip does not sign its calls. */
export const infobipReporter: Reporter = {
  taken({ method, path, body }, reply) {
    if (method !== 'POST' || reply.status !== 200) return [];
    const sent = parseJson(body) as { readonly messages?: readonly unknown[] };
    const one = sent.messages?.[0] ?? sent;
    if (!path.startsWith('/sms/')) {
      const { to, callbackData, notifyUrl } = one as Whatsapp;
      return [messageOf(to, answered(reply), callbackData, notifyUrl)];
    }
    const { destinations, webhooks = {} } = one as Sms;
    const to = destinations[0]?.to ?? '';
    return [messageOf(to, answered(reply), webhooks.callbackData, webhooks.delivery?.url)];
  },

  refused: ({ path }) =>
    path.startsWith('/sms/')
      ? {
          status: 400,
          body: {
            errorCode: 'E400',
            description: 'Bad request.',
            action: 'Check the request.',
            violations: [{ property: 'messages[0].destinations[0].to', violation: 'is no phone number' }],
            resources: [],
          },
        }
      : {
          status: 400,
          body: {
            requestError: {
              serviceException: {
                messageId: 'BAD_REQUEST',
                text: 'Bad Request',
                validationErrors: { to: ['is no phone number'] },
              },
            },
          },
        },

  write: ({ reference, to, providerMessageId }, state, url) =>
    jsonReport(url, {
      results: [
        {
          messageId: providerMessageId,
          to,
          sentAt: now(),
          doneAt: now(),
          messageCount: 1,
          callbackData: reference,
          status: state === 'sent' ? SENT : DELIVERED,
          error: { groupId: 0, groupName: 'OK', id: 0, name: 'NO_ERROR', permanent: false },
        },
      ],
    }),
};

const SENT = { groupId: 1, groupName: 'PENDING', id: 7, name: 'PENDING_ENROUTE' };
const DELIVERED = { groupId: 3, groupName: 'DELIVERED', id: 5, name: 'DELIVERED_TO_HANDSET' };

/** Infobip writes the time zone without a colon. */
function now(): string {
  return new Date().toISOString().replace('Z', '+0000');
}

function answered({ body }: Reply): string {
  const { messages, messageId } = body as Partial<Answered> & { readonly messages?: readonly Answered[] };
  return messages?.[0]?.messageId ?? messageId ?? '';
}

function messageOf(
  to: string,
  providerMessageId: string,
  reference = '',
  callback: string | undefined,
): TakenMessage {
  const behaviour = behaviourOfDigits(to);
  return { reference, to, behaviour, providerMessageId, ...(callback === undefined ? {} : { callback }) };
}
