import type { AuditEntry } from '#core/domain/audit-entry.ts';
import { ROLES, type Role } from '#core/domain/role.ts';

type LastSuspension = {
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
  /** Null: the brake ended up lifted. */
  readonly applied: {
    readonly level: string;
    readonly reason: string;
    readonly rate: number;
    readonly bound: number;
    readonly gapMs: number;
  } | null;
  readonly at: string;
};

/** What happened to one tenant after the time that the database was restored to. */
export type LastWords = {
  /** The resource whose deletion started a purge; no later entry matters. */
  readonly purge: { readonly uid: string; readonly at: string } | null;
  readonly suspension: LastSuspension | null;
  /** By channel. */
  readonly brakes: ReadonlyMap<string, LastBrake>;
  readonly members: ReadonlyMap<string, LastMembership>;
  /**
   * Members who were removed, or given another role than owner, after a resource was applied. If it named them for the first time,
   * the restored database does not know that, and the resource makes them owners again.
   */
  readonly mayReturn: ReadonlySet<string>;
  readonly keys: ReadonlyMap<string, LastKey>;
  readonly accounts: ReadonlyMap<string, LastAccount>;
  /** Webhook endpoints. */
  readonly endpoints: ReadonlyMap<string, LastEndpoint>;
  /** By account. */
  readonly receiptUrls: ReadonlyMap<string, LastReceiptUrl>;
  /**
   * The last entry for each recipient and reason that was added and not removed again, by both: a new entry replaces the one
   * before, under a new id, and whatever it blocks.
   */
  readonly suppressions: ReadonlyMap<string, LastSuppression>;
  /** Messages whose content was erased. */
  readonly erased: ReadonlySet<string>;
  /** Whether the resource that owned the tenant was deleted and the tenant was kept, whatever came after that. */
  readonly isRetained: boolean;
  /** Resources that are known to be deleted. */
  readonly gone: readonly string[];
  /** Number of changes that cannot be restored from the log, by action: secrets and settings are not logged. */
  readonly lost: ReadonlyMap<string, number>;
};

type Draft = {
  purge: LastWords['purge'];
  suspension: LastSuspension | null;
  brakes: Map<string, LastBrake>;
  members: Map<string, LastMembership>;
  mayReturn: Set<string>;
  isApplied: boolean;
  keys: Map<string, LastKey>;
  accounts: Map<string, LastAccount>;
  endpoints: Map<string, LastEndpoint>;
  receiptUrls: Map<string, LastReceiptUrl>;
  suppressions: Map<string, LastSuppression>;
  /** The keys of `suppressions`, by the ids of entries. */
  suppressionKeys: Map<string, string>;
  erased: Set<string>;
  isRetained: boolean;
  gone: string[];
  lost: Map<string, number>;
};

/**
 * Returns the final state of everything that was changed, by tenant. @param entries In the order in which they happened.
 */
export function lastWords(entries: readonly AuditEntry[]): ReadonlyMap<string, LastWords> {
  const tenants = new Map<string, Draft>();
  for (const entry of entries) {
    const draft = tenants.get(entry.tenantId) ?? newDraft();
    tenants.set(entry.tenantId, draft);
    take(draft, entry);
  }
  return tenants;
}

