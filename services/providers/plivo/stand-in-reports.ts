import { randomUUID } from 'node:crypto';
import { referenceOf } from '../callback-reference.ts';
import { parseJson } from '../classify-error.ts';
import { behaviourOfDigits, formReport, type Reporter } from '../stand-in-reports.ts';
import { signPlivoCall } from './stand-in-signature.ts';

type Sent = { readonly src?: string; readonly dst: string; readonly url?: string };

export const plivoReporter: Reporter = {
  taken(request, { status, body }) {
    if (status !== 202) return [];
    const { src = '', dst, url } = parseJson(request.body) as Sent;
    const [providerMessageId = ''] = (body as { readonly message_uuid: readonly string[] }).message_uuid;
    return [
      {
        reference: referenceOf(url ?? '').reference ?? '',
        to: dst,
        behaviour: behaviourOfDigits(dst),
        providerMessageId,
        ...(url === undefined ? {} : { callback: url }),
        fields: { From: src },
        account: { publicConfig: {}, secretConfig: { authToken: tokenOf(request.headers) } },
      },
    ];
  },
  refused: () => ({ status: 400, body: { api_id: randomUUID(), error: 'dst parameter is invalid' } }),
  write: ({ to, providerMessageId, fields }, state, url) =>
    formReport(url, {
      ...fields,
      To: to,
      MessageUUID: providerMessageId,
      ParentMessageUUID: providerMessageId,
      PartInfo: '1 of 1',
      Status: state,
      ErrorCode: '000',
    }),
  sign: signPlivoCall,
};

/** Reports are signed with the password of the call that sent the message. */
function tokenOf(headers: Readonly<Record<string, string>>): string {
  const pair = Buffer.from(headers['authorization']?.slice('Basic '.length) ?? '', 'base64').toString();
  return pair.slice(pair.indexOf(':') + 1);
}
