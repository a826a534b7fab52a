import { behaviourOfAddress } from '../behaviour.ts';
import { parseJson } from '../classify-error.ts';
import { jsonReport, type Reporter } from '../stand-in-reports.ts';
import { REFERENCE } from './payload.ts';
import { signResendCall } from './stand-in-signature.ts';

type Sent = {
  readonly to: readonly string[];
  readonly from: string;
  readonly subject: string;
  readonly tags?: readonly { readonly name: string; readonly value: string }[];
};

export const resendReporter: Reporter = {
  taken(request, { status, body }) {
    if (request.method !== 'POST' || status !== 200) return [];
    const { to, from, subject, tags = [] } = parseJson(request.body) as Sent;
    const [recipient = ''] = to;
    return [
      {
        reference: tags.find(({ name }) => name === REFERENCE)?.value ?? '',
        to: recipient,
        behaviour: behaviourOfAddress(recipient),
        providerMessageId: (body as { readonly id: string }).id,
        fields: { from, subject },
      },
    ];
  },
  refused: () => ({
    status: 422,
    body: { statusCode: 422, name: 'validation_error', message: 'Invalid `to` field.' },
  }),
  write: ({ reference, to, providerMessageId, fields }, state, url) =>
    jsonReport(url, {
      type: `email.${state}`,
      created_at: new Date().toISOString(),
      data: { email_id: providerMessageId, ...fields, to: [to], tags: { [REFERENCE]: reference } },
    }),
  sign: (call, account, at) =>
    account.secretConfig['webhookSecret'] === undefined ? call : signResendCall('svix', call, account, at),
};
