import { randomBytes } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import { createStandInMemory, type StandInMemory } from '../stand-in-memory.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { sinchReporter } from './stand-in-reports.ts';

/** Starts Sinch's message batches resource on loopback. */
export function startSinchStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const taken: Taken = createStandInMemory();
  return startStandIn((request) => answer(request, taken), options, reportsBy(sinchReporter));
}

/** Accepted batches by id and by reference. */
type Taken = StandInMemory<Readonly<Record<string, unknown>>>;

function answer(request: Received, taken: Taken): Reply | undefined {
  const path = /^\/xms\/v1\/[\w-]+\/batches(?<below>\/[^?]*)?(?:\?(?<query>.*))?$/.exec(request.path);
  if (path === null) return undefined;
  const { below, query } = path.groups ?? {};
  // Sinch answers a wrong token with an empty body.
  if (!request.headers['authorization']?.startsWith('Bearer ')) return { status: 401, body: '' };
  if (request.method === 'GET') return below === undefined ? list(query, taken) : show(below, taken);
  return request.method === 'POST' && below === undefined ? create(request, taken) : undefined;
}

function list(query: string | undefined, taken: Taken): Reply {
  const reference = new URLSearchParams(query).get('client_reference');
  const batches = [taken.find(reference ?? '')].filter((one) => one !== undefined);
  return { status: 200, body: { count: batches.length, page: 0, page_size: batches.length, batches } };
}

/** Every accepted message counts as delivered by the time of the lookup. */
function show(below: string, taken: Taken): Reply {
  const id = /^\/([^/]+)\/delivery_report$/.exec(below)?.[1] ?? '';
  if (taken.find(id) === undefined) return { status: 404, body: '' };
  const statuses = [{ code: 0, status: 'Delivered', count: 1 }];
  return {
    status: 200,
    body: { type: 'delivery_report_sms', batch_id: id, total_message_count: 1, statuses },
  };
}

function create(request: Received, taken: Taken): Reply {
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
  const batch = { id, ...sent, canceled: false, created_at: now, modified_at: now };
  taken.keep(id, batch);
  if (typeof sent['client_reference'] === 'string') taken.keep(sent['client_reference'], batch);
  return { status: 201, body: batch };
}

function failure(code: string, text: string): Reply {
  return { status: 400, body: { code, text } };
}
