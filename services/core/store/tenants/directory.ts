import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import type { Brake } from '#core/domain/tenant/brake.ts';
import { comparableAddress } from '#core/domain/recipient/mailbox.ts';
import type { ApiKeyId, TenantId, UserId } from '#core/domain/storage/ids.ts';
import { effectiveLimits, type Limits, type StatedLimits } from '#core/domain/tenant/plan.ts';
import type { Role, Scope } from '#core/domain/tenant/role.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { KeyMode } from '#core/domain/tenant/service-key.ts';
import type { TenantState } from '#core/domain/tenant/tenant-state.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';
import type { SendingAccount } from '../accounts/sending-accounts.ts';
import { withDatabaseDeadline } from '../query/tenant-scope.ts';

/** The facts about a tenant that the api uses to serve a request. */
export type TenantFacts = {
  readonly id: TenantId;
  readonly slug: string;
  readonly name: string;
  readonly plan: string;
  readonly status: TenantState;
  readonly suspensionReason: string | null;
  readonly suspendedAt: Date | null;
  readonly suspendedBy: string | null;
  /** "namespace/name" of the cluster resource that owns the tenant. */
  readonly ownerRef: string | null;
  readonly createdAt: Date;
  readonly limits: Limits;
  readonly overrides: StatedLimits | null;
  /** The brakes in force, by channel. */
  readonly brakes: readonly Brake[];
};

/** A row of the view `tenant_facts`. */
export type TenantFactsRow = Omit<TenantFacts, 'limits' | 'brakes'> & {
  readonly limits: StatedLimits | null;
  readonly brakes: readonly Brake[] | null;
};

export function toTenantFacts({ limits, brakes, ...facts }: TenantFactsRow): TenantFacts {
  return {
    ...facts,
    limits: effectiveLimits(limits),
    brakes: (brakes ?? []).map((brake) => ({ ...brake, at: new Date(brake.at).toISOString() })),
  };
}

export type ApiKeyFacts = {
  readonly id: ApiKeyId;
  readonly mode: KeyMode;
  readonly scopes: readonly Scope[];
  readonly rateLimitRpm: number | null;
  readonly secretHash: Buffer;
  readonly previousSecretHash: Buffer | null;
  /** The latest secrets before the previous one, which are invalid. */
  readonly formerSecretHashes: readonly Buffer[];
  readonly graceUntil: Date | null;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
};

/** The facts that the api needs about a caller with a service key. */
export type CallerFacts = {
  readonly key: ApiKeyFacts;
  readonly tenant: TenantFacts;
  /** The provider accounts that could send the tenant's messages, the oldest first. */
  readonly sendingAccounts: readonly SendingAccount[];
  /** The routes that the tenant has set. */
  readonly routes: readonly Route[];
};

type CallerRow = TenantFactsRow &
  Omit<ApiKeyFacts, 'id'> &
  Pick<CallerFacts, 'routes'> & {
    readonly keyId: string;
    readonly apiKeyId: ApiKeyId;
    readonly senders: readonly SendingAccount[];
  };

function toCallerFacts(row: Omit<CallerRow, 'keyId'>): CallerFacts {
  const {
    apiKeyId,
    mode,
    scopes,
    rateLimitRpm,
    secretHash,
    previousSecretHash,
    formerSecretHashes,
    ...others
  } = row;
  const { graceUntil, expiresAt, revokedAt, senders, routes, ...tenant } = others;
  const secrets = { secretHash, previousSecretHash, formerSecretHashes };
  const key = { id: apiKeyId, mode, scopes, rateLimitRpm, ...secrets, graceUntil, expiresAt, revokedAt };
  return { key, tenant: toTenantFacts(tenant), sendingAccounts: senders, routes };
}

export type Identity = {
  readonly issuer: string;
  readonly subject: string;
  /** Null if the issuer says nothing about it, like `name`. */
  readonly email: string | null;
  readonly emailVerified: boolean;
  readonly name: string | null;
};

