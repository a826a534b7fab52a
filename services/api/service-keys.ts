import { hash, timingSafeEqual } from 'node:crypto';
import { AppError } from '#core/domain/app-error.ts';
import type { ApiKeyId, TenantId } from '#core/domain/ids.ts';
import { hashKeySecret, parseServiceKey } from '#core/domain/service-key.ts';
import type { ApiKeyFacts, DirectoryStore } from '#core/store/directory.ts';
import { createFreshCache } from './fresh-cache.ts';

export type ServiceKeys = {
  /** @throws AppError 401 for a key that is not, no longer or not yet good. */
  readonly verify: (text: string) => Promise<ApiKeyFacts>;
  readonly dropKey: (tenantId: string, id?: string) => void;
  /** Writes down when keys were last used. */
  readonly flushUsed: () => Promise<void>;
};

const KEYS_MAX = 20_000;
const UNKNOWN_MAX = 20_000;
/** Compared where there is no such key, so that this takes as long as where there is one. */
const NO_HASH = Buffer.alloc(32);

type Match = 'current' | 'previous' | null;

/** Checks service keys. A warm key costs one digest and no question to the database. */
export function createServiceKeys(
  directory: Pick<DirectoryStore, 'findApiKey' | 'touchApiKeys'>,
  hashSubkey: Buffer,
  now: () => number = Date.now,
): ServiceKeys {
  const known = createFreshCache<ApiKeyFacts>(KEYS_MAX);
  // Apart, so that guesses cannot push real keys out.
  const unknown = createFreshCache<'none'>(UNKNOWN_MAX);
  const used = new Map<ApiKeyId, Date>();
  /** Digests of secrets that matched, for as long as the facts they matched are cached: a plain digest costs a fifth. */
  const proofs = new WeakMap<ApiKeyFacts, { readonly digest: Buffer; readonly matched: Match }>();

  async function find(keyId: string): Promise<ApiKeyFacts | null> {
    if (unknown.peek(keyId) !== undefined) return null;
    try {
      return await known.get(keyId, async () => {
        const facts = await directory.findApiKey(keyId);
        if (facts === null) throw new NoSuchKeyError();
        return facts;
      });
    } catch (error) {
      if (!(error instanceof NoSuchKeyError)) throw error;
      await unknown.get(keyId, async () => 'none');
      return null;
    }
  }

  /** Always computes and compares, so that time tells nothing of which keys exist. */
  function match(secret: string, facts: ApiKeyFacts | null): Match {
    const digest = hash('sha256', secret, 'buffer');
    const proof = facts === null ? undefined : proofs.get(facts);
    if (proof !== undefined && timingSafeEqual(digest, proof.digest)) return proof.matched;
    const hashed = hashKeySecret(hashSubkey, secret);
    const isCurrent = timingSafeEqual(hashed, facts?.secretHash ?? NO_HASH);
    const isPrevious = timingSafeEqual(hashed, facts?.previousSecretHash ?? NO_HASH);
    const matched = isCurrent ? 'current' : isPrevious ? 'previous' : null;
    if (facts !== null && matched !== null) proofs.set(facts, { digest, matched });
    return matched;
  }

  return {
    async verify(text) {
      const parsed = parseServiceKey(text);
      if (parsed === null) throw new AppError('unauthenticated');
      const facts = await find(parsed.keyId);
      const matched = match(parsed.secret, facts);
      const at = now();
      const inGrace = matched === 'previous' && (facts?.graceUntil?.getTime() ?? 0) > at;
      if (facts === null || facts.mode !== parsed.mode || !(matched === 'current' || inGrace)) {
        throw new AppError('unauthenticated');
      }
      if (facts.revokedAt !== null) throw new AppError('api_key_revoked');
      if (facts.expiresAt !== null && facts.expiresAt.getTime() <= at) throw new AppError('api_key_expired');
      used.set(facts.id, new Date(at));
      return facts;
    },
    dropKey(tenantId, id) {
      known.dropWhere(
        (facts) => facts.tenantId === (tenantId as TenantId) && (id === undefined || facts.id === id),
      );
      unknown.clear();
    },
    async flushUsed() {
      if (used.size === 0) return;
      const batch = new Map(used);
      used.clear();
      await directory.touchApiKeys(batch);
    },
  };
}

class NoSuchKeyError extends Error {
  override readonly name = 'NoSuchKeyError';
}
