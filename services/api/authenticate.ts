import { AppError, notFound } from '#core/domain/app-error.ts';
import type { UserId } from '#core/domain/ids.ts';
import { includesRole, type Role, type Scope } from '#core/domain/role.ts';
import { SLUG } from '#core/domain/slug.ts';
import type {
  CallerFacts,
  DirectoryStore,
  Identity,
  Membership,
  RateVerdict,
} from '#core/store/directory.ts';
import type { Admitted, Authenticate, Credentials, KeyCaller, RouteAuth, User, UserCaller } from './auth.ts';
import type { VerifyToken } from './bearer.ts';
import { createFreshCache } from './fresh-cache.ts';
import type { Notice, NoticeKind } from './notices.ts';
import type { ServiceKeys } from './service-keys.ts';

export type AuthenticateDeps = {
  readonly directory: Pick<DirectoryStore, 'signIn' | 'membership' | 'takeRate'>;
  readonly serviceKeys: ServiceKeys;
  readonly verifyToken: VerifyToken;
  /** Subjects of the issuer that act for the platform. */
  readonly platformAdmins: ReadonlySet<string>;
};

export type Authentication = {
  readonly authenticate: Authenticate;
  /** Drops the copies that a change makes stale. */
  readonly onNotice: (kind: NoticeKind, notice: Notice) => void;
};

/** Calls without a tenant, per user and minute. */
const USER_REQUESTS_PER_MINUTE = 60;
const ENTRIES_MAX = 20_000;

/** Answers who calls and whether they may: key or token, tenant, limit, suspension, scope or role, in this order. */
export function createAuthentication(deps: AuthenticateDeps): Authentication {
  const { directory, serviceKeys, verifyToken, platformAdmins } = deps;
  const signedIn = createFreshCache<{ readonly id: UserId }>(ENTRIES_MAX);
  const members = createFreshCache<{ readonly found: Membership | null }>(ENTRIES_MAX);

  function byKey(text: string, scope: Scope): Admitted | Promise<Admitted> {
    const facts = serviceKeys.verify(text);
    return facts instanceof Promise ? facts.then((known) => admitKey(known, scope)) : admitKey(facts, scope);
  }

  function admitKey({ key, tenant, senders }: CallerFacts, scope: Scope): Admitted {
    if (tenant.status !== 'active') throw new AppError('tenant_suspended');
    if (!key.scopes.includes(scope)) {
      throw new AppError('insufficient_scope', { message: `Scope '${scope}' is required` });
    }
    const { id, mode, scopes, rateLimitRpm } = key;
    const caller: KeyCaller = { kind: 'key', tenant, senders, key: { id, mode, scopes, rateLimitRpm } };
    return { caller };
  }

  async function userOf(authorization: string | undefined): Promise<UserCaller> {
    const token = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization ?? '')?.[1];
    const identity = token === undefined ? null : await verifyToken(token);
    if (identity === null)
      throw new AppError('unauthenticated', { headers: { 'www-authenticate': 'Bearer' } });
    const { id } = await signedIn.get(JSON.stringify(identity), async () => ({
      id: await directory.signIn(identity),
    }));
    return {
      kind: 'user',
      user: toUser(id, identity),
      isPlatformAdmin: platformAdmins.has(identity.subject),
    };
  }

  async function take(subject: string, limit: number): Promise<RateVerdict & { limit: number }> {
    return { ...(await directory.takeRate(subject, limit)), limit };
  }

  async function byUser(credentials: Credentials): Promise<Admitted> {
    const caller = await userOf(credentials.authorization);
    return { caller, rate: await take(caller.user.id, USER_REQUESTS_PER_MINUTE) };
  }

  /** Looking for tenants by their slugs counts as a call of the user's own. */
  async function byStranger(caller: UserCaller): Promise<Admitted> {
    const rate = await take(caller.user.id, USER_REQUESTS_PER_MINUTE);
    if (rate.passed) throw notFound();
    return { caller, rate };
  }

  async function byMember(credentials: Credentials, role: Role): Promise<Admitted> {
    const caller = await userOf(credentials.authorization);
    const { user, isPlatformAdmin } = caller;
    const slug = credentials.tenantSlug?.trim();
    if (slug === undefined || slug === '') throw new AppError('tenant_required');
    if (!SLUG.test(slug)) return byStranger(caller);
    const { found } = await members.get(`${user.id} ${slug}`, async () => ({
      found: await directory.membership(user.id, slug),
    }));
    if (found === null) return byStranger(caller);
    const { tenant } = found;
    const rate = await take(tenant.id, tenant.limits.adminRequestsPerMinute);
    if (rate.passed) {
      if (credentials.isWrite && tenant.status !== 'active') throw new AppError('tenant_suspended');
      if (!includesRole(found.role, role)) {
        throw new AppError('insufficient_role', { message: `Role '${role}' is required` });
      }
    }
    return { caller: { kind: 'member', user, isPlatformAdmin, tenant, role: found.role }, rate };
  }

  return {
    authenticate(auth: RouteAuth, credentials: Credentials): Admitted | Promise<Admitted> {
      const { serviceKey } = credentials;
      switch (auth.kind) {
        case 'none':
          return { caller: null };
        case 'key':
          return byKey(serviceKey ?? '', auth.scope);
        case 'user':
          return byUser(credentials);
        case 'bearer':
          return byMember(credentials, auth.role);
        case 'either':
          return serviceKey === undefined ? byMember(credentials, auth.role) : byKey(serviceKey, auth.scope);
      }
    },
    onNotice(kind, { tenantId, id }) {
      serviceKeys.drop(tenantId, kind === 'key' ? id : undefined);
      if (kind !== 'tenant') return;
      members.clear();
      // A new invitation is taken up by the next call of whom it names.
      signedIn.clear();
    },
  };
}

function toUser(id: UserId, { issuer, subject, email, name }: Identity): User {
  return { id, issuer, subject, email, name };
}
