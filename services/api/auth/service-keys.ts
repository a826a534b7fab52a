import { hash, timingSafeEqual, type KeyObject } from 'node:crypto';
import type { EpochClock } from '#core/domain/clock.ts';
import { AppError, unauthenticated } from '#core/domain/fault/app-error.ts';
import type { ApiKeyId } from '#core/domain/storage/ids.ts';
import { hashKeySecret, keyIdOf, parseServiceKey } from '#core/domain/tenant/service-key.ts';
import type { CallerFacts, DirectoryStore } from '#core/store/tenants/directory.ts';
import type { FindCaller } from './caller-lookup.ts';
import { createFreshCache } from '../caches/fresh-cache.ts';

export type ServiceKeys = {
  /** Returns synchronously for a cached key. @throws AppError 401 for an invalid, expired or revoked key. */
  readonly verify: (text: string) => CallerFacts | Promise<CallerFacts>;
  /** Drops the cached facts of one or all of a tenant's keys. */
  readonly drop: (tenantId: string, keyId?: string) => void;
  /** Stores when keys were last used. */
  readonly flushUsed: () => Promise<void>;
};

const KEYS_MAX = 20_000;
/** Accounts and steps of routes in all cached keys: each key has its own copies of its tenant's, about a hundred bytes each. */
const PARTS_MAX = 500_000;
const UNKNOWN_MAX = 20_000;
/** Compared when the key does not exist, so that the check takes the same time. */
const NO_HASH = Buffer.alloc(32);

const SEVERAL_KEYS = 'header X-Service-Key must be given once, with one API key';
/** The same message for every invalid key, so that guessing reveals nothing. */
const NOT_A_KEY = 'the API key in X-Service-Key is not valid';

/** A text that was verified as a key; valid while the facts that it was compared with are cached. */
type Proof = { readonly digest: Buffer; readonly isCurrent: boolean };

export type ServiceKeysDeps = {
  readonly findCaller: FindCaller;
  readonly touchApiKeys: DirectoryStore['touchApiKeys'];
  readonly hashSubkey: KeyObject;
  readonly epochMs?: EpochClock;
};

/** Verifies service keys. A cached key costs one digest and no query. */
export function createServiceKeys(deps: ServiceKeysDeps): ServiceKeys {
  const { findCaller, touchApiKeys, hashSubkey, epochMs = Date.now } = deps;
  const known = createFreshCache<CallerFacts>(KEYS_MAX, undefined, {
    max: PARTS_MAX,
    of: ({ sendingAccounts, routes }) =>
      1 + sendingAccounts.length + routes.reduce((sum, { steps }) => sum + 1 + steps.length, 0),
  });
  // A separate cache, so that guesses cannot evict real keys.
  const unknown = createFreshCache<'none'>(UNKNOWN_MAX);
  const used = new Map<ApiKeyId, number>();
  const proofs = new WeakMap<CallerFacts, Proof>();

  async function find(keyId: string): Promise<CallerFacts | null> {
    if (unknown.peek(keyId) !== undefined) return null;
    const facts = await known.get(keyId, () => findCaller(keyId));
    if (facts === null) await unknown.get(keyId, async () => 'none');
    return facts;
  }

  /** Returns the cached facts of a text that was verified before; otherwise undefined. */
  function recall(text: string): { facts: CallerFacts; isCurrent: boolean } | undefined {
    const facts = known.peek(keyIdOf(text));
    const proof = facts && proofs.get(facts);
    if (facts === undefined || proof === undefined) return undefined;
    return timingSafeEqual(digestOf(text), proof.digest) ? { facts, isCurrent: proof.isCurrent } : undefined;
  }

  async function prove(text: string): Promise<CallerFacts> {
    const parsed = parseServiceKey(text);
    // The parser joins the values of several headers.
    if (parsed === null) throw unauthenticated(text.includes(',') ? SEVERAL_KEYS : NOT_A_KEY);
    const facts = await find(parsed.keyId);
    const secretHash = hashKeySecret(hashSubkey, parsed.secret);
    const isCurrent = timingSafeEqual(secretHash, facts?.key.secretHash ?? NO_HASH);
    const isPrevious = timingSafeEqual(secretHash, facts?.key.previousSecretHash ?? NO_HASH);
    const isFormer = facts?.key.formerSecretHashes.some((former) => timingSafeEqual(secretHash, former));
    if (facts === null || facts.key.mode !== parsed.mode || !(isCurrent || isPrevious || isFormer === true)) {
      throw unauthenticated(NOT_A_KEY);
    }
    if (isFormer === true)
      throw new AppError(facts.key.revokedAt === null ? 'api_key_rotated' : 'api_key_revoked');
    proofs.set(facts, { digest: digestOf(text), isCurrent });
    return use(facts, isCurrent);
  }

  /** Time-dependent rules, such as expiry, are checked on every call. */
  function use(facts: CallerFacts, isCurrent: boolean): CallerFacts {
    const at = epochMs();
    const { id, graceUntil, revokedAt, expiresAt } = facts.key;
    // Only a caller with a once-valid secret gets here and learns why the secret is refused.
    if (revokedAt !== null) throw new AppError('api_key_revoked');
    if (!isCurrent && !(graceUntil !== null && graceUntil.getTime() > at))
      throw new AppError('api_key_rotated');
    if (expiresAt !== null && expiresAt.getTime() <= at) throw new AppError('api_key_expired');
    used.set(id, at);
    return facts;
  }

  return {
    verify(text) {
      const recalled = recall(text);
      return recalled === undefined ? prove(text) : use(recalled.facts, recalled.isCurrent);
    },
    drop(tenantId, keyId) {
      known.dropWhere(
        ({ key, tenant }) => tenant.id === tenantId && (keyId === undefined || key.id === keyId),
      );
      unknown.clear();
    },
    async flushUsed() {
      if (used.size === 0) return;
      const batch = new Map([...used].map(([id, at]) => [id, new Date(at)]));
      used.clear();
      await touchApiKeys(batch);
    },
  };
}

function digestOf(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}
