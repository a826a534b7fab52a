import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A received call, in the order of arrival. */
export type WebhookCall = {
  readonly path: string;
  readonly at: number;
  readonly headers: IncomingHttpHeaders;
  /** The unparsed body. */
  readonly body: string;
  readonly id: string;
  readonly type: string;
  readonly data: { readonly seq: number; readonly messageId?: string; readonly [more: string]: unknown };
  /** The status of the answer; 0: no answer. */
  readonly status: number;
};

export type WebhookAnswer =
  | { readonly status: number; readonly headers?: Record<string, string>; readonly afterMs?: number }
  | 'hang';

export type WebhookReceiver = AsyncDisposable & {
  readonly origin: string;
  readonly calls: WebhookCall[];
  /** Returns the calls of a path. */
  at(path: string): WebhookCall[];
  /** Sets the answer from now on; default 200. */
  answer(path: string, choose: (call: Omit<WebhookCall, 'status'>) => WebhookAnswer): void;
};

/** Starts a receiver on a port of this machine, on which each path is a separate endpoint. */
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
