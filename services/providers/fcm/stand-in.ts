import { randomBytes } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { fcmReporter } from './stand-in-reports.ts';

/** Starts Google's token endpoint and FCM's send method on loopback. */
export function startFcmStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options, reportsBy(fcmReporter));
}

function answer(request: Received): Reply | undefined {
  if (request.method !== 'POST') return undefined;
  if (request.path === '/token') return token(request);
  const projectId = /^\/v1\/projects\/([\w-]+)\/messages:send$/.exec(request.path)?.[1];
  if (projectId === undefined) return undefined;
  if (!request.headers['authorization']?.startsWith('Bearer ya29.')) {
    return failure(401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials.');
  }
  const body = jsonObject(request.body) as
    | { readonly validate_only?: boolean; readonly message?: { readonly token?: string } }
    | undefined;
  if (body === undefined) {
    const error = { code: 400, message: 'Invalid JSON payload received.', status: 'INVALID_ARGUMENT' };
    return { status: 400, body: { error } };
  }
  // The credential check sends a token that belongs to no device.
  if (body.validate_only === true || !body.message?.token) {
    return failure(400, 'INVALID_ARGUMENT', 'The registration token is not a valid FCM registration token');
  }
  return {
    status: 200,
    body: { name: `projects/${projectId}/messages/0:${randomBytes(12).toString('hex')}` },
  };
}

function token(request: Received): Reply {
  const form = new URLSearchParams(request.body);
  const isGrant = form.get('grant_type') === 'urn:ietf:params:oauth:grant-type:jwt-bearer';
  if (!isGrant || form.get('assertion')?.split('.').length !== 3) {
    return { status: 400, body: { error: 'invalid_grant', error_description: 'Invalid JWT Signature.' } };
  }
  const accessToken = `ya29.${randomBytes(24).toString('base64url')}`;
  return { status: 200, body: { access_token: accessToken, expires_in: 3_599, token_type: 'Bearer' } };
}

function failure(status: number, errorCode: string, message: string): Reply {
  const detail = { '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode };
  return { status, body: { error: { code: status, message, status: errorCode, details: [detail] } } };
}
