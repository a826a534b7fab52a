import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { describe, expect, inject, test } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import { formatServiceKey, newKeyId } from '#core/domain/tenant/service-key.ts';
import { assertPeppers } from '#core/store/schema/assert-peppers.ts';
import { freePort } from '../../../deploy/servers/ports.ts';
import { call } from '#test/support/http-call.ts';
import { testDatabase, testNats } from '#test/support/servers.ts';
import { runService, startServiceProcess, type Environment } from '#test/support/service-process.ts';

const CANARY = 'canary0secret';

/** Each variable with an invalid value; empty where every value is valid. */
const FAULTS: Readonly<Record<'api' | 'worker' | 'migrate', Environment>> = {
  api: {
    DATABASE_URL: `mysql://someone:${CANARY}@localhost/despatch`,
    DATABASE_POOL_MAX: '0',
    NATS_URL: '',
    PORT: '99999',
    PUBLIC_BASE_URL: 'not a url',
    KEY_PEPPER: CANARY,
    RECEIPT_PEPPER: CANARY,
    OIDC_ISSUER: '',
    OIDC_AUDIENCE: '',
    OIDC_ALGORITHMS: 'HS256',
    SELF_SERVE_TENANTS: 'perhaps',
    TRUST_PROXY_CIDRS: '10.0.0.0/99',
    LOG_LEVEL: 'loud',
    OTEL_TRACES_SAMPLE_RATIO: '2',
  },
  worker: {
    DATABASE_URL: '',
    NATS_URL: `https://someone:${CANARY}@localhost`,
    NATS_PREFIX: 'Not A Label',
    VAULT_AUTH_METHOD: 'password',
    IN_FLIGHT_MAX: '0',
    PROVIDER_DEADLINE_MS: 'soon',
    EGRESS_ALLOW_CIDRS: 'everywhere',
    PROVIDER_BASE_URLS: 'twilio',
    PUBLIC_BASE_URL: 'ftp://api.example.com',
    RECEIPT_PEPPER: CANARY,
    METRICS_PORT: '-1',
  },
  migrate: {
    DATABASE_URL: `someone:${CANARY}@localhost`,
    DATABASE_CA_FILE: 'relative.pem',
  },
};

/** Variables that are valid on their own but contradict each other. */
const CONTRADICTIONS: Readonly<Record<'api' | 'worker', { environment: Environment; named: string[] }>> = {
  api: {
    environment: {
      DATABASE_URL: `postgres://despatch_api:${CANARY}@localhost/despatch`,
      NATS_URL: 'nats://localhost',
      NATS_PASSWORD: CANARY,
      PUBLIC_BASE_URL: 'http://localhost',
      KEY_PEPPER: CANARY.repeat(4),
      RECEIPT_PEPPER: CANARY.repeat(4),
      OIDC_ISSUER: 'http://localhost',
      OIDC_AUDIENCE: 'despatch',
      KEYRING: 'local',
    },
    named: ['NATS_USER', 'KEYRING', 'LOCAL_KEYRING_DIR'],
  },
  worker: {
    environment: {
      DATABASE_URL: `postgres://despatch_worker:${CANARY}@localhost/despatch`,
      NATS_URL: 'nats://localhost',
      NATS_CERT_FILE: '/certificate.pem',
      VAULT_AUTH_METHOD: 'approle',
      VAULT_SECRET_ID: CANARY,
      RECEIPT_PEPPER: CANARY.repeat(4),
      PROVIDER_DEADLINE_MS: '10000',
      LEASE_MS: '15000',
    },
    named: ['NATS_CERT_FILE', 'VAULT_ADDR', 'VAULT_ROLE_ID', 'LEASE_MS'],
  },
};

describe('an invalid configuration', () => {
  test.for(['api', 'worker', 'migrate'] as const)(
    'stops the %s at start; the output names every faulty variable and no secret',
    async (kind) => {
      const { code, output } = await runService(kind, FAULTS[kind]);
      expect(code).toBe(1);
      expect(Object.keys(FAULTS[kind]).filter((name) => !output.includes(name))).toEqual([]);
      expect(output).not.toContain(CANARY);
    },
  );

  test.for(['api', 'worker'] as const)(
    'with contradictory variables stops the %s and names them',
    async (kind) => {
      const { environment, named } = CONTRADICTIONS[kind];
      const { code, output } = await runService(kind, environment);
      expect(code).toBe(1);
      expect(named.filter((name) => !output.includes(name))).toEqual([]);
      expect(output).not.toContain(CANARY);
    },
  );
});

type Database = { readonly apiUrl: string; readonly workerUrl: string };

const [KEY_PEPPER, RECEIPT_PEPPER] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')];

const freeOrigin = async (): Promise<string> => `http://127.0.0.1:${await freePort()}`;

/** Without Vault and tenants, which a start does not need. */
function environmentFor(url: string, folder: string, origin: string, metricsOrigin: string): Environment {
  const nats = testNats();
  return {
    DESPATCH_ENV: 'development',
    DATABASE_URL: url,
    NATS_URL: nats.url,
    NATS_PREFIX: nats.prefix,
    KEYRING: 'local',
    LOCAL_KEYRING_DIR: join(folder, 'keyring'),
    METRICS_HOST: '127.0.0.1',
    METRICS_PORT: new URL(metricsOrigin).port,
    HOST: '127.0.0.1',
    PORT: new URL(origin).port,
    SHUTDOWN_DELAY_MS: '0',
    PUBLIC_BASE_URL: origin,
    KEY_PEPPER,
    RECEIPT_PEPPER,
    OIDC_ISSUER: 'http://127.0.0.1:9',
    OIDC_AUDIENCE: 'despatch',
  };
}

