import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startChild, untilReady, type Child } from '../../deploy/servers/child.ts';
import { freePort } from '../../deploy/servers/ports.ts';
import { findProgram } from '../../deploy/servers/program.ts';
import { serverFolder } from '../../deploy/servers/server-folder.ts';
import { makeCertificates } from './certificates.ts';
import { connectKube, type KubeAccess, type KubeConnection } from './kube-connection.ts';

/**
 * A Kubernetes API server with its etcd, on loopback, with TLS, RBAC, Pod Security and the default admission plugins. There is no
 * controller manager: nothing is garbage-collected, a deleted namespace stays `Terminating`, no Deployment gets pods, no token
 * secrets appear.
 */
export type KubeApiServer = KubeConnection & {
  readonly access: KubeAccess;
  readonly pid: number;
  /** Kills the API server as a crash would. etcd keeps its data. */
  kill(): Promise<void>;
  /**
   * Kills the server if it runs and starts it with the same port and data; returns when it is ready. Requests for custom
   * resources get a 429 for a moment longer. Watches cannot resume from their old version.
   */
  restart(): Promise<void>;
  /** Stops answering, without closing a connection, until `thaw`. */
  freeze(): void;
  thaw(): void;
};

export type KubeApiServerOptions = { readonly log?: (line: string) => void };

const READY_MS = 60_000;

/** Starts a server, which takes three seconds of one core and 300 MB. Prefer the shared server of `testKube`. */
export async function startKubeApiServer(options: KubeApiServerOptions = {}): Promise<KubeApiServer> {
  const [etcdCommand, command] = await Promise.all([
    findProgram('etcd', options),
    findProgram('kube-apiserver', options),
  ]);
  await using stack = new AsyncDisposableStack();
  const folder = await serverFolder('kube');
  stack.defer(() => folder.remove());
  const port = await freePort();
  const access: KubeAccess = {
    url: `https://127.0.0.1:${port}`,
    adminToken: randomBytes(18).toString('hex'),
    tlsDir: join(folder.path, 'tls'),
    auditFile: join(folder.path, 'audit.log'),
  };
  const etcd = await startEtcd(etcdCommand, folder.path);
  stack.defer(() => etcd.child.stop('SIGKILL'));
  const args = await apiServerArgs(access, { folder: folder.path, etcdUrl: etcd.url, port });
  const connection = stack.use(connectKube(access));
  const start = async (): Promise<Child> => {
    const logFile = join(folder.path, 'kube-apiserver.log');
    const child = await startChild({
      command,
      args,
      logFile,
      env: { PATH: process.env['PATH'] },
      // An orderly shutdown would wait forever for an etcd that ends at the same time.
      orphanSignal: 'SIGKILL',
    });
    const isReady = (): Promise<boolean> =>
      connection.request('GET', '/readyz').then(
        ({ status }) => status === 200,
        () => false,
      );
    await untilReady(child, { name: 'kube-apiserver', logFile, isReady, timeoutMs: READY_MS });
    return child;
  };
  let child = await start();
  // A frozen process handles no other signal.
  stack.defer(() => child.stop('SIGKILL'));
  const owned = stack.move();
  return {
    ...connection,
    access,
    get pid() {
      return child.pid;
    },
    kill: () => child.stop('SIGKILL'),
    async restart() {
      await child.stop('SIGKILL');
      child = await start();
    },
    freeze: () => void process.kill(child.pid, 'SIGSTOP'),
    thaw: () => void process.kill(child.pid, 'SIGCONT'),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function startEtcd(command: string, folder: string): Promise<{ child: Child; url: string }> {
  const url = `http://127.0.0.1:${await freePort()}`;
  const peerUrl = `http://127.0.0.1:${await freePort()}`;
  const logFile = join(folder, 'etcd.log');
  const args = [
    `--data-dir=${join(folder, 'etcd')}`,
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=default=${peerUrl}`,
    // The data is deleted after the test.
    '--unsafe-no-fsync',
    '--log-level=warn',
  ];
  const child = await startChild({ command, args, logFile, env: { PATH: process.env['PATH'] } });
  const isReady = (): Promise<boolean> =>
    fetch(`${url}/health`, { signal: AbortSignal.timeout(2_000) }).then(
      ({ ok }) => ok,
      () => false,
    );
  await untilReady(child, { name: 'etcd', logFile, isReady });
  return { child, url };
}

type Place = { folder: string; etcdUrl: string; port: number };

async function apiServerArgs(access: KubeAccess, { folder, etcdUrl, port }: Place): Promise<string[]> {
  const { tlsDir, adminToken, auditFile } = access;
  await mkdir(tlsDir, { mode: 0o700 });
  makeCertificates(tlsDir);
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const write = async (name: string, text: string | Buffer): Promise<string> => {
    const path = join(folder, name);
    await writeFile(path, text, { mode: 0o600 });
    return path;
  };
  const accountKey = await write('service-accounts.key', privateKey.export({ type: 'sec1', format: 'pem' }));
  const tokens = await write('tokens.csv', `${adminToken},admin,admin,"system:masters"\n`);
  const policy = await write('audit-policy.yaml', AUDIT_POLICY);
  return [
    `--etcd-servers=${etcdUrl}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${port}`,
    `--cert-dir=${tlsDir}`,
    `--tls-cert-file=${join(tlsDir, 'server.pem')}`,
    `--tls-private-key-file=${join(tlsDir, 'server.key')}`,
    `--client-ca-file=${join(tlsDir, 'ca.pem')}`,
    `--token-auth-file=${tokens}`,
    '--authorization-mode=RBAC',
    '--anonymous-auth=false',
    '--allow-privileged=true',
    `--service-account-key-file=${accountKey}`,
    `--service-account-signing-key-file=${accountKey}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    '--service-cluster-ip-range=10.0.0.0/24',
    // No Service of the cluster may have a loopback address as its endpoint.
    '--endpoint-reconciler-type=none',
    `--audit-policy-file=${policy}`,
    `--audit-log-path=${auditFile}`,
    '--audit-log-mode=blocking-strict',
    '--profiling=false',
  ];
}

const AUDIT_POLICY = JSON.stringify({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  omitManagedFields: true,
  rules: [
    // Excludes the server's requests to itself, which are irrelevant to the tests.
    { level: 'None', users: ['system:apiserver'] },
    { level: 'Metadata' },
  ],
});
