import { randomBytes } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { mailgunReporter } from './stand-in-reports.ts';

/** Mailgun's messages and domains resources on loopback. A key with `sending` in it may do nothing but send. */
export function startMailgunStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options, reportsBy(mailgunReporter));
}

function answer(request: Received): Reply | undefined {
  const [, pair] = /^Basic (.+)$/.exec(request.headers['authorization'] ?? '') ?? [];
  const key = Buffer.from(pair ?? '', 'base64').toString();
  if (!key.startsWith('api:')) return { status: 401, body: 'Forbidden' };
  const [, looked] = /^\/v4\/domains\/([^/]+)$/.exec(request.path) ?? [];
  if (request.method === 'GET' && looked !== undefined) {
    return key.includes('sending')
      ? { status: 401, body: 'Forbidden' }
      : { status: 200, body: { domain: { name: looked, state: 'active', type: 'custom' } } };
  }
  const [, domain] = /^\/v3\/([^/]+)\/messages$/.exec(request.path) ?? [];
  if (request.method !== 'POST' || domain === undefined) return undefined;
  for (const field of ['from', 'to']) {
    if (!hasField(request, field)) return failure(`${field} parameter is missing`);
  }
  if (!hasField(request, 'text') && !hasField(request, 'html')) {
    return failure("Need at least one of 'text', 'html', 'amp-html' or 'template' parameters specified");
  }
  const id = `<20261122120000.${randomBytes(8).toString('hex')}@${domain}>`;
  return { status: 200, body: { id, message: 'Queued. Thank you.' } };
}

function hasField({ headers, body }: Received, name: string): boolean {
  return headers['content-type']?.startsWith('multipart/') === true
    ? new RegExp(`name="${name}"\r\n\r\n[^\r]`).test(body)
    : Boolean(new URLSearchParams(body).get(name));
}

function failure(message: string): Reply {
  return { status: 400, body: { message } };
}
