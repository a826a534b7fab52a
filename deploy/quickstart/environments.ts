import { loginUrl } from '../servers/login-url.ts';
import { AUDIENCE, PEOPLE } from './people.ts';
import type { Ports } from './ports.ts';
import type { State } from './state.ts';

export type ApiEnvironmentInput = {
  readonly ports: Ports;
  readonly state: State;
  /** Returns the database URL for any role. */
  readonly databaseUrl: string;
  readonly natsUrl: string;
  readonly jwksUrl: string;
  readonly keyring: Readonly<Record<'api' | 'worker', Readonly<Record<string, string>>>>;
};

export type EnvironmentInput = ApiEnvironmentInput & {
  /** Base URL of each vendor's stand-in, by catalog id. */
  readonly providerUrls: Readonly<Record<string, string>>;
  /** PEM file with the certificate of the mail stand-in. */
  readonly mailCertificateFile: string;
};

export type Environment = Readonly<Record<string, string>>;

export function apiEnvironment(input: ApiEnvironmentInput): Environment {
  const { ports, state, jwksUrl } = input;
  return {
    ...serviceEnvironment('api', input),
    HOST: '127.0.0.1',
    PORT: String(ports.api),
    // There is no load balancer that has to notice the shutdown.
    SHUTDOWN_DELAY_MS: '0',
    METRICS_PORT: String(ports.apiMetrics),
    KEY_PEPPER: state.pepper,
    OIDC_ISSUER: state.issuer,
    OIDC_AUDIENCE: AUDIENCE,
    OIDC_JWKS_URL: jwksUrl,
    PLATFORM_ADMINS: PEOPLE.platform.sub,
    SELF_SERVE_TENANTS: 'true',
  };
}

export function workerEnvironment(input: EnvironmentInput): Environment {
  const { ports, providerUrls, mailCertificateFile } = input;
  const overrides = Object.entries(providerUrls).map(([id, origin]) => `${id}=${origin}`);
  return {
    ...serviceEnvironment('worker', input),
    METRICS_PORT: String(ports.workerMetrics),
    PROVIDER_BASE_URLS: overrides.join(','),
    NODE_EXTRA_CA_CERTS: mailCertificateFile,
  };
}

function serviceEnvironment(service: 'api' | 'worker', input: ApiEnvironmentInput): Environment {
  const { ports, state, databaseUrl, natsUrl, keyring } = input;
  return {
    DESPATCH_ENV: 'development',
    PUBLIC_BASE_URL: `http://127.0.0.1:${ports.api}`,
    RECEIPT_PEPPER: state.receiptPepper,
    DATABASE_URL: loginUrl(databaseUrl, `despatch_${service}`, state.databasePasswords[service]),
    NATS_URL: natsUrl,
    NATS_USER: `despatch_${service}`,
    NATS_PASSWORD: state.natsPasswords[service],
    METRICS_HOST: '127.0.0.1',
    // Tenants choose mail servers and event receivers; those of the quick start are on this machine.
    EGRESS_ALLOW_CIDRS: '127.0.0.0/8,::1/128',
    WEBHOOK_ALLOW_HTTP: 'true',
    ...keyring[service],
  };
}
