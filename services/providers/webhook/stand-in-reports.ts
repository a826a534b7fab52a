import { randomUUID } from 'node:crypto';
import type { Channel } from '#core/domain/channel.ts';
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
    body: { error: { class: 'invalid_recipient', code: 'invalid_recipient' } },
  }),
  write: ({ reference }, status, url) =>
    jsonReport(url, { id: randomUUID(), messageId: reference, status, at: new Date().toISOString() }),
  sign: (call, account, at) =>
    account.secretConfig['signingSecret'] === undefined ? undefined : signGatewayCall(call, account, at),
};

function behaviourOn(channel: Channel, to: string): Behaviour {
  if (channel === 'email') return behaviourOfAddress(to);
  return channel === 'push' ? behaviourOfWord(to) : behaviourOfDigits(to);
}
