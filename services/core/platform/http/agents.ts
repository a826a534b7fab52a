import type { LookupFunction, Socket } from 'node:net';
import { LRUCache } from 'lru-cache';
import { Agent, buildConnector, errors, type Dispatcher } from 'undici';
import type { HttpRequest } from '#core/domain/sending/http-exchange.ts';
import { TENANT_HOST_CIPHERS } from '#core/domain/account/tls-ciphers.ts';
import type { EgressGuard } from './egress-guard.ts';
import { takeContinue } from './take-continue.ts';

export type AgentsOptions = {
  /** DNS, TCP and TLS together, over all addresses that are tried; for a tenant's host without the DNS. Default 5 s. */
  readonly connectTimeoutMs: number;
  /** Default: no limit. Connections are then bounded by the number of calls under way. */
  readonly connectionsPerOrigin?: number | undefined;
  /** Replaces Node's resolver of host names, for tests without DNS. IP literals never reach it. */
  readonly lookup?: LookupFunction | undefined;
  /** For requests to hosts chosen by tenants (`isTenantHost`); without a guard they are refused. */
  readonly guard?: Pick<EgressGuard, 'resolve'> | undefined;
  /** An HTTP/2 connection with a request that is silent for this long is pinged, and replaced if it does not answer. */
  readonly silenceMs: number;
};

type ClientCertificate = NonNullable<HttpRequest['clientCertificate']>;

type Agents = {
  /** Returns the connections that a request may use. */
  readonly of: (request: HttpRequest) => Dispatcher;
  readonly destroy: () => Promise<void>;
};

/** Each carries a hundred concurrent requests, or as many as the server allows. */
const HTTP2_CONNECTIONS_PER_ORIGIN = 4;
/** Apple asks for persistent connections; a ping once a minute keeps intermediate devices from dropping them. */
const HTTP2_IDLE_MS = 10 * 60_000;
/** Maximum number of groups of HTTP/2 connections; beyond it the least recently used group is closed. */
const HTTP2_GROUPS_MAX = 1_000;

/** Maximum number of groups of connections with a client certificate; the same eviction. */
const CERTIFICATE_GROUPS_MAX = 256;

/** Maximum time that a vendor may request for an idle connection. Without a request it is closed after four seconds. */
const IDLE_MS_MAX = 60_000;
/** The same for a tenant's server; short, because there may be many of them. */
const GUARDED_IDLE_MS_MAX = 10_000;

