import { randomBytes } from 'node:crypto';
import { behaviourOfAddress } from '../behaviour.ts';
import { parseJson } from '../classify-error.ts';
import { jsonReport, type Reporter } from '../stand-in-reports.ts';
import { REFERENCE } from './payload.ts';
import { STAND_IN_KEY } from './stand-in-key.ts';
import { signSendgridCall } from './stand-in-signature.ts';

type Sent = {
  readonly personalizations: readonly {
    readonly to: readonly { readonly email: string }[];
    readonly custom_args?: Readonly<Record<string, string>>;
  }[];
};

export const sendgridReporter: Reporter = {
  taken(request, { status, headers }) {
    if (status !== 202) return [];
    const [one] = (parseJson(request.body) as Sent).personalizations;
    const to = one?.to[0]?.email ?? '';
    return [
      {
        reference: one?.custom_args?.[REFERENCE] ?? '',
        to,
        behaviour: behaviourOfAddress(to),
        providerMessageId: headers?.['x-message-id'] ?? '',
      },
    ];
  },
  refused: () => ({
    status: 400,
    body: {
      errors: [
        { message: 'Does not contain a valid address.', field: 'personalizations.0.to.0.email', help: null },
      ],
    },
  }),
  write: ({ reference, to, providerMessageId }, state, url) =>
    jsonReport(url, [
      {
        email: to,
        timestamp: Math.floor(Date.now() / 1_000),
        event: state === 'sent' ? 'processed' : 'delivered',
        sg_event_id: randomBytes(16).toString('base64url'),
        sg_message_id: `${providerMessageId}.recvd-stand-in-1`,
        'smtp-id': `<${providerMessageId}@geopod-ismtpd-1>`,
        [REFERENCE]: reference,
      },
    ]),
  /** Customers can enable signing only after they have entered a webhook URL. */
  sign: (call, { publicConfig }, at) =>
    publicConfig['webhookPublicKey'] === undefined ? call : signSendgridCall(call, STAND_IN_KEY, at),
};
