import { parseJson } from '../classify-error.ts';
import { behaviourOfDigits, jsonReport, type Reporter } from '../stand-in-reports.ts';
import { signMetaCall } from './stand-in-signature.ts';

type Sent = { readonly to: string; readonly biz_opaque_callback_data?: string };

export const whatsappCloudReporter: Reporter = {
  taken(request, { status, body }) {
    if (request.method !== 'POST' || status !== 200) return [];
    const { to, biz_opaque_callback_data: reference = '' } = parseJson(request.body) as Sent;
    const [first] = (body as { readonly messages: readonly { readonly id: string }[] }).messages;
    const phoneNumberId = /^\/v[\d.]+\/(\d+)\//.exec(request.path)?.[1] ?? '';
    return [
      {
        reference,
        to,
        behaviour: behaviourOfDigits(to),
        providerMessageId: first?.id ?? '',
        fields: { phoneNumberId },
      },
    ];
  },
  refused: () => ({
    status: 400,
    body: {
      error: {
        message: '(#131026) Message undeliverable',
        type: 'OAuthException',
        code: 131026,
        fbtrace_id: 'AbCdEf',
      },
    },
  }),
  write: ({ reference, to, providerMessageId, fields }, status, url) =>
    jsonReport(url, {
      object: 'whatsapp_business_account',
      entry: [
        {
          id: '0',
          changes: [
            {
              field: 'messages',
              value: {
                messaging_product: 'whatsapp',
                metadata: { phone_number_id: fields?.['phoneNumberId'] },
                statuses: [
                  {
                    id: providerMessageId,
                    status,
                    timestamp: String(Math.floor(Date.now() / 1_000)),
                    recipient_id: to.replace('+', ''),
                    biz_opaque_callback_data: reference,
                  },
                ],
              },
            },
          ],
        },
      ],
    }),
  /** Meta always signs; an account without the secret cannot verify it. */
  sign: (call, account) =>
    account.secretConfig['appSecret'] === undefined ? call : signMetaCall(call, account),
};
