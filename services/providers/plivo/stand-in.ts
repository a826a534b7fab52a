import { randomUUID } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';

/** Plivo's Message and Account resources on loopback. */
export function startPlivoStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options);
}

function answer(request: Received): Reply | undefined {
  const [, authId, resource] = /^\/v1\/Account\/(\w+)\/(.*)$/.exec(request.path) ?? [];
  if (authId === undefined) return undefined;
  if (!request.headers['authorization']?.startsWith('Basic ')) return UNAUTHORIZED;
  if (request.method === 'GET' && resource === '') {
    const body = { account_type: 'standard', api_id: randomUUID(), auth_id: authId, billing_mode: 'prepaid' };
    return { status: 200, body: { ...body, cash_credits: '10.00000', name: 'Stand-in' } };
  }
  return request.method === 'POST' && resource === 'Message/' ? create(request) : undefined;
}

const UNAUTHORIZED: Reply = {
  status: 401,
  headers: { 'content-type': 'text/html; charset=utf-8', 'www-authenticate': 'Basic realm="Login Required"' },
  body: 'Could not verify your access level for that URL.\nYou have to login with proper credentials',
};

function create(request: Received): Reply {
  const { src, powerpack_uuid, dst, text } = (parseJson(request.body) ?? {}) as Record<string, unknown>;
  if (typeof dst !== 'string') return failure('dst parameter is required');
  if ((src === undefined) === (powerpack_uuid === undefined))
    return failure('Exactly one of src and powerpack_uuid is required');
  if (typeof text !== 'string' || text === '') return failure('text parameter is required');
  return {
    status: 202,
    body: { api_id: randomUUID(), message: 'message(s) queued', message_uuid: [randomUUID()] },
  };
}

function failure(error: string): Reply {
  return { status: 400, body: { api_id: randomUUID(), error } };
}