export type SignedIn = { readonly id: UserId; readonly entries: readonly AuditEntry[] };

export type Membership = { readonly tenant: TenantFacts; readonly role: Role };

function toMemberships(rows: Parameters<typeof camelRows>[0]): Membership[] {
  return camelRows<TenantFactsRow & { readonly role: Role }>(rows).map(({ role, ...facts }) => ({
    tenant: toTenantFacts(facts),
    role,
  }));
}

/** Queries across tenants, each answered by one SQL function. */
export function directoryStore(sql: Sql) {
  return {
    /** Looks up callers by the identifying parts of their keys; unknown keys are missing in the result. */
    async findCallers(keyIds: readonly string[]): Promise<Map<string, CallerFacts>> {
      const rows = await withDatabaseDeadline(
        sql`
          select c.key_id, c.api_key_id, c.mode, c.scopes, c.rate_limit_rpm, c.secret_hash, c.previous_secret_hash,
            c.former_secret_hashes, c.grace_until, c.expires_at, c.revoked_at, c.senders, c.routes,
            (c.tenant).*
          from find_callers(${[...keyIds]}::text[]) c`.values(),
      );
      return new Map(camelRows<CallerRow>(rows).map(({ keyId, ...row }) => [keyId, toCallerFacts(row)]));
    },

    /**
     * Creates or updates the user with this identity, and binds invitations to its verified e-mail address. Also returns the audit
     * log entries that this made, to be logged.
     */
    async signIn(identity: Identity): Promise<SignedIn> {
      const { issuer, subject, emailVerified, name } = identity;
      // The issuer may spell an internationalized address in another way than an invitation does.
      const email = identity.email === null ? null : comparableAddress(identity.email);
      const [row] = await withDatabaseDeadline(
        sql<{ who: UserId; entries: AuditEntry[] }[]>`
          select s.who, s.entries from sign_user_in(${issuer}, ${subject}, ${email}, ${emailVerified}, ${name}) s`,
      );
      const { who, entries } = row as { who: UserId; entries: AuditEntry[] };
      return {
        id: who,
        entries: entries.map((entry) => ({ ...entry, at: new Date(entry.at).toISOString() })),
      };
    },

    async membership(userId: UserId, slug: string): Promise<Membership | null> {
      const rows = await withDatabaseDeadline(
        sql`select (m.facts).*, m.role from membership(${userId}, ${slug}) m`.values(),
      );
      return toMemberships(rows)[0] ?? null;
    },

    async memberships(userId: UserId): Promise<Membership[]> {
      const rows = await withDatabaseDeadline(
        sql`select (m.facts).*, m.role from memberships(${userId}) m`.values(),
      );
      return toMemberships(rows);
    },

    async touchApiKeys(used: ReadonlyMap<ApiKeyId, Date>): Promise<void> {
      // As text: the driver takes an array of dates for a single date.
      const times = [...used.values()].map((time) => time.toISOString());
      await withDatabaseDeadline(
        sql`select touch_api_keys(${[...used.keys()]}::uuid[], ${times}::timestamptz[])`,
      );
    },

    /** Counts calls of a subject against its limit in any rolling minute; `passed` of them pass. */
    async takeRate(subject: string, allowed: number, calls: number): Promise<RateTaken> {
      const rows = await withDatabaseDeadline(
        sql`select passed, remaining, retry_after from take_rate(${subject}, ${allowed}, ${calls})`.values(),
      );
      return camelRows<RateTaken>(rows)[0] as RateTaken;
    },
  };
}

export type RateTaken = {
  readonly passed: number;
  /** Calls left after these. */
  readonly remaining: number;
  /** Seconds until a further call passes once none is left, 1 to 61. */
  readonly retryAfter: number;
};

export type DirectoryStore = ReturnType<typeof directoryStore>;
