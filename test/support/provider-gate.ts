import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A proxy in front of a provider's stand-in that delays requests as a test requires. */
export type ProviderGate = AsyncDisposable & {
  readonly origin: string;
  /** Returns the number of requests that were received completely and are held back. */
  readonly waiting: () => number;
  readonly close: () => void;
  /** Forwards all held requests, including those whose client has given up, because a provider cannot tell either. */
  readonly open: () => void;
};

export async function startProviderGate(target: string): Promise<ProviderGate> {
  let closed: PromiseWithResolvers<void> | undefined;
  let waiting = 0;

  async function pass(request: IncomingMessage): Promise<{ status: number; type: string; body: string }> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (closed !== undefined) {
      waiting += 1;
      await closed.promise;
      waiting -= 1;
    }
    const answer = await fetch(target + (request.url ?? ''), {
      method: request.method ?? 'GET',
      headers: {
        'content-type': request.headers['content-type'] ?? '',
        authorization: request.headers.authorization ?? '',
      },
      ...(request.method === 'POST' ? { body: Buffer.concat(chunks) } : {}),
    });
    const type = answer.headers.get('content-type') ?? '';
    return { status: answer.status, type, body: await answer.text() };
  }

  const server = createServer((request, response) => {
    pass(request).then(
      ({ status, type, body }) => response.writeHead(status, { 'content-type': type }).end(body),
      () => response.destroy(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const open = (): void => {
    closed?.resolve();
    closed = undefined;
  };
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    waiting: () => waiting,
    close: () => {
      closed ??= Promise.withResolvers<void>();
    },
    open,
    async [Symbol.asyncDispose]() {
      open();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
