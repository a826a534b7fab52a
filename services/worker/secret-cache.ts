import { LRUCache } from 'lru-cache';
import type { MonotonicClock } from '#core/domain/clock.ts';
import type { Binding } from '#core/domain/storage/binding.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { HOUR_MS } from '#core/domain/text/duration.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { within } from '#core/platform/process/deadline.ts';
import { doubledMs } from '#core/platform/process/pause.ts';
import type { KeyDecrypter } from '#core/platform/vault/keyring.ts';

export type SecretRequest = {
  readonly tenantId: TenantId;
  /** Id of what the secret belongs to, such as an account or an endpoint. */
  readonly subject: string;
  readonly secretVersion: number;
  readonly ciphertext: string;
};

export type SecretResult<Secret> =
  | { readonly ok: true; readonly secret: Secret }
  /** `unavailable`: the caller can retry later without loss. `missing`: the secret is unreadable or permanently gone. */
  | { readonly ok: false; readonly reason: 'unavailable' | 'missing' };

export type SecretCache<Secret> = {
  /** Returns the secret. Never rejects. Concurrent requests for one secret share one call to the keyring. */
  readonly get: (request: SecretRequest) => Promise<SecretResult<Secret>>;
  /** Drops a subject's secret, including one that is being fetched. */
  readonly invalidate: (subject: string) => void;
  /** Drops expired secrets that no call has requested since. The owner calls it periodically. */
  readonly forgetStale: () => void;
  /**
   * How long the subjects used in the last five minutes can continue without the keyring; 0 if one of them waits for it; null if
   * there are none.
   */
  readonly autonomySeconds: () => number | null;
};

export type SecretCacheOptions<Secret> = {
  readonly decrypter: KeyDecrypter;
  /** Returns the context that a ciphertext is bound to. */
  readonly bindingOf: (tenantId: TenantId, subject: string) => Binding;
  /**
   * Converts the plaintext into the value that is cached; the plaintext is wiped afterwards. Throws if the plaintext is invalid.
   */
  readonly read: (plaintext: Uint8Array) => Secret;
  /** Maximum number of cached subjects. */
  readonly entriesMax: number;
  /** How long a secret is used before the keyring is asked again, with a jitter of ±20 %. */
  readonly ttlMs: number;
  /** How much longer an expired secret is used while the keyring cannot be reached. Default one hour. */
  readonly staleMsMax?: number;
  readonly monotonicMs?: MonotonicClock;
  readonly random?: () => number;
};

type Entry<Secret> = {
  secretVersion: number;
  ciphertext: string;
  held?: { readonly secret: Secret; readonly freshUntil: number; readonly staleUntil: number };
  loading?: Promise<SecretResult<Secret>>;
  /** Why the last call failed; returned without a new call until `retryAt`. */
  failure?: { readonly reason: 'unavailable' | 'missing'; readonly retryAt: number };
  failures: number;
  usedAt: number;
};

const STALE_MS_DEFAULT = HOUR_MS;
const RETRY = { minMs: 1_000, maxMs: 5_000 };
/** A caller with a usable cached secret waits at most this long for a fresh one. */
const REFRESH_WAIT_MS = 250;
const ACTIVE_MS = 300_000;

