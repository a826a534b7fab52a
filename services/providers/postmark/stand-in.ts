import { randomUUID } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { postmarkReporter } from './stand-in-reports.ts';

/** Starts Postmark's email and server resources on loopback. */
export function startPostmarkStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options, reportsBy(postmarkReporter));
}

function answer(request: Received): Reply | undefined {
  if (!request.headers['x-postmark-server-token']) {
    return failure(401, 10, 'No Account or Server API tokens were supplied in the HTTP headers.');
  }
  if (request.method === 'GET' && request.path === '/server') {
    return { status: 200, body: { ID: 1, Name: 'Stand-in', ApiTokens: ['token'], DeliveryType: 'Live' } };
  }
  if (request.method !== 'POST' || request.path !== '/email') return undefined;
  const mail = jsonObject(request.body);
  if (mail === undefined) return failure(422, 402, 'Received invalid JSON input.');
  if (!mail['From']) return failure(422, 300, "Invalid 'From' address: ''.");
  if (!mail['To']) return failure(422, 300, 'Zero recipients specified.');
  if (!mail['TextBody'] && !mail['HtmlBody']) {
    return failure(422, 300, 'Provide either email TextBody or HtmlBody or both.');
  }
  return {
    status: 200,
    body: {
      To: mail['To'],
      SubmittedAt: new Date().toISOString(),
      MessageID: randomUUID(),
      ErrorCode: 0,
      Message: 'OK',
    },
  };
}

function failure(status: number, ErrorCode: number, Message: string): Reply {
  return { status, body: { ErrorCode, Message } };
}
