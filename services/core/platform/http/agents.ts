import type { LookupFunction } from 'node:net';
import { LRUCache } from 'lru-cache';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import type { HttpRequest } from '#core/domain/http-exchange.ts';
import type { EgressGuard } from './egress-guard.ts';

export type AgentsOptions = {
  /** DNS, TCP and TLS together. Default 5 s. */
  readonly connectTimeoutMs: number;
  /** Default 64; to hosts that tenants chose no bound but that of the calls under way. */
  readonly connectionsPerOrigin?: number | undefined;
  /** Resolver for host names, for clients whose hosts are tenant input. IP literals never reach it. */
  readonly lookup?: LookupFunction | undefined;
  /** For requests to hosts that tenants chose (`isTenantHost`); without a guard they are refused. */
  readonly guard?: Pick<EgressGuard, 'resolve'> | undefined;
  /** An HTTP/2 connection that is silent for so long with a request on it is asked whether it lives, else replaced. */
  readonly silenceMs: number;
};

type ClientCertificate = NonNullable<HttpRequest['clientCertificate']>;

type Agents = {
  /** The connections that a request may go on. */
  readonly of: (request: HttpRequest) => Dispatcher;
  readonly destroy: () => Promise<void>;
};

const CONNECTIONS_PER_ORIGIN = 64;
/** Each carries a hundred requests at a time, or what the server allows. */
const HTTP2_CONNECTIONS_PER_ORIGIN = 4;
/** Apple asks for connections that stay; pings once a minute keep them known to what lies between. */
const HTTP2_IDLE_MS = 10 * 60_000;
/** Groups of HTTP/2 connections; the one not used for longest is closed for another. */
const HTTP2_GROUPS_MAX = 1_000;

/** Groups of connections with a certificate of their own; the same. */
const CERTIFICATE_GROUPS_MAX = 256;

/** A tenant's server may ask for an idle connection to be kept, and not for long: there may be many of them. */
const GUARDED_IDLE_MS_MAX = 10_000;

/** Connections by how they are opened and who may share them. */
export function createAgents(options: AgentsOptions): Agents {
  const { connectTimeoutMs, connectionsPerOrigin, lookup, guard, silenceMs } = options;
  const pool = {
    allowH2: false,
    connections: connectionsPerOrigin ?? CONNECTIONS_PER_ORIGIN,
    pipelining: 1,
    // The total deadline covers both; two timers fewer per request.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  const connect = { timeout: connectTimeoutMs, ...(lookup === undefined ? {} : { lookup }) };
  const http2Pool = {
    allowH2: true,
    // Without TLS there is nothing to agree on the protocol by: an operator's own origin, or a stand-in.
    useH2c: true,
    connections: HTTP2_CONNECTIONS_PER_ORIGIN,
    keepAliveTimeout: HTTP2_IDLE_MS,
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
    connect: { ...connect, preferH2: true },
  };
  const agent = new Agent({ ...pool, connect });
  // Many tenants may have chosen one host: a bound here would have the calls of one wait for the slow answers to another's.
  const tenantPool = {
    ...pool,
    connections: connectionsPerOrigin ?? null,
    keepAliveMaxTimeout: GUARDED_IDLE_MS_MAX,
  };
  // Connections of their own: one that was opened past the guard must carry no request that has to pass it.
  const guardedAgent = new Agent({
    ...tenantPool,
    connect: guardedConnector(guard, connectTimeoutMs),
  });
  const http2Agents = new LRUCache<string, Agent>({
    max: HTTP2_GROUPS_MAX,
    // Requests under way end first.
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

/**
 * Connects to the one address that the guard has checked, so that a second resolution cannot change it; the host name
 * remains what the certificate must prove.
 */
function guardedConnector(
  guard: AgentsOptions['guard'],
  timeout: number,
  shown: { readonly cert?: string; readonly key?: string } = {},
): ReturnType<typeof buildConnector> {
  const connect = buildConnector({ timeout, allowH2: false, ...shown });
  return (options, callback) => {
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80);
    const checked = guard?.resolve(options.hostname, port) ?? REFUSED;
    checked.then(
      (resolved) => {
        if (resolved.kind === 'refused') return callback(new EgressError(resolved.code), null);
        try {
          // Tests break this (mutant: pinned-address): a tenant's host is called at the address that was checked.
          connect({ ...options, hostname: resolved.address }, callback);
        } catch (error) {
          // TLS refuses a certificate of a tenant's at once; thrown on from here, that would end the process.
          callback(error as Error, null);
        }
      },
      (error: unknown) => callback(error as Error, null),
    );
  };
}

const REFUSED = Promise.resolve({ kind: 'refused', code: 'egress_blocked' } as const);

class EgressError extends Error {
  readonly code: string;

  constructor(code: 'dns' | 'egress_blocked') {
    super(`Connection refused by the egress guard: ${code}`);
    this.code = code === 'dns' ? 'ENOTFOUND' : 'EGRESS_BLOCKED';
  }
}
