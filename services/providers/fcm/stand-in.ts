import { randomBytes } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { fcmReporter } from './stand-in-reports.ts';

type Message = {
  readonly token?: string;
  readonly apns?: { readonly payload?: { readonly aps?: object } };
};

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
    return failure(401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials.', []);
  }
  const body = jsonObject(request.body) as
    | { readonly validate_only?: boolean; readonly message?: Message }
    | undefined;
  if (body === undefined) return failure(400, 'INVALID_ARGUMENT', 'Invalid JSON payload received.', []);
  if (!body.message?.token) return noRecipient();
  const payload = body.message.apns?.payload;
  if (payload !== undefined && Object.keys(payload.aps ?? {}).length === 0) {
    return failure(400, 'INVALID_ARGUMENT', 'Value of [aps] must be a non-empty dictionary.', []);
  }
  // The credential check sends a token that belongs to no device.
  if (body.validate_only === true) {
    const text = 'The registration token is not a valid FCM registration token';
    return failure(400, 'INVALID_ARGUMENT', text, [fcmError('INVALID_ARGUMENT')]);
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

function noRecipient(): Reply {
  const description = 'Recipient of the message is not set.';
  const fieldViolations = [{ field: 'message', description }];
  const badRequest = { '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations };
  return failure(400, 'INVALID_ARGUMENT', description, [badRequest, fcmError('INVALID_ARGUMENT')]);
}

function fcmError(errorCode: string): object {
  return { '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode };
}

/** @param details left out if there are none. */
function failure(code: number, status: string, message: string, details: readonly object[]): Reply {
  const error = { code, message, status, ...(details.length === 0 ? {} : { details }) };
  return { status: code, body: { error } };
}
