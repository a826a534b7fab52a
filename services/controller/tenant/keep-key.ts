import { isAway } from '#core/domain/fault/dependency-error.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { KeyringError } from '#core/platform/vault/keyring.ts';
import type { KeyFacts } from '#core/platform/vault/vault-keys.ts';
import type { BoundCiphertext } from '#core/store/tenants/managed-tenants.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import { nextRotation } from './key-rotation.ts';
import { keyVerdict } from './key-verdict.ts';
import type { TenantDeps } from './tenant-deps.ts';
import type { Verdict } from './tenant-findings.ts';
import { slugOf } from './wanted-tenant.ts';

/** Ciphertexts rewrapped concurrently. */
const REWRAPPED_AT_ONCE = 20;

export type KeptKey = {
  readonly verdict: Verdict;
  /** Absent when Vault did not answer. */
  readonly key?: KeyFacts;
  /** Why the step must be retried. */
  readonly fault?: unknown;
  /** Vault did not answer, so the known state still stands. */
  readonly isUnanswered?: boolean;
};

/**
 * Ensures that the tenant's key exists and is not older than its rotation period, and that all ciphertexts use its latest
 * version.
 */
export async function keepKey(
  deps: TenantDeps,
  tenant: TenantResource,
  tenantId: TenantId,
  log: Logger,
): Promise<KeptKey> {
  const { keys, events, now } = deps;
  try {
    const { made, ...found } = await keys.ensure(tenantId);
    if (made && !(await isThere(deps, tenant, tenantId))) {
      await keys.destroy(tenantId);
      return { verdict: GONE };
    }
    if (made && tenant.status?.encryption !== undefined)
      events.warning(tenant, 'KeyMissing', 'The key was gone from Vault; a new one reads nothing of the old');
    const due = nextRotation(found.rotatedAt, tenant.spec.encryption.keyRotationPeriodDays);
    const isDue = due !== undefined && due <= now();
    const key = isDue ? await keys.rotate(tenantId) : found;
    if (isDue) events.normal(tenant, 'KeyRotated', `The key's version is now ${key.latestVersion}`);
    const unreadable = key.latestVersion > 1 ? await rewrapAll(deps, tenantId, key.latestVersion) : 0;
    if (unreadable > 0)
      events.warning(
        tenant,
        'RewrapFailed',
        `${unreadable} credentials could not be moved to the new version`,
      );
    return { key, verdict: { ok: true, reason: 'KeyReady', message: `The key is ${key.name}` } };
  } catch (fault) {
    if (!(fault instanceof KeyringError)) throw fault;
    log.warn({ err: fault, tenantId }, "Could not keep a tenant's key");
    return { fault, verdict: keyVerdict(fault), isUnanswered: isAway(fault) };
  }
}

/**
 * Called after a key was created: a pass that was suspended before that may resume after its tenant was purged. A purge
 * destroys the key before it deletes the tenant's row, so if the row still exists, the new key will be destroyed with it.
 */
async function isThere({ store }: TenantDeps, tenant: TenantResource, tenantId: TenantId): Promise<boolean> {
  const stored = await store.find(slugOf(tenant));
  return stored?.id === tenantId && stored.status !== 'deleting';
}

const GONE: Verdict = { ok: false, reason: 'Stale', message: 'The tenant has been purged in the meantime' };

/** Rewraps all ciphertexts. @returns how many are damaged; they are left unchanged. */
async function rewrapAll(
  deps: Pick<TenantDeps, 'keys' | 'store'>,
  tenantId: TenantId,
  latestVersion: number,
): Promise<number> {
  let damaged = 0;
  let after: BoundCiphertext | null = null;
  for (;;) {
    const page: BoundCiphertext[] = await deps.store.outdatedCiphertexts(tenantId, latestVersion, {
      after,
      most: REWRAPPED_AT_ONCE,
    });
    const moved = await Promise.all(page.map((one) => rewrap(deps, one)));
    damaged += moved.filter((isMoved) => !isMoved).length;
    after = page.at(-1) ?? null;
    if (page.length < REWRAPPED_AT_ONCE) return damaged;
  }
}

/** Rewraps a ciphertext, unless it is replaced concurrently. @returns false if it is damaged. */
async function rewrap(
  { keys, store }: Pick<TenantDeps, 'keys' | 'store'>,
  { binding, ciphertext }: BoundCiphertext,
): Promise<boolean> {
  try {
    const rewrapped = await keys.rewrap(binding, ciphertext);
    await store.replaceCiphertext(binding, { old: ciphertext, new: rewrapped });
    return true;
  } catch (error) {
    if (error instanceof KeyringError && error.code === 'corrupt') return false;
    throw error;
  }
}
