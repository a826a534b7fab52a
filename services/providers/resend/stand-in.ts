import { randomUUID } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { resendReporter } from './stand-in-reports.ts';

type First = { readonly body: string; readonly id: string };

/** Starts Resend's emails and domains endpoints on loopback. It remembers idempotency keys. */
export function startResendStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const firsts = new Map<string, First>();
  return startStandIn((request) => answer(request, firsts), options, reportsBy(resendReporter));
}

function answer(request: Received, firsts: Map<string, First>): Reply | undefined {
  if (!request.headers['authorization']?.startsWith('Bearer ')) {
    return failure(401, 'missing_api_key', 'Missing API key in the authorization header.');
  }
  if (request.method === 'GET' && request.path === '/domains') {
    return { status: 200, body: { object: 'list', has_more: false, data: [] } };
  }
  const asked = /^\/emails\/([^/?]+)$/.exec(request.path)?.[1];
  if (request.method === 'GET' && asked !== undefined) return show(asked, firsts);
  if (request.method !== 'POST' || request.path !== '/emails') return undefined;
  const key = request.headers['idempotency-key'] ?? randomUUID();
  const first = firsts.get(key);
  if (first !== undefined && first.body !== request.body) {
    return failure(409, 'invalid_idempotent_request', 'The key was used with a different payload.');
  }
  if (first !== undefined) return { status: 200, body: { id: first.id } };
  const mail = jsonObject(request.body);
  if (mail === undefined) return failure(400, 'validation_error', 'The request body is not valid JSON.');
  const missing = ['from', 'to', 'subject'].find((field) => !mail[field]);
  if (missing !== undefined) return failure(422, 'missing_required_field', `Missing \`${missing}\` field.`);
  if (!mail['html'] && !mail['text']) {
    return failure(422, 'missing_required_field', 'Missing `html` or `text` field.');
  }
  const id = randomUUID();
  firsts.set(key, { body: request.body, id });
  return { status: 200, body: { id } };
}

/** Every accepted mail counts as delivered by the time of the lookup. */
function show(id: string, firsts: ReadonlyMap<string, First>): Reply {
  const first = [...firsts.values()].find((one) => one.id === id);
  if (first === undefined) return failure(404, 'not_found', 'Email not found');
  const { from, to, subject, html = null, text = null } = jsonObject(first.body) ?? {};
  const createdAt = new Date().toISOString();
  // In the order of the vendor, which names the state last.
  return {
    status: 200,
    body: {
      object: 'email',
      id,
      to,
      from,
      created_at: createdAt,
      subject,
      html,
      text,
      last_event: 'delivered',
    },
  };
}

function failure(statusCode: number, name: string, message: string): Reply {
  return { status: statusCode, body: { statusCode, name, message } };
}
