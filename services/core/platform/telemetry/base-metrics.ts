import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { sampled, sampledSeries } from './sampled-metrics.ts';
import type { CertificateLife } from '../process/watched-certificate.ts';
import type { VaultOperation, VaultRequest } from '../vault/vault-transport.ts';

/** The response to a scrape. */
export type Exposition = { readonly contentType: string; readonly text: string };

/** Buckets for provider calls and accept batches: from a millisecond to the longest provider deadline. */
export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Vault operations of every deployment's login. */
const VAULT_SESSION: readonly VaultOperation[] = ['login', 'renew', 'lookup'];
/** Codes whose series start at 0, so that `rate()` sees their first occurrence; other series start when they occur. */
const VAULT_CODES = ['200', '403', '503', 'timeout', 'network'];
/** Refusals of a login; of other operations they are answers about one key or ciphertext. */
const LOGIN_REFUSALS = ['400', '404'];

/**
 * Creates the metrics of every deployment and its dependencies. Labels have bounded values: never a recipient or an id, and a
 * tenant only if the operator enables that.
 */
export function createBaseMetrics(vaultOperations: readonly VaultOperation[]) {
  const registry = new Registry();
  const on = [registry];
  const vaultRequests = new Counter({
    name: 'despatch_vault_requests_total',
    help: 'Calls to Vault by operation and HTTP status, or the reason for having none.',
    labelNames: ['op', 'code'],
    registers: on,
  });
  const vaultSeconds = new Histogram({
    name: 'despatch_vault_request_duration_seconds',
    help: 'Time of a call to Vault.',
    labelNames: ['op'],
    buckets: SECONDS,
    registers: on,
  });
  const vaultTokenExpiry = new Gauge({
    name: 'despatch_vault_token_expiry_timestamp_seconds',
    help: 'When the Vault token ends unless it is renewed.',
    registers: on,
  });
  const certificateTimes = {
    from: new Gauge({
      name: 'despatch_server_certificate_start_timestamp_seconds',
      help: 'Since when the certificate is valid that `despatch_server_certificate_expiry_timestamp_seconds` is about.',
      labelNames: ['server'],
      registers: on,
    }),
    to: new Gauge({
      name: 'despatch_server_certificate_expiry_timestamp_seconds',
      help: 'When the certificate ends that this server showed at the last connection, or the one above it that ends first; none without TLS, and none of a database whose authority is not configured.',
      labelNames: ['server'],
      registers: on,
    }),
  };
  const natsConnected = new Gauge({
    name: 'despatch_nats_connected',
    help: '1 while connected to NATS.',
    registers: on,
  });
  const databaseSeconds = new Histogram({
    name: 'despatch_db_query_duration_seconds',
    help: 'Time of a database operation, the wait for a connection included.',
    labelNames: ['op'],
    buckets: SECONDS,
    registers: on,
  });
  const databaseErrors = new Counter({
    name: 'despatch_db_errors_total',
    help: 'Database operations that failed.',
    labelNames: ['op'],
    registers: on,
  });
  for (const op of [...vaultOperations, ...VAULT_SESSION]) {
    for (const code of VAULT_CODES) vaultRequests.inc({ op, code }, 0);
    vaultSeconds.zero({ op });
  }
  for (const op of VAULT_SESSION) for (const code of LOGIN_REFUSALS) vaultRequests.inc({ op, code }, 0);
  return {
    registry,
    ready: sampled(
      registry,
      'despatch_ready',
      '1 while the process is ready, as its readiness probe is told.',
    ),
    vaultRequest({ op, code, seconds }: VaultRequest): void {
      vaultRequests.inc({ op, code });
      vaultSeconds.observe({ op }, seconds);
    },
    vaultTokenExpires: (epochSeconds: number): void => vaultTokenExpiry.set(epochSeconds),
    /** Returns a listener for the certificates of a server. */
    certificateOf:
      (server: 'database' | 'vault') =>
      ({ from, to }: CertificateLife): void => {
        certificateTimes.from.set({ server }, from);
        certificateTimes.to.set({ server }, to);
      },
    natsConnection: (isConnected: boolean): void => natsConnected.set(isConnected ? 1 : 0),
    /** The metrics that `timedStore` records. */
    database: {
      known(op: string): void {
        databaseSeconds.zero({ op });
        databaseErrors.inc({ op }, 0);
      },
      ended(op: string, seconds: number, isFailed: boolean): void {
        databaseSeconds.observe({ op }, seconds);
        if (isFailed) databaseErrors.inc({ op });
      },
    },
    poolConnections: sampledSeries(registry, {
      name: 'despatch_db_pool_connections',
      help: "This process's database connections by state, as the server sees them.",
      labelNames: ['state'],
    }),
    clockOffset: sampled(
      registry,
      'despatch_clock_offset_seconds',
      "By how much this process's clock is ahead of the database's; negative where it is behind.",
    ),
    publishSeconds: new Histogram({
      name: 'despatch_publish_duration_seconds',
      help: 'Time until JetStream acknowledged a batch of wake-ups.',
      buckets: SECONDS,
      registers: on,
    }),
    publications: new Counter({
      name: 'despatch_publications_total',
      help: 'Wake-ups sent to JetStream, of which one may stand for many messages.',
      registers: on,
    }),
    publishErrors: new Counter({
      name: 'despatch_publish_errors_total',
      help: 'Wake-ups without an acknowledgement; the sweep finds their messages.',
      registers: on,
    }),
    expose: async (): Promise<Exposition> => ({
      contentType: registry.contentType,
      text: await registry.metrics(),
    }),
  };
}
