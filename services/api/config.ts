import { defineEnvGroup, parseEnvironment, type ConfigOf } from '#core/platform/config/config.ts';
import { url } from '#core/platform/config/url-variables.ts';
import { flag, list, optional, secretText, text, whole } from '#core/platform/config/variables.ts';
import { isCidr } from '#core/platform/http/egress-guard.ts';
import {
  keyringEnv,
  natsEnv,
  observabilityEnv,
  postgresEnv,
  publicBaseUrl,
  receiptsEnv,
  runtimeEnv,
  tenantMetricsEnv,
  webhooksEnv,
} from '#core/platform/config/environment.ts';
import { DEFAULT_HTTP_LIMITS, type HttpLimits } from './http/admission/http-limits.ts';

/** The algorithms that `jose` verifies with a public key. */
const ALGORITHMS = new Set([
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
]);

const httpEnv = defineEnvGroup({
  title: 'HTTP',
  shape: {
    HOST: text('Address that the api listens on.', { default: '0.0.0.0' }),
    PORT: whole('Port that the api listens on.', { min: 0, max: 65_535, default: 8080 }),
    PUBLIC_BASE_URL: publicBaseUrl,
    TRUST_PROXY_CIDRS: list(
      "Address ranges of the proxies in front. Only their `X-Forwarded-For` tells a caller's address. Empty: none.",
      { item: isCidr, rule: 'must be a list of CIDR ranges, for example 10.0.0.0/8' },
    ),
    HEADERS_TIMEOUT_MS: whole(
      'How long the headers may take to arrive, in milliseconds, from the start of the connection or request.',
      { min: 100, max: 60_000, default: DEFAULT_HTTP_LIMITS.headersTimeoutMs },
    ),
    REQUEST_TIMEOUT_MS: whole(
      'How long the body of a request may take to arrive, in milliseconds; a large one has longer, see `BODY_BYTES_PER_SECOND_MIN`. A connection on which nothing moves for three times as long is closed.',
      { min: 100, max: 300_000, default: DEFAULT_HTTP_LIMITS.requestTimeoutMs },
    ),
    BODY_BYTES_PER_SECOND_MIN: whole(
      'Slowest accepted rate, in bytes per second: each received byte extends `REQUEST_TIMEOUT_MS` by its share.',
      { min: 1_024, max: 1_073_741_824, default: DEFAULT_HTTP_LIMITS.bodyBytesPerSecondMin },
    ),
    REQUEST_MEMORY_BYTES_MAX: whole(
      'Memory that bodies of requests, and long answers that wait to be read, may reserve in one process, in bytes; what does not fit waits for two seconds, and is answered with 503 then. Nobody may hold more than what is left free, so that one tenant alone gets half. The process needs up to eight times as much memory, for parsed bodies and for what is not yet freed.',
      { min: 33_554_432, max: 17_179_869_184, default: DEFAULT_HTTP_LIMITS.memoryBytesMax },
    ),
    CONNECTIONS_MAX: whole('Client connections per process; further ones are closed at once.', {
      min: 1,
      max: 1_000_000,
      default: DEFAULT_HTTP_LIMITS.connectionsMax,
    }),
    EVENT_LOOP_DELAY_MAX_MS: whole(
      "Requests are answered with 503 while the event loop's mean delay over a second exceeds this, in milliseconds. 0: never.",
      { min: 0, max: 60_000, default: DEFAULT_HTTP_LIMITS.loopDelayMaxMs },
    ),
    SHUTDOWN_DELAY_MS: whole(
      'How long the api keeps accepting requests after it reports not ready, in milliseconds, until load balancers notice.',
      { min: 0, max: 60_000, default: 5_000 },
    ),
  },
  build(e, { fault }) {
    if (e.HEADERS_TIMEOUT_MS > e.REQUEST_TIMEOUT_MS) {
      fault('HEADERS_TIMEOUT_MS', 'must be at most REQUEST_TIMEOUT_MS');
    }
    return {
      listen: { host: e.HOST, port: e.PORT },
      publicBaseUrl: e.PUBLIC_BASE_URL,
      trustProxy: e.TRUST_PROXY_CIDRS.length === 0 ? false : e.TRUST_PROXY_CIDRS,
      limits: {
        headersTimeoutMs: e.HEADERS_TIMEOUT_MS,
        requestTimeoutMs: e.REQUEST_TIMEOUT_MS,
        bodyBytesPerSecondMin: e.BODY_BYTES_PER_SECOND_MIN,
        memoryBytesMax: e.REQUEST_MEMORY_BYTES_MAX,
        connectionsMax: e.CONNECTIONS_MAX,
        loopDelayMaxMs: e.EVENT_LOOP_DELAY_MAX_MS,
      } satisfies HttpLimits,
      shutdownDelayMs: e.SHUTDOWN_DELAY_MS,
    };
  },
});

