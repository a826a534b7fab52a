import { hostname } from 'node:os';
import { defineEnvGroup, parseEnvironment, type ConfigOf } from '#core/platform/config/config.ts';
import { list, optional, text, whole } from '#core/platform/config/variables.ts';
import {
  egressAllowCidrs,
  keyringEnv,
  natsEnv,
  observabilityEnv,
  postgresEnv,
  receiptsEnv,
  runtimeEnv,
  tenantMetricsEnv,
  webhooksEnv,
} from '#core/platform/config/environment.ts';
import { isNameServer } from '#core/platform/http/host-resolver.ts';
import type { WorkerSettings } from './worker-settings.ts';

const deliveryEnv = defineEnvGroup({
  title: 'Delivery',
  shape: {
    WORKER_NAME: optional(
      text(
        'Names this process in the attempt log, followed by a part that is new with each start. Absent: the host name, in a cluster the pod.',
        { lengthMax: 253 },
      ),
    ),
    IN_FLIGHT_MAX: whole('Provider calls at once in one process.', { min: 1, max: 10_000, default: 512 }),
    QUEUED_PER_TENANT_MAX: whole('Wake-ups of one tenant kept in memory; more wait in the database.', {
      min: 1,
      max: 100_000,
      default: 1_000,
    }),
    QUEUED_MAX: whole('Wake-ups of all tenants kept in memory; beyond it each tenant keeps only a few.', {
      min: 1,
      max: 1_000_000,
      default: 5_000,
    }),
    PROVIDER_DEADLINE_MS: whole(
      'Total time of one provider call in milliseconds. SMTP calls may take 40 s, or two thirds of the lease.',
      {
        min: 100,
        max: 60_000,
        default: 15_000,
      },
    ),
    LEASE_MS: whole(
      'How long a claimed message belongs to one worker, in milliseconds. At least twice the provider deadline: what is not recorded by then counts as an ambiguous call.',
      { min: 1_000, max: 600_000, default: 60_000 },
    ),
    LARGE_CONTENT_BYTES_MAX: whole(
      'Large contents, such as attachments, that one process sends at once, in bytes; others wait. The process takes up to five times as much for them.',
      { min: 16_777_216, max: 17_179_869_184, default: 67_108_864 },
    ),
    SWEEP_INTERVAL_MS: whole('Interval of the sweep for due timers and lost wake-ups, in milliseconds.', {
      min: 50,
      max: 60_000,
      default: 1_000,
    }),
    CREDENTIALS_CACHE_MAX: whole('Decrypted provider credentials kept in memory.', {
      min: 1,
      max: 1_000_000,
      default: 10_000,
    }),
    CREDENTIALS_TTL_SECONDS: whole('How long a decrypted credential is used before Vault is asked again.', {
      min: 1,
      max: 86_400,
      default: 600,
    }),
    SHUTDOWN_GRACE_MS: whole(
      'Longest wait for calls in flight when the process is told to end, in milliseconds. Mails whose SMTP call takes longer may be sent twice.',
      {
        min: 0,
        max: 600_000,
        default: 45_000,
      },
    ),
  },
  build(e, { fault }) {
    if (e.LEASE_MS < 2 * e.PROVIDER_DEADLINE_MS) {
      fault('LEASE_MS', 'must be at least twice PROVIDER_DEADLINE_MS');
    }
    return {
      settings: {
        name: e.WORKER_NAME ?? hostname(),
        inFlightMax: e.IN_FLIGHT_MAX,
        queuedPerTenantMax: e.QUEUED_PER_TENANT_MAX,
        queuedMax: e.QUEUED_MAX,
        deadlineMs: e.PROVIDER_DEADLINE_MS,
        leaseMs: e.LEASE_MS,
        largeContentBytesMax: e.LARGE_CONTENT_BYTES_MAX,
        sweepMs: e.SWEEP_INTERVAL_MS,
      } satisfies WorkerSettings,
      credentials: { entriesMax: e.CREDENTIALS_CACHE_MAX, ttlMs: e.CREDENTIALS_TTL_SECONDS * 1_000 },
      shutdownGraceMs: e.SHUTDOWN_GRACE_MS,
    };
  },
});

/**
 * Time that a delivery lease leaves for records: a worker begins no call whose result it could not record within the lease,
 * however short calls are.
 */
const RECORDS_MS = 5_000;

const webhookDeliveriesEnv = defineEnvGroup({
  title: 'Webhook deliveries',
  shape: {
    WEBHOOKS_IN_FLIGHT_MAX: whole('Calls to webhook endpoints at once in one process.', {
      min: 1,
      max: 10_000,
      default: 256,
    }),
    WEBHOOK_DEADLINE_MS: whole('Total time of one call to a webhook endpoint in milliseconds.', {
      min: 100,
      max: 30_000,
      default: 15_000,
    }),
  },
  build: (e) => ({
    inFlightMax: e.WEBHOOKS_IN_FLIGHT_MAX,
    deadlineMs: e.WEBHOOK_DEADLINE_MS,
    // Long enough for several consecutive calls that each take the full deadline, and for recording them.
    leaseMs: 4 * e.WEBHOOK_DEADLINE_MS + RECORDS_MS,
  }),
});

const egressEnv = defineEnvGroup({
  title: 'Egress',
  shape: {
    EGRESS_ALLOW_CIDRS: egressAllowCidrs,
    EGRESS_DNS_SERVERS: list(
      'Name servers that resolve tenant-supplied hosts, for example `10.96.0.10` or `[fd00::53]:5353`. Empty: those of the machine.',
      { item: isNameServer, rule: 'must be a list of IP addresses, each with or without a port' },
    ),
    PROVIDER_BASE_URLS: list(
      "Origins that replace a vendor's, by catalog id, for example `twilio=https://proxy.internal`.",
      { item: isOverride, rule: 'must be a list of id=https://origin' },
    ),
  },
  build: (e) => ({
    allowCidrs: e.EGRESS_ALLOW_CIDRS,
    dnsServers: e.EGRESS_DNS_SERVERS,
    baseUrls: Object.fromEntries(e.PROVIDER_BASE_URLS.map(splitOverride)),
  }),
});

export const workerEnvironment = {
  runtime: runtimeEnv,
  postgres: postgresEnv,
  nats: natsEnv,
  keyring: keyringEnv,
  delivery: deliveryEnv,
  egress: egressEnv,
  receipts: receiptsEnv,
  webhooks: webhooksEnv,
  webhookDeliveries: webhookDeliveriesEnv,
  observability: observabilityEnv,
  tenantMetrics: tenantMetricsEnv,
};

export type WorkerConfig = ConfigOf<typeof workerEnvironment>;

/**
 * Parses the worker's environment.
 * @throws ConfigurationError that names all faults at once.
 */
export function workerConfig(env: NodeJS.ProcessEnv): WorkerConfig {
  return parseEnvironment(workerEnvironment, env);
}

function isOverride(item: string): boolean {
  const [id, origin] = splitOverride(item);
  return /^[a-z0-9-]+$/.test(id) && /^https?:\/\//.test(origin) && URL.canParse(origin);
}

function splitOverride(item: string): [id: string, origin: string] {
  const at = item.indexOf('=');
  return [item.slice(0, Math.max(at, 0)), item.slice(at + 1)];
}
