import { AppError, unauthenticated } from '#core/domain/app-error.ts';
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
  /** The limit that a sender is to be told of before anything is done for it; undefined where it is heard. */
  readonly holdSender: (caller: KeyCaller) => Admitted['rate'];
};

export type Authentication = {
  readonly authenticate: Authenticate;
  /** Drops the copies that a change makes stale. */
  readonly onNotice: (kind: NoticeKind, notice: Notice) => void;
};

/** Calls without a tenant, per user and minute. */
const USER_REQUESTS_PER_MINUTE = 60;
const ENTRIES_MAX = 20_000;

const NO_KEY = 'header X-Service-Key is required';
const NOT_BY_TOKEN = 'header X-Service-Key with an API key is required; this endpoint takes no bearer token';
const NO_TOKEN = 'header Authorization with a bearer token is required';
const NOT_BY_KEY = `${NO_TOKEN}; this endpoint takes no API key`;
const BAD_TOKEN = 'the bearer token is not valid, or no longer';
/** The same for one that is there and not the user's. */
const NO_SUCH_TENANT = 'Resource not found: X-Tenant-Slug names no tenant of yours';

/** Answers who calls and whether they may: key or token, tenant, limit, suspension, scope or role, in this order. */
export function createAuthentication(deps: AuthenticateDeps): Authentication {
  const { directory, serviceKeys, verifyToken, platformAdmins, holdSender } = deps;
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
    const rate = scope === 'messages:send' ? holdSender(caller) : undefined;
    return rate === undefined ? { caller } : { caller, rate };
  }

  async function userOf({ authorization, serviceKey }: Credentials): Promise<UserCaller> {
    const challenge = { 'www-authenticate': 'Bearer' };
    if (authorization === undefined)
      throw unauthenticated(serviceKey === undefined ? NO_TOKEN : NOT_BY_KEY, challenge);
    const token = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization)?.[1];
    const identity = token === undefined ? null : await verifyToken(token);
    if (identity === null) throw unauthenticated(BAD_TOKEN, challenge);
    const { id } = await signedIn.get(JSON.stringify(identity), async () => ({
      id: await directory.signIn(identity),
    }));
    return {
      kind: 'user',
      user: toUser(id, identity),
      isPlatformAdmin: platformAdmins.has(identity.subject),
    };
  }

  async function take(subject: string, name: string, limit: number): Promise<Admitted['rate'] & RateVerdict> {
    return { ...(await directory.takeRate(subject, limit)), limit, name };
  }

  function takeOwn({ user }: UserCaller): ReturnType<typeof take> {
    return take(user.id, 'userRequestsPerMinute', USER_REQUESTS_PER_MINUTE);
  }

  async function byUser(credentials: Credentials): Promise<Admitted> {
    const caller = await userOf(credentials);
    return { caller, rate: await takeOwn(caller) };
  }

  /** Looking for tenants by their slugs counts as a call of the user's own. */
  async function byStranger(caller: UserCaller): Promise<Admitted> {
    const rate = await takeOwn(caller);
    if (rate.passed) throw new AppError('not_found', { message: NO_SUCH_TENANT });
    return { caller, rate };
  }

  async function byMember(credentials: Credentials, role: Role): Promise<Admitted> {
    const caller = await userOf(credentials);
    const { user, isPlatformAdmin } = caller;
    const slug = credentials.tenantSlug?.trim();
    if (slug === undefined || slug === '') throw new AppError('tenant_required');
    if (!SLUG.test(slug)) return byStranger(caller);
    const { found } = await members.get(`${user.id} ${slug}`, async () => ({
      found: await directory.membership(user.id, slug),
    }));
    if (found === null) return byStranger(caller);
    const { tenant } = found;
    const rate = await take(tenant.id, 'adminRequestsPerMinute', tenant.limits.adminRequestsPerMinute);
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
          if (serviceKey === undefined) {
            throw unauthenticated(credentials.authorization === undefined ? NO_KEY : NOT_BY_TOKEN);
          }
          return byKey(serviceKey, auth.scope);
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
