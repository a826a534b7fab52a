import { hash, timingSafeEqual } from 'node:crypto';
import { AppError } from '#core/domain/app-error.ts';
import type { ApiKeyId, TenantId } from '#core/domain/ids.ts';
import { hashKeySecret, keyIdOf, parseServiceKey } from '#core/domain/service-key.ts';
import type { ApiKeyFacts, DirectoryStore } from '#core/store/directory.ts';
import { createFreshCache } from './fresh-cache.ts';

export type ServiceKeys = {
  /** Answers at once for a warm key. @throws AppError 401 for a key that is not or no longer good. */
  readonly verify: (text: string) => ApiKeyFacts | Promise<ApiKeyFacts>;
  readonly dropKey: (tenantId: string, id?: string) => void;
  /** Writes down when keys were last used. */
  readonly flushUsed: () => Promise<void>;
};

const KEYS_MAX = 20_000;
const UNKNOWN_MAX = 20_000;
/** Compared where there is no such key, so that this takes as long as where there is one. */
const NO_HASH = Buffer.alloc(32);

/** A text that was found to be a key, for as long as the facts it was compared with are cached. */
type Proof = { readonly digest: Buffer; readonly isCurrent: boolean };

/** Checks service keys. A warm key costs one digest and no question to the database. */
export function createServiceKeys(
  directory: Pick<DirectoryStore, 'findApiKey' | 'touchApiKeys'>,
  hashSubkey: Buffer,
  now: () => number = Date.now,
): ServiceKeys {
  const known = createFreshCache<ApiKeyFacts>(KEYS_MAX);
  // Apart, so that guesses cannot push real keys out.
  const unknown = createFreshCache<'none'>(UNKNOWN_MAX);
  const used = new Map<ApiKeyId, number>();
  const proofs = new WeakMap<ApiKeyFacts, Proof>();

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

  /** The facts of a text that was proven to be their key before; else undefined. */
  function recall(text: string): { facts: ApiKeyFacts; isCurrent: boolean } | undefined {
    const facts = known.peek(keyIdOf(text));
    const proof = facts && proofs.get(facts);
    if (facts === undefined || proof === undefined) return undefined;
    return timingSafeEqual(digestOf(text), proof.digest) ? { facts, isCurrent: proof.isCurrent } : undefined;
  }

  async function prove(text: string): Promise<ApiKeyFacts> {
    const parsed = parseServiceKey(text);
    if (parsed === null) throw new AppError('unauthenticated');
    const facts = await find(parsed.keyId);
    const secretHash = hashKeySecret(hashSubkey, parsed.secret);
    const isCurrent = timingSafeEqual(secretHash, facts?.secretHash ?? NO_HASH);
    const isPrevious = timingSafeEqual(secretHash, facts?.previousSecretHash ?? NO_HASH);
    if (facts === null || facts.mode !== parsed.mode || !(isCurrent || isPrevious)) {
      throw new AppError('unauthenticated');
    }
    proofs.set(facts, { digest: digestOf(text), isCurrent });
    return use(facts, isCurrent);
  }

  /** What time decides is decided at every call. */
  function use(facts: ApiKeyFacts, isCurrent: boolean): ApiKeyFacts {
    const at = now();
    if (!isCurrent && !(facts.graceUntil !== null && facts.graceUntil.getTime() > at)) {
      throw new AppError('unauthenticated');
    }
    if (facts.revokedAt !== null) throw new AppError('api_key_revoked');
    if (facts.expiresAt !== null && facts.expiresAt.getTime() <= at) throw new AppError('api_key_expired');
    used.set(facts.id, at);
    return facts;
  }

  return {
    verify(text) {
      const recalled = recall(text);
      return recalled === undefined ? prove(text) : use(recalled.facts, recalled.isCurrent);
    },
    dropKey(tenantId, id) {
      known.dropWhere(
        (facts) => facts.tenantId === (tenantId as TenantId) && (id === undefined || facts.id === id),
      );
      unknown.clear();
    },
    async flushUsed() {
      if (used.size === 0) return;
      const batch = new Map([...used].map(([id, at]) => [id, new Date(at)]));
      used.clear();
      await directory.touchApiKeys(batch);
    },
  };
}

function digestOf(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}

class NoSuchKeyError extends Error {
  override readonly name = 'NoSuchKeyError';
}
