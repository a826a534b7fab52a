import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { KubeClient } from '../../services/controller/kube/kube-client.ts';
import { KubeError } from '../../services/controller/kube/kube-error.ts';
import type { KubeResource } from '../../services/controller/kube/kube-object.ts';
import { openKube } from '../../services/controller/kube/kube.ts';

export const TENANTS: KubeResource = {
  group: 'despatch.dev',
  version: 'v1alpha1',
  plural: 'tenants',
  kind: 'Tenant',
  namespaced: true,
};
export const BASE = '/apis/despatch.dev/v1alpha1';
export const ONE = { namespace: 'acme', name: 'shop' };

export type Call = {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly type: string | undefined;
  readonly token: string | undefined;
  // oxlint-disable-next-line typescript/no-explicit-any -- a body is what a test expects it to be
  readonly body: any;
  readonly at: number;
};
export type Answer = (response: ServerResponse, call: Call) => void;

export type Stage = AsyncDisposable & {
  readonly kube: KubeClient;
  readonly calls: readonly Call[];
  readonly sockets: () => number;
  /** The requests that `rest_client_requests_total` would count. */
  readonly counted: readonly string[];
  readonly tokenFile: string;
};

/** Starts a server that gives the answers in turn and repeats the last one, and a client for it. */
export async function stage(...answers: readonly Answer[]): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const calls: Call[] = [];
  const counted: string[] = [];
  let sockets = 0;
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const at = performance.now();
    const body = await text(request);
    const url = new URL(request.url ?? '', 'http://server');
    const call: Call = {
      method: request.method ?? '',
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      type: request.headers['content-type'],
      token: request.headers.authorization,
      body: body === '' ? undefined : (JSON.parse(body) as unknown),
      at,
    };
    calls.push(call);
    answers[Math.min(calls.length, answers.length) - 1]?.(response, call);
  };
  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy());
  });
  server.on('connection', () => (sockets += 1));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const folder = await mkdtemp(join(tmpdir(), 'despatch-kube-'));
  stack.defer(() => rm(folder, { recursive: true }));
  const tokenFile = join(folder, 'token');
  await writeFile(tokenFile, 'first\n');
  const kubeconfig = join(folder, 'kubeconfig');
  await writeFile(
    kubeconfig,
    kubeconfigFor(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, tokenFile),
  );
  const kube = stack.use(
    openKube({
      kubeconfig,
      userAgent: 'test',
      onRequest: ({ code, method }) => counted.push(`${method} ${code}`),
    }),
  );
  const owned = stack.move();
  return {
    kube,
    calls,
    counted,
    tokenFile,
    sockets: () => sockets,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Returns a kubeconfig with a token file and a server whose certificate is not verified. */
export function kubeconfigFor(server: string, tokenFile: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'u', user: { 'auth-provider': { name: 'tokenFile', config: { tokenFile } } } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  });
}

const json =
  (status: number, body: object, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) =>
    void response
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(body));
export const refuse = (
  code: number,
  reason: string,
  headers: Readonly<Record<string, string>> = {},
): Answer =>
  json(code, { kind: 'Status', status: 'Failure', message: `It is ${reason}`, reason, code }, headers);
export const cut: Answer = (response) => void response.destroy();
export const silent: Answer = () => undefined;
export const tenant = (resourceVersion: string, finalizers?: readonly string[], uid = 'uid-1') => ({
  metadata: { ...ONE, uid, resourceVersion, ...(finalizers === undefined ? {} : { finalizers }) },
});
export const found = (...args: Parameters<typeof tenant>): Answer => json(200, tenant(...args));
export const call = (deadlineMs?: number) => ({
  signal: new AbortController().signal,
  ...(deadlineMs === undefined ? {} : { deadlineMs }),
});

/** Returns the error that a call ends with. */
export async function failure(promise: Promise<unknown>): Promise<KubeError> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof KubeError) return error;
  throw new Error(`the call ended with ${String(error)}`);
}
