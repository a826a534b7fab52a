import { AppError, unauthenticated, validationFailed } from '#core/domain/fault/app-error.ts';
import type { AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import { uuidFrom, type UserId } from '#core/domain/storage/ids.ts';
import { notActive } from '#core/domain/tenant/not-active.ts';
import type { Notice, NoticeKind } from '#core/domain/tenant/notice.ts';
import type { Role, Scope } from '#core/domain/tenant/role.ts';
import { SLUG } from '#core/domain/tenant/slug.ts';
import type { CallerFacts, DirectoryStore, Identity, Membership } from '#core/store/tenants/directory.ts';
import { assertRole } from './assert-role.ts';
import type {
  Admitted,
  Authenticate,
  RequestCredentials,
  KeyCaller,
  MemberCaller,
  Readmit,
  RouteAuth,
  User,
  UserCaller,
} from './auth.ts';
import type { VerifyToken } from './bearer.ts';
import { createCallCounter, type RateVerdict } from './call-counter.ts';
import { createFreshCache } from '../caches/fresh-cache.ts';
import { createRateMemory } from '../caches/rate-memory.ts';
import type { ServiceKeys } from './service-keys.ts';

export type AuthenticateDeps = {
  readonly directory: Pick<DirectoryStore, 'signIn' | 'membership' | 'memberships' | 'takeRate'>;
  readonly audit: AuditTrail;
  readonly serviceKeys: ServiceKeys;
  readonly verifyToken: VerifyToken;
  /** Subjects of the issuer that are platform admins. */
  readonly platformAdmins: ReadonlySet<string>;
  /** Returns the limit with which a key's send is refused before any work is done for it; undefined where it is admitted. */
  readonly refusalBeforeWork: (caller: KeyCaller) => Admitted['rate'];
  /** Returns how much a key may send a minute. Its changes of sent messages have a separate limit of the same size. */
  readonly sendLimit: (caller: KeyCaller) => { readonly name: string; readonly value: number };
};

export type Authentication = {
  readonly authenticate: Authenticate;
  readonly readmit: Readmit;
  /** Drops the cached copies that a change makes stale. */
  readonly onNotice: (kind: NoticeKind, notice: Notice) => void;
};

/** Limit of calls without a tenant, per user and minute; the same for every user. */
export const USER_LIMIT = { name: 'userRequestsPerMinute', value: 60 } as const;
const ENTRIES_MAX = 20_000;

type KeyAuth = Extract<RouteAuth, { kind: 'key' | 'either' }>;

const NO_KEY = 'header X-Service-Key is required';
const NOT_BY_TOKEN = 'header X-Service-Key with an API key is required; this endpoint takes no bearer token';
const NEITHER =
  'header X-Service-Key with an API key, or header Authorization with a bearer token, is required';
const NO_TOKEN = 'header Authorization with a bearer token is required';
const NOT_BY_KEY = `${NO_TOKEN}; this endpoint takes no API key`;
const OTHER_FORM = "header Authorization must be given once, in the form 'Bearer <token>'";
const BAD_TOKEN = 'the bearer token is not valid, or no longer';
/** The same message for a tenant that exists but is not the user's. */
const NO_SUCH_TENANT = 'Resource not found: X-Tenant-Slug names no tenant of yours';

/** Creates the authentication. It checks key or token, tenant, limit, suspension, scope or role, in this order. */
export function createAuthentication(deps: AuthenticateDeps): Authentication {
  const { directory, audit, serviceKeys, verifyToken, platformAdmins, refusalBeforeWork, sendLimit } = deps;
  const signedIn = createFreshCache<{ readonly id: UserId }>(ENTRIES_MAX);
  const countCall = createCallCounter(directory);
  const members = createFreshCache<{ readonly found: Membership | null }>(ENTRIES_MAX);
  /** Users who named too many unknown slugs: the next one that is not cached is refused without a query of its own. */
  const guessers = createRateMemory();
  /** The slugs of such users' tenants, which are not refused. */
  const ownSlugs = createFreshCache<ReadonlySet<string>>(ENTRIES_MAX);

  /** Calls `then` at once with the caller of a cached key. */
  function withKey<T>(
    text: string,
    scope: Scope,
    then: (caller: KeyCaller) => T | Promise<T>,
  ): T | Promise<T> {
    const facts = serviceKeys.verify(text);
    return facts instanceof Promise
      ? facts.then(async (known) => then(keyCaller(known, scope)))
      : then(keyCaller(facts, scope));
  }

  function byKey(text: string, auth: KeyAuth): Admitted | Promise<Admitted> {
    return withKey(text, auth.scope, (caller) => countKey(caller, auth));
  }

  function countKey(
    caller: KeyCaller,
    { kind, scope, countsChanges }: KeyAuth,
  ): Admitted | Promise<Admitted> {
    if (countsChanges) {
      const { name, value } = sendLimit(caller);
      // A rate subject of its own, so that changes do not count as sends.
      return take(uuidFrom(`changes by ${caller.key.id}`), name, value).then((rate) => ({ caller, rate }));
    }
    // The limit is for sends, not for changes of what was sent.
    const rate = kind === 'key' && scope === 'messages:send' ? refusalBeforeWork(caller) : undefined;
    return rate === undefined ? { caller } : { caller, rate };
  }

  async function userOf({ authorization, serviceKey }: RequestCredentials): Promise<UserCaller> {
    if (authorization === undefined) throw unauthenticated(serviceKey === undefined ? NO_TOKEN : NOT_BY_KEY);
    const token = /^Bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization)?.[1];
    if (token === undefined) throw unauthenticated(OTHER_FORM);
    const identity = await verifyToken(token);
    if (identity === null) throw unauthenticated(BAD_TOKEN);
    const { id } = await signedIn.get(JSON.stringify(identity), async () => {
      const user = await directory.signIn(identity);
      user.entries.forEach(audit);
      return { id: user.id };
    });
    return {
      kind: 'user',
      user: toUser(id, identity),
      isPlatformAdmin: platformAdmins.has(identity.subject),
    };
  }

  async function take(subject: string, name: string, limit: number): Promise<Admitted['rate'] & RateVerdict> {
    return { ...(await countCall(subject, limit)), limit, name };
  }

  function takeOwn({ user }: UserCaller): ReturnType<typeof take> {
    return take(user.id, USER_LIMIT.name, USER_LIMIT.value);
  }

  async function byUser(credentials: RequestCredentials): Promise<Admitted> {
    const caller = await userOf(credentials);
    return { caller, rate: await takeOwn(caller) };
  }

  /** A call with an unknown slug counts towards the user's own limit, which bounds guessing of slugs. */
  async function byStranger(caller: UserCaller): Promise<Admitted> {
    const rate = await takeOwn(caller);
    if (rate.passed) throw new AppError('not_found', { message: NO_SUCH_TENANT });
    guessers.refused(caller.user.id, rate.limit, rate.retryAfter);
    return { caller, rate };
  }

  /** Returns the member that the credentials name; undefined where the slug names none of the user's tenants. */
  async function memberOf(caller: UserCaller, slug: string): Promise<MemberCaller | undefined> {
    const { user, isPlatformAdmin } = caller;
    const { found } = await members.get(memberKey(user, slug), async () => ({
      found: await directory.membership(user.id, slug),
    }));
    if (found === null) return undefined;
    return { kind: 'member', user, isPlatformAdmin, tenant: found.tenant, role: found.role };
  }

  async function ownsSlug(id: UserId, slug: string): Promise<boolean> {
    const slugs = await ownSlugs.get(id, async () => {
      const memberships = await directory.memberships(id);
      return new Set(memberships.map(({ tenant }) => tenant.slug));
    });
    return slugs.has(slug);
  }

  async function byMember(credentials: RequestCredentials, role: Role): Promise<Admitted> {
    const user = await userOf(credentials);
    const slug = slugOf(credentials);
    if (!SLUG.test(slug)) return byStranger(user);
    if (members.peek(memberKey(user.user, slug)) === undefined) {
      const refused = guessers.retryAfter(user.user.id, USER_LIMIT.value);
      if (refused !== undefined && !(await ownsSlug(user.user.id, slug)))
        return { caller: user, rate: refusedOwn(refused) };
    }
    const caller = await memberOf(user, slug);
    if (caller === undefined) return byStranger(user);
    const { tenant } = caller;
    const rate = await take(tenant.id, 'adminRequestsPerMinute', tenant.limits.adminRequestsPerMinute);
    if (rate.passed) assertMay(caller, role, credentials);
    return { caller, rate };
  }

  async function againByMember(
    known: MemberCaller,
    role: Role,
    credentials: RequestCredentials,
  ): Promise<MemberCaller> {
    const caller = await memberOf({ ...known, kind: 'user' }, known.tenant.slug);
    if (caller === undefined) throw new AppError('not_found', { message: NO_SUCH_TENANT });
    assertMay(caller, role, credentials);
    return caller;
  }

  return {
    authenticate(auth: RouteAuth, credentials: RequestCredentials): Admitted | Promise<Admitted> {
      const { serviceKey } = credentials;
      switch (auth.kind) {
        case 'none':
          return { caller: null };
        case 'key':
          if (serviceKey === undefined) {
            throw unauthenticated(credentials.authorization === undefined ? NO_KEY : NOT_BY_TOKEN);
          }
          return byKey(serviceKey, auth);
        case 'user':
          return byUser(credentials);
        case 'bearer':
          return byMember(credentials, auth.role);
        case 'either':
          if (serviceKey !== undefined) return byKey(serviceKey, auth);
          if (credentials.authorization === undefined) throw unauthenticated(NEITHER);
          return byMember(credentials, auth.role);
      }
    },
    readmit(caller, auth, credentials) {
      if (caller.kind === 'member' && 'role' in auth) return againByMember(caller, auth.role, credentials);
      if (caller.kind === 'key' && 'scope' in auth) {
        return withKey(credentials.serviceKey ?? '', auth.scope, (known) => known);
      }
      return caller;
    },
    onNotice(kind, { tenantId, id }) {
      if (kind === 'endpoint' || kind === 'webhook_key' || kind === 'clock') return;
      serviceKeys.drop(tenantId, kind === 'key' ? id : undefined);
      if (kind !== 'tenant') return;
      members.clear();
      ownSlugs.clear();
      // The invited person's next call accepts a new invitation; a cached sign-in would skip that.
      signedIn.clear();
    },
  };
}

