import { randomBytes } from 'node:crypto';
import { createStandInMemory, type StandInMemory } from '../stand-in-memory.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { mailgunReporter } from './stand-in-reports.ts';

/** Starts Mailgun's messages and domains resources on loopback. A key that contains `sending` may only send. */
export function startMailgunStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const taken: Taken = createStandInMemory();
  return startStandIn((request) => answer(request, taken), options, reportsBy(mailgunReporter));
}

/** The domain of each accepted mail, by the mail's id without brackets. */
type Taken = StandInMemory<string>;

function answer(request: Received, taken: Taken): Reply | undefined {
  const [, pair] = /^Basic (.+)$/.exec(request.headers['authorization'] ?? '') ?? [];
  const key = Buffer.from(pair ?? '', 'base64').toString();
  if (!key.startsWith('api:')) return { status: 401, body: 'Forbidden' };
  const [, looked] = /^\/v4\/domains\/([^/]+)$/.exec(request.path) ?? [];
  if (request.method === 'GET' && looked !== undefined) {
    return key.includes('sending')
      ? { status: 401, body: 'Forbidden' }
      : { status: 200, body: { domain: { name: looked, state: 'active', type: 'custom' } } };
  }
  const [, ofDomain, query] = /^\/v3\/([^/]+)\/events\?(.*)$/.exec(request.path) ?? [];
  if (request.method === 'GET' && ofDomain !== undefined) return events(ofDomain, query, taken);
  const [, domain] = /^\/v3\/([^/]+)\/messages$/.exec(request.path) ?? [];
  if (request.method !== 'POST' || domain === undefined) return undefined;
  for (const field of ['from', 'to']) {
    if (!hasField(request, field)) return failure(`${field} parameter is missing`);
  }
  if (!hasField(request, 'text') && !hasField(request, 'html')) {
    return failure("Need at least one of 'text', 'html', 'amp-html' or 'template' parameters specified");
  }
  const id = `20261122120000.${randomBytes(8).toString('hex')}@${domain}`;
  taken.keep(id, domain);
  return { status: 200, body: { id: `<${id}>`, message: 'Queued. Thank you.' } };
}

/** Every accepted mail counts as delivered by the time of the lookup. */
function events(domain: string, query: string | undefined, taken: Taken): Reply {
  const id = new URLSearchParams(query).get('message-id') ?? '';
  const message = { headers: { 'message-id': id } };
  const delivered = {
    event: 'delivered',
    id: randomBytes(8).toString('hex'),
    timestamp: Date.now() / 1_000,
    message,
  };
  return { status: 200, body: { items: taken.find(id) === domain ? [delivered] : [], paging: {} } };
}

function hasField({ headers, body }: Received, name: string): boolean {
  return headers['content-type']?.startsWith('multipart/') === true
    ? new RegExp(`name="${name}"\r\n\r\n[^\r]`).test(body)
    : Boolean(new URLSearchParams(body).get(name));
}

function failure(message: string): Reply {
  return { status: 400, body: { message } };
}
