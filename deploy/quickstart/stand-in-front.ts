import { createServer, type RequestListener } from 'node:http';
import { createServer as createHttp2Server, type ServerHttp2Session } from 'node:http2';
import { createServer as createNetServer, type Socket } from 'node:net';
import { once } from 'node:events';
import type { Place } from '#providers/stand-in-place.ts';

/** One port shared by all stand-ins, each under its own path. */
export type StandInFront = AsyncDisposable & {
  readonly origin: string;
  /** @param name first segment of its paths: letters, digits and hyphens. */
  readonly placeOf: (name: string) => (listener: RequestListener) => Promise<Place>;
};

/** The first bytes of every HTTP/2 connection; no HTTP/1.1 request starts with them. */
const HTTP2_START = 'PRI ';

/** @param index answers requests to the port's own root. */
export async function openStandInFront(port: number, index: RequestListener): Promise<StandInFront> {
  const listeners = new Map<string, RequestListener>();
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();

  const route: RequestListener = (request, response) => {
    const [, name = '', rest = ''] = /^\/([a-z0-9-]+)((?:[/?].*)?)$/s.exec(request.url ?? '') ?? [];
    const listener = listeners.get(name);
    if (listener === undefined) return index(request, response);
    request.url = rest.startsWith('/') ? rest : `/${rest}`;
    listener(request, response);
  };
  const http = createServer(route);
  // The request and response APIs used here are the same in both versions.
  const http2 = createHttp2Server((request, response) => route(request as never, response as never));
  http2.on('session', (session) => {
    sessions.add(session.on('error', () => {}));
    session.once('close', () => sessions.delete(session));
  });

  const server = createNetServer((socket) => {
    sockets.add(socket.on('error', () => socket.destroy()));
    socket.once('close', () => sockets.delete(socket));
    socket.once('data', (head) => {
      socket.pause();
      socket.unshift(head);
      const isHttp2 = head.toString('latin1').startsWith(HTTP2_START);
      (isHttp2 ? http2 : http).emit('connection', socket);
      if (!isHttp2) process.nextTick(() => socket.resume());
    });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${port}`;

  return {
    origin,
    placeOf: (name) => async (listener) => {
      listeners.set(name, listener);
      return {
        origin: `${origin}/${name}`,
        async [Symbol.asyncDispose]() {
          listeners.delete(name);
        },
      };
    },
    async [Symbol.asyncDispose]() {
      for (const session of sessions) session.destroy();
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