/** @throws AppError `tenant_suspended`, `insufficient_scope` */
function keyCaller({ key, tenant, sendingAccounts, routes }: CallerFacts, scope: Scope): KeyCaller {
  if (tenant.status !== 'active') throw notActive(tenant.status);
  if (!key.scopes.includes(scope)) {
    throw new AppError('insufficient_scope', { message: `Scope '${scope}' is required` });
  }
  const { id, mode, scopes, rateLimitRpm } = key;
  return { kind: 'key', tenant, sendingAccounts, routes, key: { id, mode, scopes, rateLimitRpm } };
}

/** @throws AppError `tenant_suspended`, `insufficient_role` */
function assertMay({ tenant, role: held }: MemberCaller, role: Role, { isWrite }: RequestCredentials): void {
  if (isWrite && tenant.status !== 'active') throw notActive(tenant.status);
  assertRole(held, role);
}

/** @throws AppError `tenant_required`, `validation_failed` */
function slugOf({ tenantSlug }: RequestCredentials): string {
  const slug = tenantSlug?.trim();
  if (slug === undefined || slug === '') throw new AppError('tenant_required');
  if (slug.includes(','))
    throw validationFailed({ field: 'X-Tenant-Slug', rule: 'single', message: 'Must be given once' });
  return slug;
}

function memberKey({ id }: User, slug: string): string {
  return `${id} ${slug}`;
}

function refusedOwn(retryAfter: number): NonNullable<Admitted['rate']> {
  return { name: USER_LIMIT.name, limit: USER_LIMIT.value, passed: false, remaining: 0, retryAfter };
}

function toUser(id: UserId, { issuer, subject, email, name }: Identity): User {
  return { id, issuer, subject, email, name };
}