/** Creates a cache of decrypted secrets, in this process's memory only, bounded in number and time. */
export function createSecretCache<Secret>(options: SecretCacheOptions<Secret>): SecretCache<Secret> {
  const { entriesMax, ttlMs, staleMsMax = STALE_MS_DEFAULT } = options;
  const { monotonicMs = () => performance.now(), random = Math.random } = options;
  const entries = new LRUCache<string, Entry<Secret>>({ max: entriesMax });

  const entryOf = ({ subject, secretVersion, ciphertext }: SecretRequest): Entry<Secret> => {
    const known = entries.get(subject);
    // With the same version, the secret was at most encrypted again; with the same ciphertext, the secret is unchanged.
    if (known?.secretVersion === secretVersion || known?.ciphertext === ciphertext)
      return Object.assign(known, { secretVersion, ciphertext });
    const entry: Entry<Secret> = { secretVersion, ciphertext, failures: 0, usedAt: monotonicMs() };
    entries.set(subject, entry);
    return entry;
  };

  const load = async (entry: Entry<Secret>, request: SecretRequest): Promise<SecretResult<Secret>> => {
    const result = await decryptSecret(options, request);
    delete entry.loading;
    if (result.ok) {
      const freshUntil = monotonicMs() + ttlMs * (0.8 + 0.4 * random());
      entry.held = { secret: result.secret, freshUntil, staleUntil: freshUntil + staleMsMax };
      entry.failures = 0;
      delete entry.failure;
      return result;
    }
    // After its key is destroyed, a secret must no longer be used.
    if (result.reason === 'missing') delete entry.held;
    const waitMs = doubledMs(entry.failures, RETRY) * (0.8 + 0.2 * random());
    entry.failure = { reason: result.reason, retryAt: monotonicMs() + Math.max(RETRY.minMs, waitMs) };
    entry.failures += 1;
    return heldResult(entry, monotonicMs()) ?? result;
  };

  return {
    async get(request) {
      const entry = entryOf(request);
      const time = monotonicMs();
      entry.usedAt = time;
      if (entry.held !== undefined && time < entry.held.freshUntil)
        return { ok: true, secret: entry.held.secret };
      const held = heldResult(entry, time);
      if (entry.failure !== undefined && time < entry.failure.retryAt) {
        return held ?? { ok: false, reason: entry.failure.reason };
      }
      entry.loading ??= load(entry, request);
      return held === null ? entry.loading : firstOf(entry.loading, held);
    },
    invalidate(subject) {
      entries.delete(subject);
    },
    forgetStale() {
      const time = monotonicMs();
      for (const [subject, entry] of entries.entries()) {
        if (entry.held === undefined || time < entry.held.staleUntil) continue;
        if (isActive(entry, time)) delete entry.held;
        else entries.delete(subject);
      }
    },
    autonomySeconds() {
      const time = monotonicMs();
      let leastMs: number | null = null;
      for (const entry of entries.values()) {
        const ms = isActive(entry, time) ? autonomyMs(entry, time) : undefined;
        if (ms !== undefined) leastMs = Math.min(leastMs ?? Infinity, ms);
      }
      return leastMs === null ? null : leastMs / 1_000;
    },
  };
}

function isActive({ usedAt }: Entry<unknown>, time: number): boolean {
  return time - usedAt <= ACTIVE_MS;
}

/** Returns 0 while messages wait for the keyring, and undefined for a secret that the keyring could not give either. */
function autonomyMs({ held, failure }: Entry<unknown>, time: number): number | undefined {
  if (held !== undefined && time < held.staleUntil) return held.staleUntil - time;
  return held !== undefined || failure?.reason === 'unavailable' ? 0 : undefined;
}

function heldResult<Secret>({ held }: Entry<Secret>, time: number): SecretResult<Secret> | null {
  return held !== undefined && time < held.staleUntil ? { ok: true, secret: held.secret } : null;
}

async function decryptSecret<Secret>(
  { decrypter, bindingOf, read }: SecretCacheOptions<Secret>,
  { tenantId, subject, ciphertext }: SecretRequest,
): Promise<SecretResult<Secret>> {
  let plaintext: Uint8Array;
  try {
    plaintext = await decrypter.decrypt(bindingOf(tenantId, subject), ciphertext);
  } catch (error) {
    // The operator can fix a refusal by Vault, so messages wait as they do in an outage.
    const isRejected = error instanceof DependencyError && error.fault === 'rejected';
    return { ok: false, reason: isRejected ? 'missing' : 'unavailable' };
  }
  try {
    return { ok: true, secret: read(plaintext) };
  } catch {
    return { ok: false, reason: 'missing' };
  } finally {
    plaintext.fill(0);
  }
}

/** Reads a plaintext that is JSON; whoever uses the value checks it. */
export function readJson(plaintext: Uint8Array): unknown {
  return JSON.parse(Buffer.from(plaintext).toString('utf8'));
}

/** Returns the fresh result if it arrives within REFRESH_WAIT_MS, else the cached one. */
function firstOf<Secret>(
  fresh: Promise<SecretResult<Secret>>,
  held: SecretResult<Secret>,
): Promise<SecretResult<Secret>> {
  return within(fresh, REFRESH_WAIT_MS, () => held);
}
