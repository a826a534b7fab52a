import { parseJson } from '../classify-error.ts';
import { behaviourOfDigits, type Reporter } from '../stand-in-reports.ts';
import { signMessagebirdCall } from './stand-in-signature.ts';

type Sent = {
  readonly recipients?: readonly string[];
  readonly reference?: string;
  readonly reportUrl?: string;
};

/** The whole report is in the query string. */
export const messagebirdReporter: Reporter = {
  taken(request, { status, body }) {
    if (request.method !== 'POST' || status !== 201) return [];
    const { recipients = [], reference = '', reportUrl } = parseJson(request.body) as Sent;
    const to = String(recipients[0]);
    return [
      {
        reference,
        to,
        behaviour: behaviourOfDigits(to),
        providerMessageId: (body as { readonly id: string }).id,
        ...(reportUrl === undefined ? {} : { callback: reportUrl }),
      },
    ];
  },
  refused: () => ({
    status: 422,
    body: {
      errors: [{ code: 9, description: 'no (correct) recipients found', parameter: 'recipients' }],
    },
  }),
  write({ reference, to, providerMessageId }, status, url) {
    const query = new URLSearchParams({
      id: providerMessageId,
      reference,
      recipient: to,
      status,
      statusDatetime: new Date().toISOString().replace(/\.\d+Z$/, '+00:00'),
    });
    return { method: 'GET', url: `${url}?${query.toString()}`, headers: {}, body: '' };
  },
  sign: (call, account, at) =>
    account.secretConfig['signingKey'] === undefined ? call : signMessagebirdCall(call, account, at),
};
