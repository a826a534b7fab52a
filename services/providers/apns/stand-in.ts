import type { RequestListener } from 'node:http';
import {
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';

export type ApnsStandIn = StandIn & {
  /** Connections so far, oldest first. */
  readonly sessions: readonly ServerHttp2Session[];
};

/** Starts a stand-in for Apple's push service on loopback, HTTP/2 without TLS. */
export async function startApnsStandIn(options: StandInOptions = {}): Promise<ApnsStandIn> {
  const sessions: ServerHttp2Session[] = [];
  const listen = (listener: RequestListener) => {
    const server = createServer((request: Http2ServerRequest, response: Http2ServerResponse) => {
      // HTTP/1 and HTTP/2 requests and responses offer what the handler uses, except for closing the connection.
      const cut = Object.assign(response, { destroy: () => response.stream.session?.destroy() });
      listener(request as never, cut as never);
    });
    server.on('session', (session) => void sessions.push(session.on('error', () => {})));
    const closeAllConnections = () => {
      for (const session of sessions) session.destroy();
    };
    return Object.assign(server, { closeAllConnections });
  };
  return { ...(await startStandIn(answer, { ...options, listen })), sessions };
}

function answer({ method, path, headers, body }: Received): Reply | undefined {
  const id = headers['apns-id'] ?? '';
  const refuse = (status: number, reason: string, over: object = {}): Reply => ({
    status,
    headers: { 'apns-id': id },
    body: { reason, ...over },
  });
  if (method !== 'POST') return refuse(405, 'MethodNotAllowed');
  const device = /^\/3\/device\/([^/?]+)$/.exec(path)?.[1];
  if (device === undefined) return refuse(404, 'BadPath');
  if (!/^bearer [\w-]+\.[\w-]+\.[\w-]{86}$/.test(headers['authorization'] ?? '')) {
    return refuse(403, 'InvalidProviderToken');
  }
  if (!headers['apns-topic']) return refuse(400, 'MissingTopic');
  if (headers['apns-push-type'] === 'background' && headers['apns-priority'] !== '5') {
    return refuse(400, 'BadPriority');
  }
  if (body === '') return refuse(400, 'PayloadEmpty');
  if (Buffer.byteLength(body) > 4_096) return refuse(413, 'PayloadTooLarge');
  const isDevice = /^[0-9a-f]{64,200}$/i.test(device) && !/^0+$/.test(device);
  return isDevice ? { status: 200, headers: { 'apns-id': id } } : refuse(400, 'BadDeviceToken');
}