const newDraft = (): Draft => ({
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

const NO_KEY: LastKey = { isRevoked: false, scopes: null, until: null };
const NO_MEMBERSHIP: LastMembership = { isRemoved: false, role: null, since: null, invitations: [] };

function take(draft: Draft, entry: AuditEntry): void {
  const { action, target, at, facts } = entry;
  const uid = textOf(facts['uid']);
  const key = draft.keys.get(target) ?? NO_KEY;
  const member = draft.members.get(target) ?? NO_MEMBERSHIP;
  switch (action) {
    case 'tenant.purge_begun':
      draft.purge = { uid: uid ?? entry.tenantId, at };
      if (uid !== null) draft.gone.push(uid);
      return;
    case 'tenant.suspended':
    case 'tenant.resumed':
      draft.suspension = suspensionFor(textOf(facts['reason']), entry);
      return;
    case 'tenant.applied':
      draft.suspension = suspensionFor(textOf(facts['suspension']), entry);
      draft.isApplied = true;
      return;
    case 'tenant.retained':
      draft.suspension = retained(draft.suspension, entry);
      draft.isRetained = true;
      if (uid !== null) draft.gone.push(uid);
      return;
    case 'tenant.brake_applied': {
      const { rate, bound, gapMs } = facts;
      const [channel, level, reason] = [
        textOf(facts['channel']),
        textOf(facts['level']),
        textOf(facts['reason']),
      ];
      if (channel === null || level === null || reason === null) return lose(draft, action);
      if (typeof rate !== 'number' || typeof bound !== 'number' || typeof gapMs !== 'number')
        return lose(draft, action);
      draft.brakes.set(channel, { applied: { level, reason, rate, bound, gapMs }, at });
      return;
    }
    case 'tenant.brake_lifted': {
      const { channels } = facts;
      if (!Array.isArray(channels)) return lose(draft, action);
      for (const channel of channels as readonly string[]) draft.brakes.set(channel, { applied: null, at });
      return;
    }
    case 'member.removed':
      draft.members.set(target, {
        isRemoved: true,
        role: null,
        since: textOf(facts['since']),
        invitations: member.invitations,
      });
      if (draft.isApplied) draft.mayReturn.add(target);
      return;
    case 'member.added':
    case 'member.joined':
    case 'member.role_changed': {
      draft.members.set(target, {
        isRemoved: false,
        role: roleOf(facts['role']),
        since: textOf(facts['since']),
        invitations: [...member.invitations, ...textsOf(facts['invitations'])],
      });
      if (facts['role'] === 'owner') draft.mayReturn.delete(target);
      else if (draft.isApplied && action === 'member.role_changed') draft.mayReturn.add(target);
      if (action === 'member.added') lose(draft, action);
      return;
    }
    case 'api_key.revoked':
      draft.keys.set(target, { ...key, isRevoked: true });
      return;
    case 'api_key.updated':
      draft.keys.set(target, {
        ...key,
        scopes: Array.isArray(facts['scopes']) ? facts['scopes'] : key.scopes,
        until: earlier(key.until, textOf(facts['expiresAt'])),
      });
      return;
    case 'api_key.rotated':
      // The new secret is not logged; the one in the database is valid until the end of the rotation's grace period at
      // most.
      draft.keys.set(target, { ...key, until: earlier(key.until, textOf(facts['graceUntil']) ?? at) });
      lose(draft, action);
      return;
    case 'provider.deleted':
      draft.accounts.set(target, 'deleted');
      return;
    case 'provider.disabled':
      draft.accounts.set(target, 'disabled');
      return;
    case 'provider.enabled':
      draft.accounts.set(target, 'enabled');
      return;
    case 'provider.receipt_url_rotated': {
      const { version } = facts;
      if (typeof version !== 'number') return lose(draft, action);
      draft.receiptUrls.set(target, { version, graceUntil: textOf(facts['graceUntil']) });
      return;
    }
    case 'webhook_endpoint.deleted':
      draft.endpoints.set(target, 'deleted');
      return;
    case 'webhook_endpoint.paused':
      draft.endpoints.set(target, 'paused');
      return;
    case 'webhook_endpoint.resumed':
      draft.endpoints.set(target, 'resumed');
      return;
    case 'suppression.added':
      return addSuppression(draft, entry);
    case 'suppression.removed':
      return removeSuppression(draft, target);
    case 'message.content_erased':
      draft.erased.add(target);
      return;
    case 'suppression.import_begun':
    case 'suppression.imported':
      // The entries of an import are not logged.
      return lose(draft, action);
    case 'provider.verify_requested':
    case 'webhook_endpoint.tested':
    case 'webhook_endpoint.redelivered':
    case 'webhook_endpoint.replayed':
    case 'webhook_endpoint.recovered':
      return;
    default:
      lose(draft, action);
  }
}

function addSuppression(draft: Draft, { action, target, at, actor, facts }: AuditEntry): void {
  const [channel, addressKey] = [textOf(facts['channel']), textOf(facts['addressKey'])];
  const [reason, scope] = [textOf(facts['reason']), textOf(facts['scope'])];
  if (channel === null || addressKey === null || reason === null || scope === null)
    return lose(draft, action);
  const key = `${addressKey} ${reason}`;
  draft.suppressionKeys.set(target, key);
  draft.suppressions.set(key, {
    id: target,
    at,
    isByRecipient: actor === 'recipient',
    channel,
    addressKey,
    reason,
    scope,
    expiresAt: textOf(facts['expiresAt']),
  });
}

/** An entry that the restore brought back stays, because nobody may get a right that they did not have. */
function removeSuppression({ suppressions, suppressionKeys }: Draft, id: string): void {
  const key = suppressionKeys.get(id);
  if (key !== undefined && suppressions.get(key)?.id === id) suppressions.delete(key);
}

function suspensionFor(reason: string | null, { at, actor }: AuditEntry): LastSuspension {
  return { isSuspended: reason !== null, reason, at, by: actor };
}

/** Keeps the reason of a tenant that was suspended already, as the deletion of its resource did. */
function retained(before: LastSuspension | null, { at, actor }: AuditEntry): LastSuspension {
  if (before?.isSuspended === true) return before;
  return { isSuspended: true, reason: before === null ? null : 'manual', at, by: actor };
}

function lose({ lost }: Draft, action: string): void {
  lost.set(action, (lost.get(action) ?? 0) + 1);
}

function textOf(fact: AuditEntry['facts'][string] | undefined): string | null {
  return typeof fact === 'string' ? fact : null;
}

function textsOf(fact: AuditEntry['facts'][string] | undefined): readonly string[] {
  return Array.isArray(fact) ? fact : [];
}

function roleOf(fact: AuditEntry['facts'][string] | undefined): Role | null {
  return ROLES.find((role) => role === fact) ?? null;
}

function earlier(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b;
  return Date.parse(a) <= Date.parse(b) ? a : b;
}
