import type { ApiKeyId, UserId } from '#core/domain/ids.ts';
import type { Role, Scope } from '#core/domain/role.ts';
import type { Route } from '#core/domain/route.ts';
import type { KeyMode } from '#core/domain/service-key.ts';
import type { RateVerdict, TenantFacts } from '#core/store/directory.ts';
import type { Sender } from '#core/store/messages.ts';

/**
 * Who may call a route:
 * - `none`: anybody.
 * - `key`: a service key with the scope.
 * - `bearer`: a member, with at least the role, of the tenant that `X-Tenant-Slug` names.
 * - `user`: any signed-in user, no tenant.
 * - `either`: a service key with the scope, or such a member.
 */
export type RouteAuth =
  | { readonly kind: 'none' }
  | ({ readonly kind: 'key'; readonly scope: Scope } & KeyCounting)
  | { readonly kind: 'bearer'; readonly role: Role }
  | { readonly kind: 'user' }
  | ({ readonly kind: 'either'; readonly scope: Scope; readonly role: Role } & KeyCounting);

/**
 * `countsChanges`: calls by a key count, as many a minute as the key may send, and apart from its sends. For what can be done to
 * the same messages again and again; a member's calls count in any case.
 */
type KeyCounting = { readonly countsChanges?: true };

export type KeyCaller = {
  readonly kind: 'key';
  readonly tenant: TenantFacts;
  /** The accounts that the tenant's messages could go out through, the oldest first. */
  readonly senders: readonly Sender[];
  /** The routes that it has set. */
  readonly routes: readonly Route[];
  readonly key: {
    readonly id: ApiKeyId;
    readonly mode: KeyMode;
    readonly scopes: readonly Scope[];
    /** Null: the plan's `sendRequestsPerMinute`. */
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

/** A signed-in user who acts on no tenant. */
export type UserCaller = {
  readonly kind: 'user';
  readonly user: User;
  readonly isPlatformAdmin: boolean;
};

/** A signed-in user who acts on one of their tenants. */
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

/** What authentication looks at. Header names in lower case. */
export type Credentials = {
  readonly serviceKey: string | undefined;
  readonly authorization: string | undefined;
  readonly tenantSlug: string | undefined;
  /** False for GET and HEAD. */
  readonly isWrite: boolean;
};

export type Admitted = {
  readonly caller: Caller | null;
  /** The state of the limit that this call counted against, and that limit. */
  readonly rate?: RateVerdict & { readonly limit: number; readonly name: string };
};

/** Answers at once for a warm key. @throws AppError with the 400, 401, 403, 404, 429 or 503 to answer. */
export type Authenticate = (auth: RouteAuth, credentials: Credentials) => Admitted | Promise<Admitted>;
