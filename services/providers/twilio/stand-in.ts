import { randomBytes } from 'node:crypto';
import { behaviourOfNumber, plannedReports, type Behaviour } from '../behaviour.ts';
import type { ReceiptCall } from '../receipt.ts';
import { createStandInMemory, type StandInMemory } from '../stand-in-memory.ts';
import {
  startStandIn,
  type OutgoingReport,
  type Received,
  type Reply,
  type StandIn,
  type StandInOptions,
} from '../stand-in.ts';
import { signTwilioCall } from './stand-in-signature.ts';

/** Twilio's Messages and Accounts resources on loopback. */
export function startTwilioStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const taken: Taken = createStandInMemory();
  // Where the recipient chooses what becomes of a message, one of them is refused.
  const isRefused = ({ body }: Received): boolean =>
    options.isReporting === true && behaviourOf(new URLSearchParams(body).get('To') ?? '') === 'invalid';
  return startStandIn(
    (request) =>
      isRefused(request)
        ? failure(400, 21211, "The 'To' number is not a valid phone number.")
        : answer(request, taken),
    options,
    report,
  );
}

/** What it has answered to messages, by their ids. */
type Taken = StandInMemory<Readonly<Record<string, unknown>>>;

function answer(request: Received, taken: Taken): Reply | undefined {
  const accountSid = /^\/2010-04-01\/Accounts\/(\w+)[./]/.exec(request.path)?.[1];
  if (accountSid === undefined) return undefined;
  if (!request.headers['authorization']?.startsWith('Basic ')) {
    return failure(401, 20003, 'Authenticate');
  }
  if (request.method === 'GET' && request.path.endsWith(`/${accountSid}.json`)) {
    return { status: 200, body: { sid: accountSid, status: 'active', friendly_name: 'Stand-in' } };
  }
  if (request.method === 'POST' && request.path.endsWith('/Messages.json'))
    return create(accountSid, request, taken);
  const asked = /\/Messages\/([^/?]+)\.json$/.exec(request.path)?.[1];
  if (request.method === 'GET' && asked !== undefined) return show(taken.find(asked), request.path);
  return undefined;
}

/** Whatever was taken has been delivered by the time that somebody asks. */
function show(message: Readonly<Record<string, unknown>> | undefined, path: string): Reply {
  if (message === undefined) return failure(404, 20404, `The requested resource ${path} was not found`);
  const now = new Date().toUTCString();
  return { status: 200, body: { ...message, status: 'delivered', date_sent: now, date_updated: now } };
}

function create(accountSid: string, request: Received, taken: Taken): Reply {
  const form = new URLSearchParams(request.body);
  const to = form.get('To');
  const service = form.get('MessagingServiceSid');
  if (to === null) return failure(400, 21604, "A 'To' phone number is required.");
  if (service === null && form.get('From') === null)
    return failure(400, 21603, "A 'From' phone number is required.");
  const media = form.get('MediaUrl');
  if (!form.get('Body') && media === null && !form.get('ContentSid'))
    return failure(400, 21602, 'Message body is required.');
  if (form.has('ContentVariables') && typeof variablesOf(form) !== 'object')
    return failure(400, 21656, 'The Content Variables parameter is invalid.');
  const sid = `${media === null ? 'SM' : 'MM'}${randomBytes(16).toString('hex')}`;
  const message = {
    account_sid: accountSid,
    api_version: '2010-04-01',
    body: form.get('Body'),
    date_created: new Date().toUTCString(),
    direction: 'outbound-api',
    error_code: null,
    error_message: null,
    from: form.get('From'),
    messaging_service_sid: service,
    num_segments: service === null ? '1' : '0',
    sid,
    status: service === null ? 'queued' : 'accepted',
    to,
  };
  taken.keep(sid, message);
  return { status: 201, body: message };
}

/** To the callback address of a message that was taken, signed with the token that the call came with. */
function report(request: Received, { status, body }: Reply): readonly OutgoingReport[] {
  const form = new URLSearchParams(request.body);
  const [url, to] = [form.get('StatusCallback'), form.get('To')];
  if (status !== 201 || url === null || to === null) return [];
  const { sid } = body as { readonly sid: string };
  const fields = { To: to, From: form.get('From') ?? '' };
  const authToken = tokenOf(request);
  return plannedReports(behaviourOf(to)).map(({ afterMs, state }) => ({
    afterMs,
    ...statusReport({ url, sid, state, authToken, fields }),
  }));
}

export type StatusReport = {
  /** The callback address that the message was sent with. */
  readonly url: string;
  readonly sid: string;
  /** Twilio's word, such as `delivered`. */
  readonly state: string;
  readonly authToken: string;
  /** Others than those of the message's id and state. */
  readonly fields?: Readonly<Record<string, string>>;
};

/** The call with which Twilio tells of a message's state. */
export function statusReport({ url, sid, state, authToken, fields = {} }: StatusReport) {
  const ids = { MessageSid: sid, MessageStatus: state, SmsSid: sid, SmsStatus: state };
  const form: Record<string, string> = { ...fields, ApiVersion: '2010-04-01', ...ids };
  const call: ReceiptCall = {
    method: 'POST',
    url,
    headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
    body: Buffer.from(new URLSearchParams(form).toString()),
    receivedAt: Date.now(),
  };
  const { headers } = signTwilioCall(call, { publicConfig: {}, secretConfig: { authToken } });
  return { url, headers, body: String(call.body) };
}

function behaviourOf(to: string): Behaviour {
  return behaviourOfNumber(to.replace(/^whatsapp:/, ''));
}

function tokenOf({ headers }: Received): string {
  const pair = Buffer.from(headers['authorization']?.slice('Basic '.length) ?? '', 'base64').toString();
  return pair.slice(pair.indexOf(':') + 1);
}

function variablesOf(form: URLSearchParams): unknown {
  try {
    return JSON.parse(form.get('ContentVariables') ?? '');
  } catch {
    return undefined;
  }
}

function failure(status: number, code: number, message: string): Reply {
  return { status, body: { code, message, more_info: `https://www.twilio.com/docs/errors/${code}`, status } };
}