/** Creates the connection pools, by how connections are opened and which requests may share them. */
export function createAgents(options: AgentsOptions): Agents {
  const { connectTimeoutMs, connectionsPerOrigin, lookup, guard, silenceMs } = options;
  const pool = {
    allowH2: false,
    // All tenants of a worker call one vendor, and many may have chosen one host: with a limit, the calls of one tenant would wait
    // for slow answers to another's.
    connections: connectionsPerOrigin ?? null,
    keepAliveMaxTimeout: IDLE_MS_MAX,
    pipelining: 1,
    // The total deadline covers both; this saves two timers per request.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  const connect = { timeout: connectTimeoutMs, ...(lookup === undefined ? {} : { lookup }) };
  const http2Pool = {
    allowH2: true,
    // Without TLS the protocol cannot be negotiated: the origin is the operator's own, or a test server.
    useH2c: true,
    connections: HTTP2_CONNECTIONS_PER_ORIGIN,
    keepAliveTimeout: HTTP2_IDLE_MS,
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
    connect: { ...connect, preferH2: true },
  };
  const agent = new Agent({ ...pool, connect: http1Connector(connect) });
  const tenantPool = { ...pool, keepAliveMaxTimeout: GUARDED_IDLE_MS_MAX };
  // A pool of its own: a connection that was opened without the guard must not carry a request that needs it.
  const guardedAgent = new Agent({
    ...tenantPool,
    connect: guardedConnector(guard, connectTimeoutMs),
  });
  const http2Agents = new LRUCache<string, Agent>({
    max: HTTP2_GROUPS_MAX,
    // close() lets requests under way end first.
    dispose: (unused, _group, reason) => void (reason === 'evict' && unused.close()),
  });

  const certificateAgents = new LRUCache<string, Agent>({
    max: CERTIFICATE_GROUPS_MAX,
    dispose: (unused, _group, reason) => void (reason === 'evict' && unused.close()),
  });

  function certificateAgent({ group, certificate, key }: ClientCertificate): Agent {
    const known = certificateAgents.get(group);
    if (known !== undefined) return known;
    const added = new Agent({
      ...tenantPool,
      connect: guardedConnector(guard, connectTimeoutMs, { cert: certificate, key }),
    });
    certificateAgents.set(group, added);
    return added;
  }

  function http2Agent(group: string): Agent {
    const known = http2Agents.get(group);
    if (known !== undefined) return known;
    const added = new Agent(http2Pool);
    http2Agents.set(group, added);
    return added;
  }

  const all = (): Agent[] => [agent, guardedAgent, ...http2Agents.values(), ...certificateAgents.values()];

  return {
    of: ({ isTenantHost, http2, clientCertificate }) => {
      if (clientCertificate !== undefined) return certificateAgent(clientCertificate);
      if (isTenantHost === true) return guardedAgent;
      return http2 === undefined ? agent : http2Agent(http2);
    },
    destroy: async () => {
      await Promise.all(all().map((one) => one.destroy()));
    },
  };
}

type Connector = ReturnType<typeof buildConnector>;
type Callback = Parameters<Connector>[1];

/** Returns a connector for HTTP/1.1, whose sockets take an unasked `100 Continue`. */
function http1Connector(terms: Parameters<typeof buildConnector>[0]): Connector {
  const connect = buildConnector({ allowH2: false, ...terms });
  return (options, callback) =>
    connect(options, (...[error, socket]) =>
      error === null ? callback(null, takeContinue(socket)) : callback(error, null),
    );
}

/** The most addresses of a tenant's host that are tried for one connection. */
const ADDRESSES_MAX = 3;
/** Faults of an address that another address of the same host may not have. */
const UNREACHED = new Set([
  'EAFNOSUPPORT',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/**
 * Returns a connector that connects to an address that the guard has checked, so that a second DNS resolution cannot change it:
 * to the next one if an address is not reached within its share of the time. The certificate is still verified against the host
 * name.
 */
function guardedConnector(
  guard: AgentsOptions['guard'],
  timeoutMs: number,
  shown: { readonly cert?: string; readonly key?: string } = {},
): Connector {
  // Without a timeout of its own: it would be the same for every connection.
  const connect = http1Connector({ timeout: 0, ciphers: TENANT_HOST_CIPHERS, ...shown });
  return (options, callback) => {
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80);
    const checked = guard?.resolve(options.hostname, port) ?? REFUSED;
    checked.then(
      (resolved) => {
        if (resolved.kind === 'refused') return callback(new EgressError(resolved.code), null);
        // Tests break this (mutant: pinned-address): a tenant's host is called at an address that was checked.
        connectInTurn(
          resolved.addresses.slice(0, ADDRESSES_MAX),
          (address, then) => connect({ ...options, hostname: address }, then),
          performance.now() + timeoutMs,
          callback,
        );
      },
      (error: unknown) => callback(error as Error, null),
    );
  };
}

const REFUSED = Promise.resolve({ kind: 'refused', code: 'egress_blocked' } as const);

/** Connects to the first of these addresses that is reached. */
function connectInTurn(
  addresses: readonly string[],
  connect: (address: string, then: Callback) => unknown,
  endsAt: number,
  then: Callback,
  failedBefore?: Error,
): void {
  const [address = '', ...others] = addresses;
  try {
    const socket = connect(address, (error, connected) => {
      clearTimeout(timer);
      if (error === null) return then(null, connected);
      // The first fault says most about the host: the other addresses may have no route at all.
      const failed = failedBefore ?? error;
      if (!isUnreached(error)) then(error, null);
      else if (others.length === 0 || performance.now() >= endsAt) then(failed, null);
      else connectInTurn(others, connect, endsAt, then, failed);
    }) as Socket;
    const giveUp = (): void => void socket.destroy(new errors.ConnectTimeoutError());
    const leftMs = (): number => Math.max(1, endsAt - performance.now());
    let timer = setTimeout(giveUp, leftMs() / addresses.length);
    // Then the address is reached: TLS on it may take all the time that is left. Without TLS the connector's own listener, which
    // runs next, ends the wait.
    socket.prependOnceListener('connect', () => {
      clearTimeout(timer);
      timer = setTimeout(giveUp, leftMs());
    });
  } catch (error) {
    // TLS throws synchronously for an invalid client certificate; an uncaught exception here would end the process.
    then(error as Error, null);
  }
}

function isUnreached(error: Error): boolean {
  return UNREACHED.has(String((error as NodeJS.ErrnoException).code));
}

class EgressError extends Error {
  readonly code: string;

  constructor(code: 'dns' | 'egress_blocked') {
    super(`Connection refused by the egress guard: ${code}`);
    this.code = code === 'dns' ? 'ENOTFOUND' : 'EGRESS_BLOCKED';
  }
}
