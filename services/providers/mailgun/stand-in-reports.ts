import { randomBytes } from 'node:crypto';
import { behaviourOfAddress } from '../behaviour.ts';
import type { Received } from '../stand-in.ts';
import { jsonReport, type Reporter } from '../stand-in-reports.ts';
import { REFERENCE } from './payload.ts';
import { withoutBrackets } from './receipts.ts';
import { signMailgunCall } from './stand-in-signature.ts';

export const mailgunReporter: Reporter = {
  taken(request, { status, body }) {
    if (request.method !== 'POST' || status !== 200) return [];
    const to = fieldOf(request, 'to');
    return [
      {
        reference: fieldOf(request, `v:${REFERENCE}`),
        to,
        behaviour: behaviourOfAddress(to),
        providerMessageId: (body as { readonly id: string }).id,
      },
    ];
  },
  refused: () => ({
    status: 400,
    body: { message: "'to' parameter is not a valid address. please check documentation" },
  }),
  write: ({ reference, to, providerMessageId }, state, url) =>
    jsonReport(url, {
      'event-data': {
        event: state === 'sent' ? 'accepted' : 'delivered',
        id: randomBytes(16).toString('base64url'),
        timestamp: Date.now() / 1_000,
        recipient: to,
        message: { headers: { 'message-id': withoutBrackets(providerMessageId), to } },
        'delivery-status': state === 'sent' ? undefined : { code: 250, message: 'OK' },
        'user-variables': { [REFERENCE]: reference },
      },
    }),
  /** Mailgun signs even for accounts that store no signing key. */
  sign: signMailgunCall,
};

function fieldOf({ headers, body }: Received, name: string): string {
  if (headers['content-type']?.startsWith('multipart/') !== true)
    return new URLSearchParams(body).get(name) ?? '';
  return new RegExp(`name="${name}"\r\n\r\n([^\r]*)`).exec(body)?.[1] ?? '';
}
