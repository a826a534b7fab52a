import type { AuditEntry, AuditFacts, AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { Binding } from '#core/domain/storage/binding.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import type { StatedLimits } from '#core/domain/tenant/plan.ts';
import type { TenantState } from '#core/domain/tenant/tenant-state.ts';
import type { Json, Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';
import type { SuspensionReason } from './tenants.ts';

/** A person that a resource names as owner. */
export type NamedOwner = { readonly email: string } | { readonly subject: string };

/** The stored facts about a tenant, for its resource. */
export type StoredTenant = {
  readonly id: TenantId;
  readonly plan: string;
  readonly status: TenantState;
  readonly suspensionReason: SuspensionReason | null;
  readonly suspendedBy: string | null;
  /**
   * UID of the resource that owns it; null for a tenant of the API, and for one that was retained when its resource was deleted.
   * A tenant that was deleted through the API belongs to its purge: see `deletionOwner`.
   */
  readonly ownerUid: string | null;
  /** "namespace/name" of the resource that declared it, even if that is gone; null for a tenant of the API. */
  readonly ownerRef: string | null;
  readonly ownerCreatedAt: Date | null;
  readonly ownerGeneration: number | null;
  readonly planUid: string | null;
  readonly planGeneration: number | null;
  readonly limits: StatedLimits | null;
  readonly overrides: StatedLimits | null;
  /** What the resource named last; the api may have changed the tenant's name and members since. */
  readonly displayName: string | null;
  readonly namedOwners: readonly NamedOwner[];
};

/** The desired state of a tenant, and the resource that declares it. */
export type WantedTenant = {
  /** Id for the tenant if it is new. */
  readonly id: TenantId;
  readonly slug: string;
  readonly name: string;
  readonly plan: string;
  readonly limits: StatedLimits;
  readonly overrides: StatedLimits;
  readonly suspension: SuspensionReason | null;
  readonly uid: string;
  /** "namespace/name". */
  readonly ref: string;
  readonly createdAt: string;
  readonly generation: number;
  readonly planUid: string;
  readonly planGeneration: number;
  readonly owners: readonly NamedOwner[];
};

/**
 * - `taken`: the slug belongs to another tenant.
 * - `stale`: a newer resource, or a newer generation of it or of its plan, was applied before; or an administrator has just
 *   suspended the tenant that an earlier resource left behind.
 * - `purging`: the tenant's rows are being deleted.
 */
export type ApplyOutcome = 'applied' | 'taken' | 'stale' | 'purging';

/**
 * - `deleted`: more rows may be left.
 * - `draining`: provider calls are still under way, or an api may still have a cached copy of the tenant.
 * - `empty`: only the tenant's own rows are left.
 * - `absent`: no purge of this resource is under way.
 */
export type PurgeOutcome = 'deleted' | 'draining' | 'empty' | 'absent';

/** A ciphertext and the context that it is tied to. */
export type BoundCiphertext = { readonly binding: Binding; readonly ciphertext: string };

/** Some tables have no index by tenant and are scanned whole, which takes a while in a large installation. */
const PURGE_STATEMENT_MS = 300_000;

/** A tenant and its resource, by slug and UID. */
export type OwnedSlug = { readonly slug: string; readonly uid: string };

/**
 * Returns the owner of a tenant that was deleted through the API; no resource can have this UID, because the cluster assigns
 * UIDs.
 */
export function deletionOwner(id: TenantId): string {
  return `api:${id}`;
}

/** A deleted resource. Its identity and creation time decide which tenant it may give up. */
export type GoneResource = OwnedSlug & {
  /** "namespace/name". */
  readonly ref: string;
  readonly createdAt: string;
};

/**
 * Tenants that cluster resources declare. Every change is one transaction, fenced in the database by the resource's identity and
 * generation, so that a controller with a stale view of the cluster changes nothing.
 * @param issuer the issuer whose users the named owners are.
 * @param audit called for each change as soon as the commit is known, even if the caller has stopped waiting.
 */
export function managedTenantStore(sql: Sql, issuer: string, audit: AuditTrail) {
  /** Purges that were reported to `audit`: a long purge calls `beginPurge` again for every slice. */
  const told = new Set<string>();

  function purging<T>(work: (tx: TransactionSql) => Promise<T>): Promise<T> {
    return sql.begin(async (tx) => {
      await tx`select set_config('statement_timeout', ${String(PURGE_STATEMENT_MS)}, true)`;
      return work(tx);
    }) as Promise<T>;
  }

  return {
    async find(slug: string): Promise<StoredTenant | undefined> {
      const [row] = camelRows<StoredTenant>(
        await sql`
          select id, plan, status, suspension_reason, suspended_by, owner_uid, owner_ref, owner_created_at, owner_generation,
            owner_plan_uid as plan_uid, owner_plan_generation as plan_generation, limits, overrides,
            owner_display_name as display_name, owner_named_owners as named_owners
          from managed_tenant(${slug})`.values(),
      );
      return row;
    },

    /** Applies the desired state. The id is null if the slug was taken by a tenant that cannot be named. */
    async apply(
      wanted: WantedTenant,
    ): Promise<{ readonly outcome: ApplyOutcome; readonly id: TenantId | null }> {
      const [row] = await sql<{ outcome: ApplyOutcome; id: TenantId | null; audit: AuditJson | null }[]>`
        select outcome, id, audit from apply_tenant(${sql.json({ ...wanted, issuer } as unknown as Json)})`;
      if (row === undefined) throw new Error('apply_tenant returned no row');
      if (row.audit !== null) audit(toAuditEntry(row.audit));
      return { outcome: row.outcome, id: row.id };
    },

    /**
     * Records that the resource is gone. Returns the tenant that was given up: its own, or one that an older resource of its name
     * left behind; undefined if there is none.
     */
    async retain({ slug, uid, ref, createdAt }: GoneResource): Promise<TenantId | undefined> {
      const [row] = await sql<{ entry: AuditJson | null }[]>`
        select retain_tenant(${slug}, ${uid}, ${ref}, ${createdAt}::timestamptz) as entry`;
      if (row === undefined || row.entry === null) return undefined;
      audit(toAuditEntry(row.entry));
      return row.entry.tenant_id;
    },

    /** Ends intake and delivery, and returns the tenant; undefined if the resource owns none. */
    async beginPurge({ slug, uid, ref, createdAt }: GoneResource): Promise<TenantId | undefined> {
      const [row] = await sql<{ id: TenantId | null }[]>`select begin_purge(${slug}, ${uid}) as id`;
      const id = row?.id ?? undefined;
      if (id !== undefined && !told.has(uid)) {
        told.add(uid);
        // Not in the tenant's audit log, which is deleted with its rows.
        const made = { id: newId<string>(), seq: null, at: new Date().toISOString(), requestId: null };
        const done = { actor: `resource:${ref}`, action: 'tenant.purge_begun', target: id };
        audit({ ...made, ...done, tenantId: id, facts: { uid, createdAt } });
      }
      return id;
    },

    /**
     * Returns slugs of tenants whose deletion began more than ten seconds ago and that are not purged yet: at most `most`, in order,
     * after the given one.
     */
    async tenantsToPurge(after: string | null, most: number): Promise<string[]> {
      const rows = await sql<{ slug: string }[]>`
        select slug from tenants_to_purge(${after}, ${most}) as slug`;
      return rows.map(({ slug }) => slug);
    },

    /** Deletes a slice of a tenant's rows. @param most messages per transaction, or rows of another table. */
    async purgeSome(
      { slug, uid }: OwnedSlug,
      most: number,
    ): Promise<{
      readonly outcome: PurgeOutcome;
      readonly deleted: number;
      /** The tenant whose rows they are; null if the outcome is `absent`. */
      readonly id: TenantId | null;
    }> {
      return purging(async (tx) => {
        const [row] = await tx<{ outcome: PurgeOutcome; deleted: number; id: TenantId | null }[]>`
          select outcome, deleted, id from purge_some(${slug}, ${uid}, ${most})`;
        if (row === undefined) throw new Error('purge_some returned no row');
        return row;
      });
    },

    /** Deletes the rest of the tenant. Returns false if messages have been stored meanwhile. */
    async endPurge({ slug, uid }: OwnedSlug): Promise<boolean> {
      const [row] = await purging((tx) => tx<{ done: boolean }[]>`select end_purge(${slug}, ${uid}) as done`);
      if (row?.done === true) told.delete(uid);
      return row?.done ?? false;
    },

    /**
     * Returns ciphertexts under other versions of the tenant's key than the latest: at most `most`, in an order of their own,
     * after the given one.
     */
    async outdatedCiphertexts(
      tenantId: TenantId,
      latestVersion: number,
      { after, most }: { readonly after: BoundCiphertext | null; readonly most: number },
    ): Promise<BoundCiphertext[]> {
      const { subject = null, purpose = null } = after?.binding ?? {};
      const rows = await sql<{ subject: string; purpose: string; ciphertext: string }[]>`
        select subject, purpose, ciphertext from outdated_ciphertexts(${tenantId}, ${latestVersion}, ${most}, ${subject},
          ${purpose}, ${after?.ciphertext ?? null})`;
      return rows.map(({ subject, purpose, ciphertext }) => ({
        binding: { tenantId, subject, purpose },
        ciphertext,
      }));
    },

    /** Replaces a ciphertext. Returns false if the old one has been replaced or removed since. */
    async replaceCiphertext(
      { tenantId, subject, purpose }: Binding,
      replacement: { readonly old: string; readonly new: string },
    ): Promise<boolean> {
      const [row] = await sql<{ moved: boolean }[]>`
        select replace_ciphertext(${tenantId}, ${subject}, ${purpose}, ${replacement.old}, ${replacement.new}) as moved`;
      return row?.moved ?? false;
    },
  };
}

/** A row of the audit log as JSON. */
type AuditJson = {
  readonly id: string;
  readonly seq: number;
  readonly at: string;
  readonly tenant_id: TenantId;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly details: AuditFacts;
};

function toAuditEntry({ tenant_id, details, id, seq, at, actor, action, target }: AuditJson): AuditEntry {
  const time = new Date(at).toISOString();
  return {
    id,
    seq,
    at: time,
    tenantId: tenant_id,
    actor,
    action,
    target,
    requestId: null,
    facts: details,
  };
}

export type ManagedTenantStore = ReturnType<typeof managedTenantStore>;
