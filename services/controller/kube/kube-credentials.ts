import { createHash } from 'node:crypto';
import type { RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import { Agent, ProxyAgent, type buildConnector, type Dispatcher } from 'undici';
import { unanswered } from './kube-error.ts';

export type KubeCredentialsOptions = {
  /** Path of a kubeconfig. Absent: the pod's service account. */
  readonly kubeconfig?: string | undefined;
  /** Folder that contains the service account's files. Default: the file system's root. */
  readonly serviceAccountRoot?: string;
};

/** The server to call and the credentials to use. */
export type KubeConnection = {
  /** URL prefix of every path, without a trailing slash. */
  readonly server: string;
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string>>;
};

export type KubeCredentials = AsyncDisposable & {
  /** @throws KubeError `Credentials` */
  readonly connection: () => Promise<KubeConnection>;
  /** Called when the server rejected the credentials: cached ones are read again. */
  readonly refused: () => void;
};

/** Tokens and certificates are rotated on disk; reading small files every few seconds is cheap. */
const REREAD_MS = 10_000;
/** Below the 90 s after which the API server closes an idle connection. */
const IDLE_MS = 60_000;

/**
 * Uses the Kubernetes client's authentication and TLS options but manages the connections itself, because the client would
 * open new ones for each call. Uses HTTP/1.1 on purpose: over HTTP/2 all watches and calls share one connection, and when
 * it hangs, all of them hang.
 * @throws Error when the kubeconfig cannot be read, or when there is neither a kubeconfig nor a service account.
 */
export function openKubeCredentials(options: KubeCredentialsOptions): KubeCredentials {
  const dispatchers = new Map<string, Dispatcher>();
  let config: KubeConfig | undefined = load(options);
  let current: { readonly connection: KubeConnection; readonly readAt: number } | undefined;

  const dispatcherFor = (settings: DispatcherSettings): Dispatcher => {
    const name = fingerprint(settings);
    const known = dispatchers.get(name);
    if (known !== undefined) return known;
    // Calls in flight on connections with old certificates may finish.
    for (const old of dispatchers.values()) old.close().catch(() => undefined);
    dispatchers.clear();
    const made = createDispatcher(settings);
    dispatchers.set(name, made);
    return made;
  };

  const read = async (): Promise<KubeConnection> => {
    config ??= load(options);
    const cluster = config.getCurrentCluster();
    if (cluster === null) throw new Error('The kubeconfig names no current cluster');
    const request: RequestOptions = { headers: {} };
    await config.applyToHTTPSOptions(request);
    const { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername, headers } = request;
    const tls = { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername };
    const { origin, pathname } = new URL(cluster.server);
    return {
      server: origin + pathname.replace(/\/+$/, ''),
      dispatcher: dispatcherFor(config.createDispatcherOptions(cluster, tls)),
      headers: Object.fromEntries(
        Object.entries(headers ?? {}).map(([name, value]) => [name.toLowerCase(), String(value).trim()]),
      ),
    };
  };

  return {
    async connection() {
      if (current !== undefined && performance.now() - current.readAt < REREAD_MS) return current.connection;
      try {
        current = { connection: await read(), readAt: performance.now() };
      } catch (error) {
        throw unanswered('Credentials', 'The Kubernetes credentials could not be read', { cause: error });
      }
      return current.connection;
    },
    refused() {
      current = undefined;
      // The client caches tokens for a minute.
      config = undefined;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...dispatchers.values()].map((dispatcher) => dispatcher.destroy()));
    },
  };
}

type DispatcherSettings = ReturnType<KubeConfig['createDispatcherOptions']>;

function load({ kubeconfig, serviceAccountRoot = '' }: KubeCredentialsOptions): KubeConfig {
  const config = new KubeConfig();
  if (kubeconfig === undefined) config.loadFromCluster(serviceAccountRoot);
  else config.loadFromFile(kubeconfig);
  const server = config.getCurrentCluster()?.server;
  if (server === undefined || !URL.canParse(server) || server.includes('undefined')) {
    throw new Error(
      kubeconfig === undefined
        ? 'There is no service account of a pod; outside of a cluster a kubeconfig is needed'
        : 'The kubeconfig names no server for its current context',
    );
  }
  return config;
}

function createDispatcher(settings: DispatcherSettings): Dispatcher {
  // Deadlines are kept per call; a watch may be silent for minutes.
  const common = {
    allowH2: false,
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS,
  } as const;
  /** The settings have Node's TLS types; a connector accepts the same values. */
  const connector = (tls: object): buildConnector.BuildOptions => ({
    ...tls,
    timeout: 10_000,
    keepAlive: true,
    keepAliveInitialDelay: 30_000,
  });
  switch (settings.type) {
    case 'none':
      return new Agent({ ...common, connect: connector({}) });
    case 'agent':
      return new Agent({ ...common, connect: connector(settings.connect) });
    case 'proxy':
      return new ProxyAgent({ ...common, uri: settings.uri, requestTls: connector(settings.requestTls) });
    case 'socks':
      throw new Error('A SOCKS proxy to the API server is not supported');
  }
}

/** Returns equal texts for equal settings, without keeping certificates and keys in a readable form. */
function fingerprint(settings: DispatcherSettings): string {
  return createHash('sha256').update(JSON.stringify(settings)).digest('hex');
}
