import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { Notice } from '#core/domain/tenant/notice.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { createAuditTrail } from '#core/platform/telemetry/audit-trail.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { createApiMetrics, type ApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import type { WakePublication } from '#core/platform/nats/nats-types.ts';
import { buildApi, type ApiSettings } from '../../services/api/build-api.ts';
import { DEFAULT_HTTP_LIMITS } from '../../services/api/http/admission/http-limits.ts';
import { startOidcIssuer, type OidcIssuer } from './oidc-issuer.ts';
import { seedAccount, seedTenant } from './seed.ts';
import { testDatabase, type TestDatabase } from './servers.ts';
import { serviceKeyMaker, type KeyOptions, type TestKey } from './service-keys.ts';

export const AUDIENCE = 'despatch';
/** Root of the api's keys. */
export const PEPPER = secret('a pepper of the tests that is long enough');
/** Root of the tokens in receipt URLs. */
export const RECEIPT_PEPPER = secret('a pepper of receipt URLs that is long enough');
/** Subject of the only platform admin. */
export const PLATFORM_SUBJECT = 'platform';

export type Reply = {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies are what a test expects them to be
  readonly body: any;
  readonly text: string;
  readonly headers: Readonly<Record<string, unknown>>;
};

export type ApiTenant = { readonly tenantId: string; readonly slug: string; readonly key: TestKey };

export type Instance = {
  readonly app: FastifyInstance;
  readonly metrics: ApiMetrics;
  /** Every wake-up that the api published. */
  readonly wakes: WakePublication[];
  /** Change notices that the api sent. */
  readonly notices: { readonly kind: string; readonly notice: Notice }[];
  /** Delivers a change notice as if another process had sent it. */
  readonly notice: (kind: string, payload: object) => void;
  readonly endConnections: () => void;
  readonly stop: () => Promise<void>;
};

export type TestApi = AsyncDisposable & {
  readonly database: TestDatabase;
  /** A connection of the superuser. */
  readonly admin: Sql;
  readonly issuer: OidcIssuer;
  readonly first: Instance;
  readonly logLines: string[];
  /** Starts another api on the same database, with its own pool, caches and batcher. */
  readonly instance: (options?: Pick<TestApiOptions, 'natsIsConnected' | 'settings'>) => Promise<Instance>;
  readonly tenant: (limits?: Partial<Limits>, options?: { accounts?: boolean }) => Promise<ApiTenant>;
  readonly key: (tenantId: string, options?: KeyOptions) => Promise<TestKey>;
  readonly member: (tenant: ApiTenant, role: Role) => Promise<{ token: string; userId: string }>;
  readonly token: (subject: string) => Promise<string>;
  /** Deletes each content that is stored apart during `work` before its message comes, as after a long pause of the api. */
  readonly withoutUnsettled: <T>(work: () => Promise<T>) => Promise<T>;
};

const CHANNELS = ['sms', 'email', 'push', 'whatsapp'] as const;

export type TestApiOptions = {
  /** Default: a keyring that does not encrypt. */
  readonly keyring?: KeyEncrypter;
  readonly natsIsConnected?: boolean;
  readonly settings?: Partial<ApiSettings>;
};

const NO_KEYRING: KeyEncrypter = {
  encrypt: () => Promise.resolve('test:ciphertext'),
  ensureKey: () => Promise.resolve(),
};

