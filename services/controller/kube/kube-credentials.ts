import { createHash } from 'node:crypto';
import type { RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import { Agent, ProxyAgent, type buildConnector, type Dispatcher } from 'undici';
import { unanswered } from './kube-error.ts';

export type KubeCredentialsOptions = {
  /** Path of a kubeconfig. Absent: the service account that the pod is given. */
  readonly kubeconfig?: string | undefined;
  /** Folder under which the service account's files lie. Default: the file system's root. */
  readonly serviceAccountRoot?: string;
};

/** Where calls go, and as whom. */
export type KubeConnection = {
  /** The URL in front of every path, without a slash at its end. */
  readonly server: string;
  readonly dispatcher: Dispatcher;
  readonly headers: Readonly<Record<string, string>>;
};

export type KubeCredentials = AsyncDisposable & {
  /** @throws KubeError `Credentials` */
  readonly connection: () => Promise<KubeConnection>;
  /** The server did not accept them: whatever was remembered is read again. */
  readonly refused: () => void;
};

/** Tokens and certificates are rotated under us; reading small files every few seconds is nothing. */
const REREAD_MS = 10_000;
/** Below the 90 s after which the API server closes an idle connection. */
const IDLE_MS = 60_000;

/**
 * Takes authentication and TLS options from the Kubernetes client, and keeps the connections itself: the client would make
 * new ones for each call. HTTP/1.1 on purpose: over HTTP/2 all watches and calls share one connection, and when that one
 * hangs, they all do.
 * @throws Error for a kubeconfig that cannot be read, or none and no service account.
 */
export function openKubeCredentials(options: KubeCredentialsOptions): KubeCredentials {
  const dispatchers = new Map<string, Dispatcher>();
  let config: KubeConfig | undefined = load(options);
  let current: { readonly connection: KubeConnection; readonly readAt: number } | undefined;

  const dispatcherFor = (settings: DispatcherSettings): Dispatcher => {
    const name = fingerprint(settings);
    const known = dispatchers.get(name);
    if (known !== undefined) return known;
    // What is under way on connections with old certificates may end.
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
      // It remembers tokens for a minute.
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
  /** The settings come typed for Node's TLS; what they hold is what a connector takes. */
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

/** Equal for equal settings; certificates and keys are not kept in a readable form. */
function fingerprint(settings: DispatcherSettings): string {
  return createHash('sha256').update(JSON.stringify(settings)).digest('hex');
}
