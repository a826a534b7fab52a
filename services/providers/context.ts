import { LRUCache } from 'lru-cache';
import type { EpochClock } from '#core/domain/clock.ts';
import type { CallDeadline, EgressResolver, HttpRequest, HttpSender, ProviderContext } from './provider.ts';

export type ProviderContextsOptions = {
  readonly http: HttpSender;
  readonly resolve: EgressResolver;
  /** Origins by provider id that the operator configured instead of the vendors' own; without a trailing slash. */
  readonly baseUrls?: Readonly<Record<string, string>>;
  readonly epochMs?: EpochClock;
};

/** The account and the attempt that a context is bound to. */
export type ProviderCall = {
  readonly provider: string;
  readonly accountId: string;
  /**
   * Increases with every change of the account's settings or secret; values derived from one version are not used for
   * another.
   */
  readonly version: number;
  /** The attempt's deadline. */
  readonly until: CallDeadline;
};

type Remembered = {
  readonly loaded: Promise<{ readonly value: unknown; readonly expiresAt: number }>;
  expiresAt: number;
};

const REMEMBERED_MAX = 10_000;

/** Binds the outbound functions once per process; the returned function creates the context of one call. */
export function createProviderContexts(
  options: ProviderContextsOptions,
): (call: ProviderCall) => ProviderContext {
  const { http, resolve, baseUrls = {}, epochMs = Date.now } = options;
  const remembered = new LRUCache<string, Remembered>({ max: REMEMBERED_MAX });

  return ({ provider, accountId, version, until }) => {
    const override = Object.hasOwn(baseUrls, provider) ? baseUrls[provider]?.replace(/\/+$/, '') : undefined;
    const keyOf = (key: string) => JSON.stringify([accountId, version, key]);
    return new CallContext(until, {
      http: (request) => http(boundTo(accountId, withoutGuard(request, override)), until),
      resolve,
      origin: (vendorOrigin) => override ?? vendorOrigin,
      memo: (key, load) => memo(remembered, keyOf(key), load, epochMs),
      forget: (key) => void remembered.delete(keyOf(key)),
      epochMs,
    });
  };
}

/**
 * A class because of its getter: V8 keeps an object literal with a getter as a hash table, which costs half a kilobyte per
 * call in flight.
 */
class CallContext implements ProviderContext {
  readonly http: ProviderContext['http'];
  readonly resolve: ProviderContext['resolve'];
  readonly origin: ProviderContext['origin'];
  readonly memo: ProviderContext['memo'];
  readonly forget: ProviderContext['forget'];
  readonly epochMs: ProviderContext['epochMs'];
  readonly #until: CallDeadline;
  #signal: AbortSignal | undefined;

  constructor(until: CallDeadline, bound: Omit<ProviderContext, 'signal'>) {
    this.http = bound.http;
    this.resolve = bound.resolve;
    this.origin = bound.origin;
    this.memo = bound.memo;
    this.forget = bound.forget;
    this.epochMs = bound.epochMs;
    this.#until = until;
  }

  get signal(): AbortSignal {
    return (this.#signal ??= signalOf(this.#until));
  }
}

function signalOf(until: CallDeadline): AbortSignal {
  if (typeof until !== 'number') return until;
  const controller = new AbortController();
  // Nothing reports the end of the call, so the timer must not keep the process or the call's objects alive.
  setTimeout(() => controller.abort(), Math.max(0, until - performance.now())).unref();
  return controller.signal;
}

/**
 * The egress guard is for hosts that tenants choose; a host replaced by the operator's origin is not the tenant's any more.
 */
function withoutGuard(request: HttpRequest, override: string | undefined): HttpRequest {
  if (request.isTenantHost !== true || override === undefined || !request.url.startsWith(`${override}/`)) {
    return request;
  }
  const { isTenantHost: _, ...trusted } = request;
  return trusted;
}

/** Two accounts never share an HTTP/2 connection, even with the same identity at the vendor. */
function boundTo(accountId: string, request: HttpRequest): HttpRequest {
  return request.http2 === undefined
    ? request
    : { ...request, http2: JSON.stringify([accountId, request.http2]) };
}

async function memo<T>(
  remembered: LRUCache<string, Remembered>,
  key: string,
  load: () => Promise<{ value: T; expiresAt: number }>,
  epochMs: EpochClock,
): Promise<T> {
  const known = remembered.get(key);
  if (known !== undefined && known.expiresAt > epochMs()) return (await known.loaded).value as T;
  // All callers share the load until it settles.
  const entry: Remembered = { loaded: load(), expiresAt: Number.POSITIVE_INFINITY };
  remembered.set(key, entry);
  try {
    const { value, expiresAt } = await entry.loaded;
    entry.expiresAt = expiresAt;
    return value as T;
  } catch (error) {
    if (remembered.get(key) === entry) remembered.delete(key);
    throw error;
  }
}
