import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, request as send } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { KubeAccess } from './kube-connection.ts';

/** A request that the gate forwarded or answered. */
export type GateCall = {
  readonly method: string;
  /** Includes the query. */
  readonly url: string;
  readonly at: number;
  readonly status: number;
};

export type GateReply = {
  readonly status: number;
  readonly reason: string;
  readonly retryAfterSeconds?: number;
};

export type KubeGate = AsyncDisposable & {
  /** The admin's kubeconfig, with the gate as its server. */
  readonly kubeconfigPath: string;
  readonly calls: readonly GateCall[];
  /** Answers the next `times` matching requests instead of the server; by default all until `open`. */
  readonly refuse: (matching: RegExp, reply: GateReply, times?: number) => void;
  /** Ends all connections at once, including watches. */
  readonly cut: () => void;
  /** Forwards everything again. */
  readonly open: () => void;
};

type Refusal = { readonly matching: RegExp; readonly reply: GateReply; left: number };

/** Starts an HTTPS proxy in front of an API server that can answer instead of the server. */
export async function startKubeGate(access: KubeAccess): Promise<KubeGate> {
  const file = (name: string): Buffer => readFileSync(join(access.tlsDir, name));
  const ca = file('ca.pem');
  const refusals: Refusal[] = [];
  const calls: GateCall[] = [];

  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const { method = '', url = '' } = request;
    const at = performance.now();
    const refusal = refusals.find(({ matching, left }) => left > 0 && matching.test(`${method} ${url}`));
    if (refusal !== undefined) {
      const { status, reason, retryAfterSeconds } = refusal.reply;
      refusal.left -= 1;
      calls.push({ method, url, at, status });
      request.resume();
      const wait = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) };
      response.writeHead(status, { 'content-type': 'application/json', ...wait });
      response.end(
        JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, code: status }),
      );
      return;
    }
    const upstream = send(access.url + url, { method, headers: request.headers, ca }, (reply) => {
      calls.push({ method, url, at, status: reply.statusCode ?? 0 });
      response.writeHead(reply.statusCode ?? 502, reply.headers);
      // A watch may send nothing for a while after its headers.
      response.flushHeaders();
      reply.pipe(response);
      reply.on('error', () => response.destroy());
    });
    upstream.on('error', () => response.destroy());
    response.on('close', () => upstream.destroy());
    request.pipe(upstream);
  };

  const server = createServer({ cert: file('server.pem'), key: file('server.key') }, answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `https://127.0.0.1:${port}`;
  return {
    kubeconfigPath: adminKubeconfig(access, url),
    calls,
    refuse: (matching, reply, times = Infinity) => void refusals.push({ matching, reply, left: times }),
    cut: () => server.closeAllConnections(),
    open: () => void refusals.splice(0),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Returns the admin's kubeconfig with another server address. */
export function adminKubeconfig(access: KubeAccess, server: string): string {
  const path = join(access.tlsDir, `kubeconfig-${new URL(server).port}`);
  const ca = readFileSync(join(access.tlsDir, 'ca.pem')).toString('base64');
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'gate', cluster: { server, 'certificate-authority-data': ca } }],
    users: [{ name: 'admin', user: { token: access.adminToken } }],
    contexts: [{ name: 'gate', context: { cluster: 'gate', user: 'admin' } }],
    'current-context': 'gate',
  };
  writeFileSync(path, JSON.stringify(kubeconfig), { mode: 0o600 });
  return path;
}
