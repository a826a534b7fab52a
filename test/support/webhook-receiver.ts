import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A call that came, in the order of arrival. */
export type WebhookCall = {
  readonly path: string;
  readonly at: number;
  readonly headers: IncomingHttpHeaders;
  /** As it came. */
  readonly body: string;
  readonly id: string;
  readonly type: string;
  readonly data: { readonly seq: number; readonly messageId?: string; readonly [more: string]: unknown };
  /** What it was answered; 0: nothing. */
  readonly status: number;
};

export type WebhookAnswer =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly afterMs?: number }
  | 'hang';

export type WebhookReceiver = AsyncDisposable & {
  readonly origin: string;
  readonly calls: WebhookCall[];
  /** Calls at a path. */
  at(path: string): WebhookCall[];
  /** What is answered from now on; default 200. */
  answer(path: string, choose: (call: Omit<WebhookCall, 'status'>) => WebhookAnswer): void;
};

/** Takes events on a port of this machine, each path an endpoint of its own. */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const calls: WebhookCall[] = [];
  const answers = new Map<string, Parameters<WebhookReceiver['answer']>[1]>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const path = request.url ?? '/';
      const event = JSON.parse(body) as Pick<WebhookCall, 'id' | 'type' | 'data'>;
      const call = { ...event, path, at: Date.now(), headers: request.headers, body };
      const answer = answers.get(path)?.(call) ?? { status: 200 };
      calls.push({ ...call, status: answer === 'hang' ? 0 : answer.status });
      if (answer === 'hang') return;
      setTimeout(() => response.writeHead(answer.status, answer.headers).end(), answer.afterMs ?? 0);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    at: (path) => calls.filter((call) => call.path === path),
    answer: (path, choose) => void answers.set(path, choose),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
