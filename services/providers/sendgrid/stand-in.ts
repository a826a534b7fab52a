import { randomBytes } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { sendgridReporter } from './stand-in-reports.ts';

/** Starts SendGrid's mail send and scopes endpoints on loopback. */
export function startSendgridStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options, reportsBy(sendgridReporter));
}

function answer(request: Received): Reply | undefined {
  if (!request.headers['authorization']?.startsWith('Bearer ')) {
    return failure(401, null, 'The provided authorization grant is invalid, expired, or revoked');
  }
  if (request.method === 'GET' && request.path === '/v3/scopes') {
    return { status: 200, body: { scopes: ['mail.send', 'sender_verification_eligible'] } };
  }
  if (request.method !== 'POST' || request.path !== '/v3/mail/send') return undefined;
  const mail = jsonObject(request.body);
  if (mail === undefined) return failure(400, null, 'Bad Request');
  const missing = ['personalizations', 'from', 'subject', 'content'].find(
    (field) => mail[field] === undefined,
  );
  if (missing !== undefined) return failure(400, missing, `The ${missing} field is required.`);
  const files = (mail['attachments'] ?? []) as readonly { readonly type?: string }[];
  const typed = files.findIndex(({ type }) => /[;\r\n]/.test(type ?? ''));
  if (typed !== -1) {
    const text = "The attachment type cannot contain ';', or CRLF characters.";
    return failure(400, `attachments.${typed}.type`, text);
  }
  return { status: 202, headers: { 'x-message-id': randomBytes(16).toString('base64url') } };
}

function failure(status: number, field: string | null, message: string): Reply {
  return { status, body: { errors: [{ message, field, help: null }] } };
}
