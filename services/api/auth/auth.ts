import type { ApiKeyId, UserId } from '#core/domain/storage/ids.ts';
import type { Role, Scope } from '#core/domain/tenant/role.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { KeyMode } from '#core/domain/tenant/service-key.ts';
import type { TenantFacts } from '#core/store/tenants/directory.ts';
import type { SendingAccount } from '#core/store/accounts/sending-accounts.ts';
import type { RateVerdict } from './call-counter.ts';

/**
 * Who may call a route:
 * - `none`: anyone.
 * - `key`: a service key with the scope.
 * - `bearer`: a member, with at least the role, of the tenant named by `X-Tenant-Slug`. `changesNothing`: a read, whatever its
 *   method.
 * - `user`: any signed-in user, without a tenant.
 * - `either`: a service key with the scope, or such a member.
 */
export type RouteAuth =
  | { readonly kind: 'none' }
  | ({ readonly kind: 'key'; readonly scope: Scope } & KeyCounting)
  | { readonly kind: 'bearer'; readonly role: Role; readonly changesNothing?: true }
  | { readonly kind: 'user' }
  | ({ readonly kind: 'either'; readonly scope: Scope; readonly role: Role } & KeyCounting);

/**
 * `countsChanges`: calls with a key count against a limit of their own, as high as the key's send limit but separate from
 * it. For changes that can be repeated on the same messages; a member's calls always count.
 */
type KeyCounting = { readonly countsChanges?: true };

export type KeyCaller = {
  readonly kind: 'key';
  readonly tenant: TenantFacts;
  /** The accounts that the tenant's messages may be sent through, oldest first. */
  readonly sendingAccounts: readonly SendingAccount[];
  /** The routes that the tenant has set. */
  readonly routes: readonly Route[];
  readonly key: {
    readonly id: ApiKeyId;
    readonly mode: KeyMode;
    readonly scopes: readonly Scope[];
    /** Null: the plan's `sendRequestsPerMinute` applies. */
    readonly rateLimitRpm: number | null;
  };
};

export type User = {
  readonly id: UserId;
  readonly issuer: string;
  readonly subject: string;
  readonly email: string | null;
  readonly name: string | null;
};

/** A signed-in user whose call is not about a tenant. */
export type UserCaller = {
  readonly kind: 'user';
  readonly user: User;
  readonly isPlatformAdmin: boolean;
};

/** A signed-in user whose call is about one of their tenants. */
export type MemberCaller = {
  readonly kind: 'member';
  readonly user: User;
  readonly isPlatformAdmin: boolean;
  readonly tenant: TenantFacts;
  readonly role: Role;
};

export type Caller = KeyCaller | UserCaller | MemberCaller;

export type CallerOf<A extends RouteAuth> = A extends { kind: 'key' }
  ? KeyCaller
  : A extends { kind: 'bearer' }
    ? MemberCaller
    : A extends { kind: 'user' }
      ? UserCaller
      : A extends { kind: 'either' }
        ? KeyCaller | MemberCaller
        : null;

/** The input of authentication. A header that was given several times has all of its values, joined by commas. */
export type RequestCredentials = {
  readonly serviceKey: string | undefined;
  readonly authorization: string | undefined;
  readonly tenantSlug: string | undefined;
  /** False for GET and HEAD, and for routes that change nothing. */
  readonly isWrite: boolean;
};

export type Admitted = {
  readonly caller: Caller | null;
  /** The limit that this call counted against, with its state. */
  readonly rate?: RateVerdict & { readonly limit: number; readonly name: string };
};

/** Returns synchronously for a cached key. @throws AppError with the 400, 401, 403, 404, 429 or 503 to answer. */
export type Authenticate = (auth: RouteAuth, credentials: RequestCredentials) => Admitted | Promise<Admitted>;

/**
 * Checks an admitted caller again, and counts nothing: during a long body a key may be revoked, a role taken away, a tenant
 * suspended. A bearer token that expired meanwhile still counts. Returns the caller as it is now, synchronously for a cached key.
 * @throws AppError as `Authenticate` does.
 */
export type Readmit = (
  caller: Caller,
  auth: RouteAuth,
  credentials: RequestCredentials,
) => Caller | Promise<Caller>;
