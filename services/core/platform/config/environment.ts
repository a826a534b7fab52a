import { defineEnvGroup, type BuildContext } from './config.ts';
import { postgresUrl, url, urlList } from './url-variables.ts';
import { flag, list, oneOf, optional, ratio, secretText, text, whole } from './variables.ts';
import type { Secret } from '#core/domain/storage/secret.ts';
import { webhookPorts } from '#core/domain/webhooks/webhook-url.ts';
import { isCidr } from '../http/egress-guard.ts';
import type { LogLevel } from '../telemetry/logger.ts';
import type { NatsConfig } from '../nats/nats-types.ts';
import type { KeyringConfig, VaultAuth } from '../vault/keyring.ts';

const despatchEnv = oneOf(
  "`production` refuses what is only fit for a developer's machine, such as the local keyring.",
  ['production', 'development'],
  'production',
);

const PATH = { pattern: /^\/[^\0\r\n]*$/, rule: 'must be an absolute path', type: 'path' };
const LABEL = {
  pattern: /^[a-z][a-z0-9_-]{0,31}$/,
  rule: 'must be 1 to 32 of a-z, 0-9, _ and -, a letter first',
};
const MOUNT = {
  pattern: /^[A-Za-z0-9_-]+(?:\/[A-Za-z0-9_-]+)*$/,
  rule: 'must be a mount path without outer slashes',
};

/** Selects the safety checks: production or development. */
export const runtimeEnv = defineEnvGroup({
  title: 'Runtime',
  shape: { DESPATCH_ENV: despatchEnv },
  build: (e) => ({ mode: e.DESPATCH_ENV }),
});

const databaseShape = {
  DATABASE_URL: postgresUrl("Connection string of this deployment's own login role."),
  DATABASE_CA_FILE: optional(
    text(
      "PEM file of the certificate authority. When set, the server's certificate and host name are verified.",
      PATH,
    ),
  ),
};

/** For the migration, whose connections and time limits are its own. */
export const databaseEnv = defineEnvGroup({
  title: 'Postgres',
  shape: databaseShape,
  build: (e) => ({ url: e.DATABASE_URL, caFile: e.DATABASE_CA_FILE }),
});

export const postgresEnv = defineEnvGroup({
  title: 'Postgres',
  shape: {
    ...databaseShape,
    DATABASE_POOL_MAX: whole(
      'Connections per process. An api has those of `DATABASE_READ_POOL_MAX` and `DATABASE_CHANGE_POOL_MAX` in addition, a worker three for webhooks and two for metrics.',
      { min: 1, max: 200, default: 10 },
    ),
    DATABASE_STATEMENT_TIMEOUT_MS: whole('Limit of one statement in milliseconds.', {
      min: 100,
      max: 600_000,
      default: 10_000,
    }),
  },
  build: (e) => ({
    url: e.DATABASE_URL,
    poolMax: e.DATABASE_POOL_MAX,
    statementTimeoutMs: e.DATABASE_STATEMENT_TIMEOUT_MS,
    caFile: e.DATABASE_CA_FILE,
  }),
});

export const natsEnv = defineEnvGroup({
  title: 'NATS',
  shape: {
    NATS_URL: urlList('Servers of one cluster. `tls://` demands TLS.', ['nats:', 'tls:']),
    NATS_USER: optional(text('User name.')),
    NATS_PASSWORD: optional(secretText('Password of the user.')),
    NATS_CREDS_FILE: optional(
      text('Credentials file (JWT and seed) instead of a user and a password.', PATH),
    ),
    NATS_CA_FILE: optional(text('PEM file of the certificate authority; demands TLS.', PATH)),
    NATS_CERT_FILE: optional(text('PEM file of the client certificate, for mutual TLS.', PATH)),
    NATS_KEY_FILE: optional(text("PEM file of the client certificate's key.", PATH)),
    NATS_PREFIX: text('First token of all subjects; stream names begin with it in capitals.', {
      ...LABEL,
      default: 'despatch',
    }),
    NATS_REPLICAS: whole('Copies of the wake-up stream in a NATS cluster.', { min: 1, max: 5, default: 1 }),
  },
  build: (e, { fault }): NatsConfig => {
    if ((e.NATS_USER === undefined) !== (e.NATS_PASSWORD === undefined)) {
      fault('NATS_USER', 'goes together with NATS_PASSWORD');
    }
    if (e.NATS_CREDS_FILE !== undefined && e.NATS_USER !== undefined) {
      fault('NATS_CREDS_FILE', 'excludes NATS_USER and NATS_PASSWORD');
    }
    if ((e.NATS_CERT_FILE === undefined) !== (e.NATS_KEY_FILE === undefined)) {
      fault('NATS_CERT_FILE', 'goes together with NATS_KEY_FILE');
    }
    return {
      servers: e.NATS_URL,
      user: e.NATS_USER,
      password: e.NATS_PASSWORD,
      credsFile: e.NATS_CREDS_FILE,
      caFile: e.NATS_CA_FILE,
      certFile: e.NATS_CERT_FILE,
      keyFile: e.NATS_KEY_FILE,
      prefix: e.NATS_PREFIX,
      replicas: e.NATS_REPLICAS,
    };
  },
});

