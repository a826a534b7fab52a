import { randomBytes } from 'node:crypto';
import { createStandInMemory, type StandInMemory } from '../stand-in-memory.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { twilioReporter } from './stand-in-reports.ts';

/** Starts Twilio's Messages and Accounts resources on loopback. */
export function startTwilioStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const taken: Taken = createStandInMemory();
  return startStandIn((request) => answer(request, taken), options, reportsBy(twilioReporter));
}

/** Its answers to messages, by message id. */
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
  if (request.method === 'GET' && /\/Messages\.json(\?|$)/.test(request.path))
    return { status: 200, body: { messages: [], page: 0, page_size: 1 } };
  const asked = /\/Messages\/([^/?]+)\.json$/.exec(request.path)?.[1];
  if (request.method === 'GET' && asked !== undefined) return show(taken.find(asked), request.path);
  return undefined;
}

/** Every accepted message counts as delivered by the time of the lookup. */
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