const readsEnv = defineEnvGroup({
  title: 'Reads',
  shape: {
    DATABASE_READ_POOL_MAX: whole(
      'Connections per process for reading lists and messages, in addition to `DATABASE_POOL_MAX`. One tenant may use half; its other reads wait, or get 503 if too many do.',
      { min: 2, max: 200, default: 4 },
    ),
    DATABASE_READ_TIMEOUT_MS: whole(
      'Limit of one statement of a read in milliseconds, and of the wait for a connection. What is read for a client that has gone is canceled.',
      { min: 100, max: 60_000, default: 4_000 },
    ),
  },
  build: (e) => ({ connectionsMax: e.DATABASE_READ_POOL_MAX, timeoutMs: e.DATABASE_READ_TIMEOUT_MS }),
});

const changesEnv = defineEnvGroup({
  title: 'Changes',
  shape: {
    DATABASE_CHANGE_POOL_MAX: whole(
      'Connections per process for everything except sends, receipts and reads, in addition to `DATABASE_POOL_MAX`: changes of settings and of messages that wait, and the counting of those calls. Changes use all of them but one, and one tenant half of these.',
      { min: 2, max: 200, default: 5 },
    ),
  },
  build: (e) => ({ connectionsMax: e.DATABASE_CHANGE_POOL_MAX }),
});

const accessEnv = defineEnvGroup({
  title: 'Access',
  shape: {
    KEY_PEPPER: secretText(
      'Root of the keys that hash service keys and sign cursors. With another one all service keys would be invalid: an api with another one than the database is used with ends at start.',
      { lengthMin: 32 },
    ),
    OIDC_ISSUER: text('Issuer of sign-in tokens, exactly as in their `iss`.', {
      pattern: /^https?:\/\/\S+$/,
      rule: 'must be an http or https URL',
      type: 'URL',
    }),
    OIDC_AUDIENCE: text("The api's name in the tokens' `aud`."),
    OIDC_JWKS_URL: optional(
      url(
        "The issuer's keys. Absent: found through its discovery document, which must name an https URL if the issuer has one.",
        ['http:', 'https:'],
      ),
    ),
    OIDC_ALGORITHMS: list('Signature algorithms that are accepted. Empty: RS256 and ES256.', {
      item: (name) => ALGORITHMS.has(name),
      rule: `must be a list of ${[...ALGORITHMS].join(', ')}`,
    }),
    OIDC_TOKEN_TYPES: list(
      'Accepted values of `typ`; a token without one counts as jwt. Empty: at+jwt and jwt.',
      {
        item: (type) => /^[a-z0-9+.-]+$/.test(type),
        rule: 'must be a list of media types in lower case',
      },
    ),
    PLATFORM_ADMINS: list(
      'Subjects of the issuer that act for the platform: suspend, resume, delete and see all tenants.',
    ),
    SELF_SERVE_TENANTS: flag('Whether any signed-in user may create a tenant.', false),
    SELF_SERVE_TENANTS_MAX: whole('Maximum tenants a user who is not a platform admin may create.', {
      min: 1,
      max: 10_000,
      default: 10,
    }),
  },
  build: (e) => ({
    pepper: e.KEY_PEPPER,
    oidc: {
      issuer: e.OIDC_ISSUER,
      audience: e.OIDC_AUDIENCE,
      jwksUrl: e.OIDC_JWKS_URL,
      algorithms: e.OIDC_ALGORITHMS.length === 0 ? ['RS256', 'ES256'] : e.OIDC_ALGORITHMS,
      tokenTypes: e.OIDC_TOKEN_TYPES.length === 0 ? ['at+jwt', 'jwt'] : e.OIDC_TOKEN_TYPES,
    },
    platformAdmins: e.PLATFORM_ADMINS,
    selfServeTenants: e.SELF_SERVE_TENANTS,
    tenantsPerUserMax: e.SELF_SERVE_TENANTS_MAX,
  }),
});

export const apiEnvironment = {
  runtime: runtimeEnv,
  http: httpEnv,
  access: accessEnv,
  receipts: receiptsEnv,
  webhooks: webhooksEnv,
  postgres: postgresEnv,
  reads: readsEnv,
  changes: changesEnv,
  nats: natsEnv,
  keyring: keyringEnv,
  observability: observabilityEnv,
  tenantMetrics: tenantMetricsEnv,
};

export type ApiConfig = ConfigOf<typeof apiEnvironment>;

/** @throws ConfigurationError naming all faults together. */
export function apiConfig(env: NodeJS.ProcessEnv): ApiConfig {
  return parseEnvironment(apiEnvironment, env);
}
