import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import { ROLES, type Role } from '#core/domain/tenant/role.ts';
import type { Keyring } from '#core/platform/vault/keyring.ts';
import { openLocalKeyring } from '#core/platform/vault/local-keyring.ts';
import {
  AUDIENCE,
  PLATFORM_SUBJECT,
  request,
  startTestApi,
  type Instance,
  type Reply,
  type TestApi,
} from './api.ts';
import type { ApiSettings } from '../../services/api/build-api.ts';
import { seedTenant } from './seed.ts';

/** A user who can sign in. */
export type Person = {
  readonly userId: string;
  readonly subject: string;
  readonly email: string;
  readonly token: string;
};

export type TestTenant = {
  readonly id: TenantId;
  readonly slug: string;
  readonly members: Readonly<Record<Role, Person>>;
};

export type CallOptions = {
  /** The user whose token is sent; absent: no token. */
  readonly as?: Person | undefined;
  readonly slug?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
};

export type AdminApi = AsyncDisposable &
  Pick<TestApi, 'database' | 'admin' | 'issuer' | 'logLines'> &
  Pick<Instance, 'app' | 'notice' | 'notices'> & {
    readonly keyring: Keyring;
    readonly keyringDir: string;
    readonly platformAdmin: Person;
    readonly person: (options?: {
      email?: string;
      emailVerified?: boolean;
      subject?: string;
    }) => Promise<Person>;
    /** Creates a tenant with a member of each role and, by default, high limits for admin calls. */
    readonly tenant: (limits?: Partial<Limits>) => Promise<TestTenant>;
    readonly call: (method: string, url: string, options?: CallOptions) => Promise<Reply>;
    /** Calls the API as a member of a tenant. */
    readonly callAs: (
      role: Role,
      tenant: TestTenant,
      method: string,
      url: string,
      body?: unknown,
      key?: string,
    ) => Promise<Reply>;
  };

export type AdminApiOptions = Partial<
  Pick<ApiSettings, 'selfServeTenants' | 'tenantsPerUserMax' | 'downloadLimits'>
>;

/** Starts the complete api on a real Postgres with the api's own role, a real issuer and the local keyring. */
export async function startAdminApi({
  selfServeTenants = true,
  tenantsPerUserMax = 1_000,
  downloadLimits,
}: AdminApiOptions = {}): Promise<AdminApi> {
  const stack = new AsyncDisposableStack();
  const keyringDir = await mkdtemp(join(tmpdir(), 'despatch-keyring-'));
  stack.defer(() => rm(keyringDir, { recursive: true, force: true }));
  const keyring = stack.use(await openLocalKeyring(keyringDir));
  const api = stack.use(
    await startTestApi({
      keyring,
      natsIsConnected: false,
      settings: {
        selfServeTenants,
        tenantsPerUserMax,
        ...(downloadLimits === undefined ? {} : { downloadLimits }),
      },
    }),
  );
  const { database, admin, issuer, logLines } = api;
  const { app, notice, notices } = api.first;

  const person: AdminApi['person'] = async (options = {}) => {
    const { subject = randomUUID() } = options;
    const { email = `${subject}@example.org`, emailVerified = true } = options;
    const token = await issuer.mint({
      sub: subject,
      audience: AUDIENCE,
      email,
      emailVerified,
      name: 'Someone',
    });
    const [user] = await admin<{ id: string }[]>`
      insert into users (issuer, subject, email, name, has_signed_in)
      values (${issuer.issuer}, ${subject}, ${email}, 'Someone', true)
      on conflict (issuer, subject) do update set email = excluded.email returning id`;
    return { userId: user?.id ?? '', subject, email, token };
  };

  const call: AdminApi['call'] = (method, url, { as, slug, body, headers = {} } = {}) =>
    request(api.first, method, url, {
      headers: {
        ...(as === undefined ? {} : { authorization: `Bearer ${as.token}` }),
        ...(slug === undefined ? {} : { 'x-tenant-slug': slug }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });

  const owned = stack.move();
  return {
    app,
    database,
    admin,
    issuer,
    keyring,
    keyringDir,
    notice,
    notices,
    logLines,
    platformAdmin: await person({ subject: PLATFORM_SUBJECT }),
    person,
    async tenant(limits = {}) {
      const { tenantId, slug } = await seedTenant(admin, { adminRequestsPerMinute: 10_000, ...limits });
      await keyring.ensureKey(tenantId as TenantId);
      const members = Object.fromEntries(
        await Promise.all(ROLES.map(async (role) => [role, await person()] as const)),
      ) as Record<Role, Person>;
      for (const role of ROLES) {
        await admin`insert into members (tenant_id, user_id, role, email_known)
          values (${tenantId}, ${members[role].userId}, ${role}, true)`;
      }
      return { id: tenantId as TenantId, slug, members };
    },
    call,
    callAs: (role, tenant, method, url, body, key) =>
      call(method, url, {
        as: tenant.members[role],
        slug: tenant.slug,
        body,
        headers: key === undefined ? {} : { 'idempotency-key': key },
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
