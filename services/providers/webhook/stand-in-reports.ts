import type { Channel } from '#core/domain/message/channel.ts';
import { behaviourOfAddress, behaviourOfWord, type Behaviour } from '../behaviour.ts';
import { parseJson } from '../classify-error.ts';
import { behaviourOfDigits, jsonReport, type Reporter } from '../stand-in-reports.ts';
import { signGatewayCall } from './stand-in-signature.ts';

type Sent = {
  readonly data: {
    readonly messageId: string;
    readonly channel: Channel;
    readonly to: string;
    readonly receiptUrl?: string;
  };
};

export const gatewayReporter: Reporter = {
  taken(request, { status, body }) {
    if (status !== 202) return [];
    const { messageId, channel, to, receiptUrl } = (parseJson(request.body) as Sent).data;
    return [
      {
        reference: messageId,
        to,
        behaviour: behaviourOn(channel, to),
        providerMessageId: (body as { readonly providerMessageId: string }).providerMessageId,
        ...(receiptUrl === undefined ? {} : { callback: receiptUrl }),
      },
    ];
  },
  refused: () => ({
    status: 422,
    body: { error: { class: 'invalid_recipient', code: 'unknown_recipient' } },
  }),
  write: ({ reference }, status, url) =>
    jsonReport(url, {
      id: `${reference}:${status}`,
      messageId: reference,
      status,
      at: new Date().toISOString(),
    }),
  sign(call, account, at) {
    if (account.secretConfig['signingSecret'] === undefined) return undefined;
    const { id } = parseJson(Buffer.from(call.body).toString()) as { readonly id: string };
    return signGatewayCall(call, account, at, id);
  },
};

function behaviourOn(channel: Channel, to: string): Behaviour {
  if (channel === 'email') return behaviourOfAddress(to);
  return channel === 'push' ? behaviourOfWord(to) : behaviourOfDigits(to);
}