/** Starts both services on a database that is not ready. */
async function startUnready({ apiUrl, workerUrl }: Database) {
  await using stack = new AsyncDisposableStack();
  const folder = stack.adopt(await mkdtemp(join(tmpdir(), 'despatch-start-')), remove);
  const start = async (kind: 'api' | 'worker', url: string) => {
    const metricsOrigin = await freeOrigin();
    const origin = kind === 'api' ? await freeOrigin() : metricsOrigin;
    const environment = environmentFor(url, folder, origin, metricsOrigin);
    return startServiceProcess({ kind, name: kind, folder, metricsOrigin, origin, until: 503, environment });
  };
  const [api, worker] = await Promise.all([start('api', apiUrl), start('worker', workerUrl)]);
  stack.use(api);
  stack.use(worker);
  const owned = stack.move();
  return { api, worker, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const remove = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true });

const SOON = { interval: 50 };
const READY = { status: 200, failing: [] };

describe('a service without its schema', () => {
  test('is not ready on an older schema, and becomes ready once the schema is up to date', async () => {
    await using database = await testDatabase();
    const admin = postgres(database.superuserUrl, { max: 1, onnotice: () => {} });
    const [last] = await admin<{ version: number; name: string }[]>`
      delete from despatch.migrations where version = (select max(version) from despatch.migrations)
      returning version, name`;
    await using services = await startUnready(database);
    const { api, worker } = services;
    const old = { status: 503, failing: ['schema'] };
    expect(await Promise.all([api.readiness(), worker.readiness()])).toEqual([old, old]);

    await admin`insert into despatch.migrations ${admin(last ?? {})}`;
    await admin.end();
    await expect.poll(() => Promise.all([api.readiness(), worker.readiness()]), SOON).toEqual([READY, READY]);
  });

  test('cannot create it on an empty database, and is ready only after the migration', async () => {
    await using database = await emptyDatabase();
    await using services = await startUnready(database);
    const { api, worker } = services;
    const key = formatServiceKey({ mode: 'live', keyId: newKeyId(), secret: 'a'.repeat(43) });
    const message = { channel: 'sms', to: '+14155550100', body: 'Hello' };
    const answer = await call(api.origin, 'POST', '/v1/messages', { key, body: message });
    expect(answer.status).toBeGreaterThanOrEqual(500);
    const admin = postgres(database.superuserUrl, { max: 1, onnotice: () => {} });
    expect(await admin`select from pg_namespace where nspname = 'despatch'`).toHaveLength(0);
    await admin.end();
    const asApi = postgres(database.apiUrl, { max: 1, onnotice: () => {} });
    await expect(asApi`create schema despatch`).rejects.toThrow('permission denied');
    await expect(asApi`create table mine (id int)`).rejects.toThrow('permission denied');
    await asApi.end();

    const { code } = await runService('migrate', { DATABASE_URL: database.superuserUrl });
    expect(code).toBe(0);
    await expect.poll(() => Promise.all([api.readiness(), worker.readiness()]), SOON).toEqual([READY, READY]);
  });
});

test.for(['api', 'worker'] as const)(
  'with another pepper than the database is used with, the %s ends at start and says so',
  async (kind) => {
    await using database = await testDatabase();
    await using stack = new AsyncDisposableStack();
    const folder = stack.adopt(await mkdtemp(join(tmpdir(), 'despatch-start-')), remove);
    const first = { key: secret(RECEIPT_PEPPER), receipt: secret(KEY_PEPPER) };
    expect(await assertPeppers(database.open('api'), first)).toBe(true);
    const url = kind === 'api' ? database.apiUrl : database.workerUrl;
    const environment = environmentFor(url, folder, await freeOrigin(), await freeOrigin());
    const { code, output } = await runService(kind, environment);
    expect(code).toBe(1);
    const named = kind === 'api' ? 'key, receipt' : 'receipt';
    expect(output).toContain(`Not the pepper that this database is used with: ${named}`);
    for (const pepper of [KEY_PEPPER, RECEIPT_PEPPER]) expect(output).not.toContain(pepper);
  },
);

async function emptyDatabase(): Promise<Database & AsyncDisposable & { readonly superuserUrl: string }> {
  const { superuserUrl, passwords } = inject('postgres');
  const name = `empty_${randomBytes(8).toString('hex')}`;
  const admin = postgres(superuserUrl, { max: 1, onnotice: () => {} });
  await admin`create database ${admin(name)}`;
  const urlOf = (user?: 'api' | 'worker'): string => {
    const url = new URL(superuserUrl);
    url.pathname = name;
    if (user !== undefined) [url.username, url.password] = [`despatch_${user}`, passwords[user]];
    return url.href;
  };
  return {
    superuserUrl: urlOf(),
    apiUrl: urlOf('api'),
    workerUrl: urlOf('worker'),
    async [Symbol.asyncDispose]() {
      await admin`drop database if exists ${admin(name)} with (force)`;
      await admin.end();
    },
  };
}
