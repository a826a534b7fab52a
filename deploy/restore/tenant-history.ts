import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import type { Role } from '#core/domain/tenant/role.ts';

export type LastSuspension = {
  readonly isSuspended: boolean;
  /** Null for a suspended tenant: the reason in the database stays, and is `manual` where there is none. */
  readonly reason: string | null;
  readonly at: string;
  readonly by: string;
};

export type LastMembership = {
  readonly isRemoved: boolean;
  /** The final role; null when none was logged. */
  readonly role: Role | null;
  /** When the membership began, as far as logged: it stays the same when an invitation is accepted under another id. */
  readonly since: string | null;
  /** The ids of the invitations that the member has accepted: the restored database may still contain them. */
  readonly invitations: readonly string[];
};

export type LastKey = {
  readonly isRevoked: boolean;
  /** Null: not logged. */
  readonly scopes: readonly string[] | null;
  /** The secret in the database is valid until then at most. Null: not logged. */
  readonly until: string | null;
};

type LastAccount = 'deleted' | 'disabled' | 'enabled';
type LastEndpoint = 'deleted' | 'paused' | 'resumed';

export type LastReceiptUrl = {
  /** Version of the URL's token. */
  readonly version: number;
  /** Until when the previous token is valid. */
  readonly graceUntil: string | null;
};

export type LastSuppression = {
  readonly id: string;
  readonly at: string;
  /** Whether the recipient unsubscribed; otherwise a member added the entry. */
  readonly isByRecipient: boolean;
  readonly channel: string;
  /** Hex. */
  readonly addressKey: string;
  readonly reason: string;
  readonly scope: string;
  readonly expiresAt: string | null;
};

export type LastBrake = {
  /** The brake that was applied last; null if that was before the restored time. */
  readonly applied: {
    readonly level: string;
    readonly reason: string;
    readonly rate: number;
    readonly bound: number;
    readonly gapMs: number;
    readonly at: string;
  } | null;
  /** When a brake was last lifted; null if none was. */
  readonly liftedAt: string | null;
  /** Whether the last brake was lifted. */
  readonly isLifted: boolean;
};

/** What happened to one tenant after the time that the database was restored to. Changes with each entry that is noted. */
export type TenantHistory = {
  /** The resource whose deletion started a purge; no later entry matters. */
  purge: { readonly uid: string; readonly at: string } | null;
  suspension: LastSuspension | null;
  /** By channel. */
  brakes: Map<string, LastBrake>;
  members: Map<string, LastMembership>;
  /**
   * Members who were removed, or given another role than owner, after a resource was applied. If it named them for the first time,
   * the restored database does not know that, and the resource makes them owners again.
   */
  mayReturn: Set<string>;
  /** Whether a resource was applied. */
  isApplied: boolean;
  keys: Map<string, LastKey>;
  accounts: Map<string, LastAccount>;
  /** Webhook endpoints. */
  endpoints: Map<string, LastEndpoint>;
  /** By account. */
  receiptUrls: Map<string, LastReceiptUrl>;
  /**
   * The last entry for each recipient and reason that was added and not removed again, by both: a new entry replaces the one
   * before, under a new id, and whatever it blocks.
   */
  suppressions: Map<string, LastSuppression>;
  /** The keys of `suppressions`, by the ids of entries. */
  suppressionKeys: Map<string, string>;
  /** Messages whose content was erased. */
  erased: Set<string>;
  /** Whether the resource that owned the tenant was deleted and the tenant was kept, whatever came after that. */
  isRetained: boolean;
  /** Resources that are known to be deleted. */
  gone: string[];
  /** Number of changes that cannot be restored from the log, by action: secrets and settings are not logged. */
  lost: Map<string, number>;
};

/** Notes an entry of the audit log in the history of its tenant. */
export type Note = (history: TenantHistory, entry: AuditEntry) => void;

export const newHistory = (): TenantHistory => ({
  purge: null,
  suspension: null,
  brakes: new Map(),
  members: new Map(),
  mayReturn: new Set(),
  isApplied: false,
  keys: new Map(),
  accounts: new Map(),
  endpoints: new Map(),
  receiptUrls: new Map(),
  suppressions: new Map(),
  suppressionKeys: new Map(),
  erased: new Set(),
  isRetained: false,
  gone: [],
  lost: new Map(),
});

/** Counts a change that cannot be restored. */
export function lose({ lost }: TenantHistory, { action }: AuditEntry): void {
  lost.set(action, (lost.get(action) ?? 0) + 1);
}
