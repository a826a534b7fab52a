import { randomBytes } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { sinchReporter } from './stand-in-reports.ts';

/** Sinch's batches of messages on loopback. */
export function startSinchStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options, reportsBy(sinchReporter));
}

function answer(request: Received): Reply | undefined {
  if (!/^\/xms\/v1\/[\w-]+\/batches(?:\?|$)/.test(request.path)) return undefined;
  // Sinch says nothing to a wrong token.
  if (!request.headers['authorization']?.startsWith('Bearer ')) return { status: 401, body: '' };
  if (request.method === 'GET')
    return { status: 200, body: { count: 0, page: 0, page_size: 1, batches: [] } };
  return request.method === 'POST' ? create(request) : undefined;
}

function create(request: Received): Reply {
  const sent = parseJson(request.body) as Record<string, unknown> | undefined;
  if (sent === undefined) return failure('syntax_invalid_json', 'The request is no JSON');
  const { to, body } = sent;
  if (!Array.isArray(to) || to.length === 0) return failure('syntax_constraint_violation', 'to is required');
  if (!to.every((one) => /^\+?\d{3,15}$/.test(String(one))))
    return failure('syntax_invalid_parameter_format', 'to holds an invalid MSISDN');
  if (typeof body !== 'string' || body === '')
    return failure('syntax_constraint_violation', 'body is required');
  const now = new Date().toISOString();
  const id = `01${randomBytes(12).toString('hex').toUpperCase()}`;
  return { status: 201, body: { id, ...sent, canceled: false, created_at: now, modified_at: now } };
}

function failure(code: string, text: string): Reply {
  return { status: 400, body: { code, text } };
}