/** Starts the complete api on a real Postgres with its own role, and a real issuer. Wake-ups and notices stay in memory. */
export async function startTestApi({
  keyring = NO_KEYRING,
  natsIsConnected = true,
  settings = {},
}: TestApiOptions = {}): Promise<TestApi> {
  const stack = new AsyncDisposableStack();
  const database = stack.use(await testDatabase());
  const issuer = stack.use(await startOidcIssuer());
  const admin = database.open('admin', 2);
  const logLines: string[] = [];
  const log = createLogger({
    level: 'debug',
    component: 'api',
    destination: { write: (line) => void logLines.push(line) },
  });

  const instance: TestApi['instance'] = async (own = {}) => {
    const isConnected = own.natsIsConnected ?? natsIsConnected;
    const sql = database.open('api');
    const wakes: WakePublication[] = [];
    const notices: Instance['notices'] = [];
    const handlers: ((kind: string, payload: string) => void)[] = [];
    const metrics = createApiMetrics();
    const api = await buildApi({
      sql,
      reads: { sql, connectionsMax: 4, timeoutMs: 4_000 },
      changes: { sql, connectionsMax: 5 },
      metrics,
      log,
      audit: createAuditTrail(log),
      keyring,
      nats: {
        isConnected: () => isConnected,
        publishWakes: (publications) => {
          wakes.push(...publications);
          return Promise.resolve({ failed: [] });
        },
        publishNotice: (kind, payload) => void notices.push({ kind, notice: JSON.parse(payload) as Notice }),
        onNotice: (_kind, handler) => {
          handlers.push(handler);
          return () => {};
        },
      },
      settings: {
        pepper: PEPPER,
        receiptPepper: RECEIPT_PEPPER,
        oidc: {
          issuer: issuer.issuer,
          audience: AUDIENCE,
          algorithms: ['ES256'],
          tokenTypes: ['at+jwt', 'jwt'],
        },
        platformAdmins: [PLATFORM_SUBJECT],
        selfServeTenants: true,
        tenantsPerUserMax: 1_000,
        webhooks: { allowCidrs: [], allowHttp: false, ports: [443] },
        publicBaseUrl: 'http://localhost:8080',
        trustProxy: false,
        // Other tests that keep the machine busy must not make this process refuse requests for overload.
        httpLimits: { ...DEFAULT_HTTP_LIMITS, loopDelayMaxMs: 0 },
        ...settings,
        ...own.settings,
      },
    });
    stack.defer(api.stop);
    return {
      app: api.app,
      metrics,
      wakes,
      notices,
      notice: (kind, payload) => {
        for (const handler of handlers) handler(kind, JSON.stringify(payload));
      },
      endConnections: api.endConnections,
      stop: api.stop,
    };
  };

  const key = serviceKeyMaker(admin, PEPPER);

  const token: TestApi['token'] = (subject) => issuer.mint({ sub: subject, audience: AUDIENCE });

  const first = await instance();
  return {
    database,
    admin,
    issuer,
    first,
    logLines,
    instance,
    key,
    token,
    async tenant(limits = {}, { accounts = true } = {}) {
      const { tenantId, slug } = await seedTenant(admin, { adminRequestsPerMinute: 10_000, ...limits });
      if (accounts) for (const channel of CHANNELS) await seedAccount(admin, tenantId, { channel });
      return { tenantId, slug, key: await key(tenantId) };
    },
    async member(tenant, role) {
      const subject = randomUUID();
      const [user] = await admin<{ id: string }[]>`
        insert into users (issuer, subject) values (${issuer.issuer}, ${subject}) returning id`;
      const userId = user?.id ?? '';
      await admin`insert into members (tenant_id, user_id, role) values (${tenant.tenantId}, ${userId}, ${role})`;
      return { token: await token(subject), userId };
    },
    async withoutUnsettled(work) {
      await admin.unsafe(`create function despatch.settle_at_once() returns trigger language plpgsql as
        $$ begin
          delete from message_contents where message_seq = new.message_seq;
          delete from unsettled_contents where message_seq = new.message_seq;
          return null;
        end $$;
        create constraint trigger settle_at_once after insert on despatch.unsettled_contents
          deferrable initially deferred for each row execute function despatch.settle_at_once()`);
      try {
        return await work();
      } finally {
        await admin.unsafe('drop function despatch.settle_at_once() cascade');
      }
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Sends one request; a string body is sent unchanged. */
export async function request(
  { app }: Pick<Instance, 'app'>,
  method: string,
  url: string,
  options: { headers?: Record<string, string>; body?: unknown } = {},
): Promise<Reply> {
  const { headers = {}, body } = options;
  const reply = await app.inject({
    method: method as 'GET',
    url,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined
      ? {}
      : { payload: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body) }),
  });
  const isLines = reply.headers['content-type'] === 'application/x-ndjson';
  return {
    status: reply.statusCode,
    headers: reply.headers,
    body: reply.payload === '' || isLines ? null : (JSON.parse(reply.payload) as unknown),
    text: reply.payload,
  };
}

/** Sends `POST /v1/messages` with a key. */
export function send(
  instance: Pick<Instance, 'app'>,
  key: TestKey,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Reply> {
  return request(instance, 'POST', '/v1/messages', {
    body,
    headers: { 'x-service-key': key.text, ...headers },
  });
}

export function get(
  instance: Pick<Instance, 'app'>,
  url: string,
  credential: TestKey | { readonly token: string; readonly slug: string },
): Promise<Reply> {
  const headers: Record<string, string> =
    'text' in credential
      ? { 'x-service-key': credential.text }
      : { authorization: `Bearer ${credential.token}`, 'x-tenant-slug': credential.slug };
  return request(instance, 'GET', url, { headers });
}

/** The minimal message of each channel. */
export const LEAST = {
  sms: { channel: 'sms', to: '+15550000001', body: 'Hello' },
  email: { channel: 'email', to: 'ann@example.org', from: 'Acme <hello@example.com>', subject: 'Hello' },
  push: { channel: 'push', to: 'token-1', title: 'Hello' },
  whatsapp: { channel: 'whatsapp', to: '+15550000001', body: 'Hello' },
} as const;
