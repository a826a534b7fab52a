import { randomUUID } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import { createStandInMemory, type StandInMemory } from '../stand-in-memory.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { plivoReporter } from './stand-in-reports.ts';

/** Starts Plivo's Message and Account resources on loopback. */
export function startPlivoStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const taken: Taken = createStandInMemory();
  return startStandIn((request) => answer(request, taken), options, reportsBy(plivoReporter));
}

/** Accepted messages by id. */
type Taken = StandInMemory<Readonly<Record<string, unknown>>>;

function answer(request: Received, taken: Taken): Reply | undefined {
  const [, authId, resource] = /^\/v1\/Account\/(\w+)\/(.*)$/.exec(request.path) ?? [];
  if (authId === undefined) return undefined;
  if (!request.headers['authorization']?.startsWith('Basic ')) return UNAUTHORIZED;
  if (request.method === 'GET' && resource === '') {
    const body = { account_type: 'standard', api_id: randomUUID(), auth_id: authId, billing_mode: 'prepaid' };
    return { status: 200, body: { ...body, cash_credits: '10.00000', name: 'Stand-in' } };
  }
  const asked = /^Message\/([^/?]+)\/$/.exec(resource ?? '')?.[1];
  if (request.method === 'GET' && asked !== undefined) return show(taken.find(asked));
  return request.method === 'POST' && resource === 'Message/' ? create(request, taken) : undefined;
}

/** Every accepted message counts as delivered by the time of the lookup. */
function show(message: Readonly<Record<string, unknown>> | undefined): Reply {
  const api_id = randomUUID();
  return message === undefined
    ? { status: 404, body: { api_id, error: 'not found' } }
    : { status: 200, body: { api_id, ...message, message_state: 'delivered', error_code: '000' } };
}

const UNAUTHORIZED: Reply = {
  status: 401,
  headers: { 'content-type': 'text/html; charset=utf-8', 'www-authenticate': 'Basic realm="Login Required"' },
  body: 'Could not verify your access level for that URL.\nYou have to login with proper credentials',
};

function create(request: Received, taken: Taken): Reply {
  const { src, powerpack_uuid, dst, text } = (parseJson(request.body) ?? {}) as Record<string, unknown>;
  if (typeof dst !== 'string') return failure('dst parameter is required');
  if ((src === undefined) === (powerpack_uuid === undefined))
    return failure('Exactly one of src and powerpack_uuid is required');
  if (typeof text !== 'string' || text === '') return failure('text parameter is required');
  const id = randomUUID();
  taken.keep(id, {
    from_number: src ?? '',
    message_direction: 'outbound',
    message_time: new Date().toISOString().replace('T', ' ').replace('Z', '+00:00'),
    message_type: 'sms',
    message_uuid: id,
    to_number: dst,
    units: 1,
  });
  return {
    status: 202,
    body: { api_id: randomUUID(), message: 'message(s) queued', message_uuid: [id] },
  };
}

function failure(error: string): Reply {
  return { status: 400, body: { api_id: randomUUID(), error } };
}