const keyringShape = {
  DESPATCH_ENV: despatchEnv,
  KEYRING: oneOf(
    "What encrypts tenants' secrets: Vault, or a local folder (development only).",
    ['vault', 'local'],
    'vault',
  ),
  LOCAL_KEYRING_DIR: optional(text('Folder of the local keyring.', PATH)),
  VAULT_ADDR: optional(url('Address of Vault.', ['http:', 'https:'])),
  VAULT_NAMESPACE: optional(text('Namespace of Vault Enterprise.')),
  VAULT_CA_FILE: optional(text('PEM file of the certificate authority of Vault.', PATH)),
  VAULT_TRANSIT_MOUNT: text('Mount path of the transit engine.', { ...MOUNT, default: 'transit' }),
  VAULT_KEY_PREFIX: text("Tenants' transit keys are this and the tenant's id.", {
    ...LABEL,
    default: 'despatch-',
  }),
  VAULT_AUTH_METHOD: oneOf('How to log in.', ['token', 'approle', 'kubernetes'], 'kubernetes'),
  VAULT_TOKEN: optional(secretText('For `token`. A file is read again at each login.')),
  VAULT_ROLE_ID: optional(text('For `approle`.')),
  VAULT_SECRET_ID: optional(secretText('For `approle`. A file is read again at each login.')),
  VAULT_APPROLE_MOUNT: text('Mount path of the AppRole method.', { ...MOUNT, default: 'approle' }),
  VAULT_ROLE: optional(text('For `kubernetes`: the role.')),
  VAULT_KUBERNETES_MOUNT: text('Mount path of the Kubernetes method.', { ...MOUNT, default: 'kubernetes' }),
  VAULT_KUBERNETES_TOKEN_FILE: text(
    "For `kubernetes`: the service account's token, read again at each login.",
    {
      ...PATH,
      default: '/var/run/secrets/kubernetes.io/serviceaccount/token',
    },
  ),
};

export const keyringEnv = defineEnvGroup({
  title: 'Keyring',
  shape: keyringShape,
  build: (e, context): KeyringConfig => {
    if (e.KEYRING === 'local') {
      if (e.DESPATCH_ENV === 'production') {
        context.fault(
          'KEYRING',
          '`local` is refused in production; use vault, or set DESPATCH_ENV=development',
        );
      }
      if (e.LOCAL_KEYRING_DIR === undefined)
        context.fault('LOCAL_KEYRING_DIR', 'is required with KEYRING=local');
      return { kind: 'local', dir: e.LOCAL_KEYRING_DIR ?? '' };
    }
    if (e.VAULT_ADDR === undefined) context.fault('VAULT_ADDR', 'is required with KEYRING=vault');
    return {
      kind: 'vault',
      address: e.VAULT_ADDR ?? '',
      namespace: e.VAULT_NAMESPACE,
      caFile: e.VAULT_CA_FILE,
      transitMount: e.VAULT_TRANSIT_MOUNT,
      keyPrefix: e.VAULT_KEY_PREFIX,
      // If it is undefined, a fault was reported, and this configuration is never returned.
      auth: vaultAuth(e, context) as VaultAuth,
    };
  },
});

type VaultVariables = {
  readonly VAULT_AUTH_METHOD: 'token' | 'approle' | 'kubernetes';
  readonly VAULT_TOKEN: Secret | undefined;
  readonly VAULT_ROLE_ID: string | undefined;
  readonly VAULT_SECRET_ID: Secret | undefined;
  readonly VAULT_APPROLE_MOUNT: string;
  readonly VAULT_ROLE: string | undefined;
  readonly VAULT_KUBERNETES_MOUNT: string;
  readonly VAULT_KUBERNETES_TOKEN_FILE: string;
};

function vaultAuth(e: VaultVariables, { fault, fileOf }: BuildContext): VaultAuth | undefined {
  const missing = (variable: string): undefined => {
    fault(variable, `is required with VAULT_AUTH_METHOD=${e.VAULT_AUTH_METHOD}`);
    return undefined;
  };
  switch (e.VAULT_AUTH_METHOD) {
    case 'token':
      if (e.VAULT_TOKEN === undefined) return missing('VAULT_TOKEN');
      return { method: 'token', token: e.VAULT_TOKEN, tokenFile: fileOf('VAULT_TOKEN') };
    case 'approle':
      if (e.VAULT_ROLE_ID === undefined) return missing('VAULT_ROLE_ID');
      if (e.VAULT_SECRET_ID === undefined) return missing('VAULT_SECRET_ID');
      return {
        method: 'approle',
        mount: e.VAULT_APPROLE_MOUNT,
        roleId: e.VAULT_ROLE_ID,
        secretId: e.VAULT_SECRET_ID,
        secretIdFile: fileOf('VAULT_SECRET_ID'),
      };
    case 'kubernetes':
      if (e.VAULT_ROLE === undefined) return missing('VAULT_ROLE');
      return {
        method: 'kubernetes',
        mount: e.VAULT_KUBERNETES_MOUNT,
        role: e.VAULT_ROLE,
        tokenFile: e.VAULT_KUBERNETES_TOKEN_FILE,
      };
  }
}

