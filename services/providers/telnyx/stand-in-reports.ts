import { randomUUID } from 'node:crypto';
import { referenceOf } from '../callback-reference.ts';
import { parseJson } from '../classify-error.ts';
import { behaviourOfDigits, jsonReport, type Reporter } from '../stand-in-reports.ts';
import { STAND_IN_KEY } from './stand-in-key.ts';
import { signTelnyxCall } from './stand-in-signature.ts';

type Sent = { readonly to: string; readonly from?: string; readonly webhook_url?: string };

export const telnyxReporter: Reporter = {
  taken(request, { status, body }) {
    if (request.method !== 'POST' || status !== 200) return [];
    const { to, from = '', webhook_url: callback } = parseJson(request.body) as Sent;
    return [
      {
        reference: referenceOf(callback ?? '').reference ?? '',
        to,
        behaviour: behaviourOfDigits(to),
        providerMessageId: (body as { readonly data: { readonly id: string } }).data.id,
        ...(callback === undefined ? {} : { callback }),
        fields: { from },
      },
    ];
  },
  refused: () => ({
    status: 400,
    body: {
      errors: [
        {
          code: '40310',
          title: "Invalid 'to' address",
          detail: "The 'to' address should be in +E.164 format.",
          meta: { url: 'https://developers.telnyx.com/docs/overview/errors/40310' },
        },
      ],
    },
  }),
  write: ({ to, providerMessageId, fields }, status, url) =>
    jsonReport(url, {
      data: {
        event_type: status === 'sent' ? 'message.sent' : 'message.finalized',
        id: randomUUID(),
        occurred_at: new Date().toISOString(),
        payload: {
          id: providerMessageId,
          record_type: 'message',
          direction: 'outbound',
          from: { phone_number: fields?.['from'] ?? '' },
          to: [{ phone_number: to, status }],
          errors: [],
        },
        record_type: 'event',
      },
      meta: { attempt: 1, delivered_to: url },
    }),
  sign: (call, _account, at) => signTelnyxCall(call, STAND_IN_KEY, at),
};
