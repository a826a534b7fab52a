import { behaviourOfAddress } from '../behaviour.ts';
import { parseJson } from '../classify-error.ts';
import { jsonReport, type Reporter } from '../stand-in-reports.ts';
import { REFERENCE } from './payload.ts';

type Sent = { readonly To: string; readonly Metadata?: Readonly<Record<string, string>> };

/** Postmark does not sign its calls and reports nothing before a mail is delivered. */
export const postmarkReporter: Reporter = {
  taken(request, { status, body }) {
    if (request.method !== 'POST' || status !== 200) return [];
    const { To, Metadata = {} } = parseJson(request.body) as Sent;
    return [
      {
        reference: Metadata[REFERENCE] ?? '',
        to: To,
        behaviour: behaviourOfAddress(To),
        providerMessageId: (body as { readonly MessageID: string }).MessageID,
      },
    ];
  },
  refused: () => ({ status: 422, body: { ErrorCode: 300, Message: "Invalid 'To' address." } }),
  write: ({ reference, to, providerMessageId }, state, url) =>
    state === 'sent'
      ? undefined
      : jsonReport(url, {
          RecordType: 'Delivery',
          ServerID: 1,
          MessageStream: 'outbound',
          MessageID: providerMessageId,
          Recipient: to,
          DeliveredAt: new Date().toISOString(),
          Details: '250 OK',
          Tag: '',
          Metadata: { [REFERENCE]: reference },
        }),
};