export const publicBaseUrl = url(
  'Base URL under which clients and vendors reach the api, the same for both services: shown in the OpenAPI document, and the beginning of the URLs to which vendors report. The api needs it; a worker without it asks for no receipts.',
  ['http:', 'https:'],
);

/** For the api and the worker, which must derive the same tokens and hashes. */
export const receiptsEnv = defineEnvGroup({
  title: 'Receipts',
  shape: {
    PUBLIC_BASE_URL: optional(publicBaseUrl),
    RECEIPT_PEPPER: secretText(
      'Root of the tokens in the URLs to which vendors report, of the links by which recipients unsubscribe, and of the hashes by which suppressed recipients are found; the same for both services. With another one all these URLs and links would be invalid, and no entry of a suppression list would count: a process with another one than the database is used with ends at start.',
      { lengthMin: 32 },
    ),
  },
  build: (e) => ({ publicBaseUrl: e.PUBLIC_BASE_URL, pepper: e.RECEIPT_PEPPER }),
});

export const egressAllowCidrs = list(
  'Address ranges that tenant-supplied hosts may resolve to although they are private or local. Addresses of a NAT64 translator, in `64:ff9b::/96` and `64:ff9b:1::/96`, are judged by the IPv4 address in them. Empty: none.',
  { item: isCidr, rule: 'must be a list of CIDR ranges, for example 10.20.0.0/16' },
);

function isPort(text: string): boolean {
  return /^[1-9]\d{0,4}$/.test(text) && Number(text) <= 65_535;
}

/** For the services that accept the URLs of webhook endpoints and that call them. */
export const webhooksEnv = defineEnvGroup({
  title: 'Webhooks',
  shape: {
    EGRESS_ALLOW_CIDRS: egressAllowCidrs,
    WEBHOOK_ALLOW_HTTP: flag(
      'Whether webhook URLs may use http. Events are then readable in transit.',
      false,
    ),
    WEBHOOK_PORTS: list(
      'Ports that the URLs of webhook endpoints may name besides 443, and besides 80 where http ones are allowed. Addresses in `EGRESS_ALLOW_CIDRS` are open on all.',
      { item: isPort, rule: 'must be a list of ports, 1 to 65535' },
    ),
  },
  build: (e) => ({
    allowCidrs: e.EGRESS_ALLOW_CIDRS,
    allowHttp: e.WEBHOOK_ALLOW_HTTP,
    ports: webhookPorts(e.WEBHOOK_ALLOW_HTTP, e.WEBHOOK_PORTS.map(Number)),
  }),
});

/** For the services that do work for tenants. */
export const tenantMetricsEnv = defineEnvGroup({
  title: 'Tenant metrics',
  shape: {
    METRICS_TENANTS_MAX: whole(
      'Tenants that metrics show by their id, in each process; the others share the label `other`. A new one takes the place of one that was idle for an hour. 0: no metric names a tenant.',
      { min: 0, max: 1_000, default: 0 },
    ),
  },
  build: (e) => ({ tenantsMax: e.METRICS_TENANTS_MAX }),
});

export const observabilityEnv = defineEnvGroup({
  title: 'Observability',
  shape: {
    LOG_LEVEL: oneOf('Lowest level that is logged.', ['debug', 'info', 'warn', 'error'], 'info'),
    METRICS_HOST: text('Address of the port for health and metrics.', { default: '0.0.0.0' }),
    METRICS_PORT: whole('Port of `/healthz`, `/readyz` and `/metrics`.', {
      min: 0,
      max: 65_535,
      default: 9090,
    }),
    OTEL_EXPORTER_OTLP_ENDPOINT: optional(
      url('OTLP/HTTP collector; traces are sent to `/v1/traces` below it. Absent: no tracing.', [
        'http:',
        'https:',
      ]),
    ),
    OTEL_TRACES_SAMPLE_RATIO: ratio(
      'Share of requests to the api, and of traces that other work begins, that are recorded. What a client decided is ignored.',
      0.1,
    ),
  },
  build: (e) => ({
    logLevel: e.LOG_LEVEL satisfies LogLevel,
    metrics: { host: e.METRICS_HOST, port: e.METRICS_PORT },
    telemetry: { endpoint: e.OTEL_EXPORTER_OTLP_ENDPOINT, sampleRatio: e.OTEL_TRACES_SAMPLE_RATIO },
  }),
});
