import { parseJson } from '../classify-error.ts';
import { behaviourOfDigits, jsonReport, type Reporter } from '../stand-in-reports.ts';
import { signSinchCall } from './stand-in-signature.ts';

type Sent = {
  readonly to: readonly string[];
  readonly client_reference?: string;
  readonly callback_url?: string;
};

export const sinchReporter: Reporter = {
  taken(request, { status, body }) {
    if (request.method !== 'POST' || status !== 201) return [];
    const { to, client_reference: reference = '', callback_url: callback } = parseJson(request.body) as Sent;
    const recipient = String(to[0]);
    return [
      {
        reference,
        to: recipient,
        behaviour: behaviourOfDigits(recipient),
        providerMessageId: (body as { readonly id: string }).id,
        ...(callback === undefined ? {} : { callback }),
      },
    ];
  },
  refused: () => ({
    status: 400,
    body: { code: 'syntax_invalid_parameter_format', text: 'to holds an invalid MSISDN' },
  }),
  write: ({ reference, to, providerMessageId }, state, url) =>
    jsonReport(url, {
      type: 'recipient_delivery_report_sms',
      batch_id: providerMessageId,
      recipient: to,
      code: state === 'sent' ? 401 : 0,
      status: state === 'sent' ? 'Dispatched' : 'Delivered',
      at: new Date().toISOString(),
      client_reference: reference,
    }),
  sign: (call, account, at) =>
    account.secretConfig['webhookSecret'] === undefined ? call : signSinchCall(call, account, at),
};
