import type { z } from 'zod';
import type { EpochClock } from '#core/domain/clock.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Failure } from '#core/domain/sending/failure.ts';
import type { CallDeadline, HttpRequest, HttpResult } from '#core/domain/sending/http-exchange.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { ResolvedHost } from '#core/domain/sending/resolved-host.ts';
import type { AnyGuide, ProviderGuide } from './guide.ts';
import type { LookupDefinition } from './lookup.ts';
import type { ReceiptDefinition } from './receipt.ts';

export type { CallDeadline, HttpRequest, HttpResult };

export type HttpSender = (request: HttpRequest, until: CallDeadline) => Promise<HttpResult>;
export type EgressResolver = (host: string, port: number) => Promise<ResolvedHost>;

/** An adapter's only access to the network; everything is bound to one tenant's account and one attempt. */
export type ProviderContext = {
  /**
   * Sends one request within the attempt's deadline, with a body cap and without redirects or retries. Never throws. A
   * request to a host that a tenant chose sets `isTenantHost`: its connection must pass the egress guard, or it is
   * `not_sent` with the code `egress_blocked`.
   */
  readonly http: (request: HttpRequest) => Promise<HttpResult>;
  /**
   * Resolves a tenant-supplied host to the addresses that passed the egress guard; connect to them, and keep the host name for
   * TLS. Returns `refused` when the host is unknown, or when any of its addresses or the port is forbidden.
   */
  readonly resolve: EgressResolver;
  /** Returns the vendor's origin, or the operator's override for this provider (never tenant input). No trailing slash. */
  readonly origin: (vendorOrigin: string) => string;
  /**
   * Remembers a derived credential (an OAuth token) for the lifetime of this account version. Concurrent callers share one
   * load; a rejected load is not remembered. `forget` drops the value, for a token refused before its expiry.
   */
  readonly memo: <T>(key: string, load: () => Promise<{ value: T; expiresAt: number }>) => Promise<T>;
  readonly forget: (key: string) => void;
  /** Aborted when the attempt's deadline passes; created on first access. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly epochMs: EpochClock;
};

/** A fault in one field of an account. The message states the rule and never repeats a value. */
export type FieldFault = { readonly field: string; readonly rule: string; readonly message: string };

export type Verification =
  | { readonly kind: 'valid' }
  /** The provider refused the credential itself. */
  | { readonly kind: 'invalid'; readonly failure: Failure }
  /** The provider could not be asked; the credential may be valid or not. */
  | { readonly kind: 'unknown'; readonly failure: Failure };

/**
 * For every setting, whether it affects where or how an account's secrets are sent: to which host, port or account at the
 * vendor, as which user, and how protected. `true`: its value does. A function: its result over all settings does, for a
 * value with several spellings or a default that depends on other settings. `false`: it does not.
 */
export type SecretRoute<Config> = {
  readonly [Field in keyof Config]-?: boolean | ((config: Config) => unknown);
};

/**
 * One provider of the catalog. Production code of a provider is one folder with a `provider.ts` whose default export is one
 * definition or an array of them; the registry is generated from the folders. Tests and the quick start: see CONTRIBUTING.
 */
export type ProviderDefinition<
  C extends Channel = Channel,
  Config extends z.ZodObject = z.ZodObject,
  Secrets extends z.ZodObject = z.ZodObject,
> = {
  /** Catalog id, for example `twilio`. */
  readonly id: string;
  readonly channel: C;
  /** Display name. */
  readonly name: string;
  /**
   * How the provider prevents a second copy of one message: `key` (an idempotency key), `lookup` (by our reference, made
   * before a call is repeated), or `none`. Decides what may be resent after an ambiguous call.
   */
  readonly dedupe: 'key' | 'lookup' | 'none';
  /**
   * Only with `key`: how long the provider remembers an idempotency key, in milliseconds. No call is repeated later. Absent: for
   * longer than a message waits.
   */
  readonly keyLifetimeMs?: number;
  /**
   * How the provider reports on accepted messages; null when it never does, so that `sent` is the final state. A simulator
   * returns its receipts with the outcome.
   */
  readonly receipts: ReceiptDefinition<z.output<Config>, z.output<Secrets>> | 'simulated' | null;
  /**
   * How to look up a message whose receipt has not arrived or whose call got no answer. Absent: the provider's API has no
   * lookup.
   */
  readonly lookup?: LookupDefinition<z.output<Config>, z.output<Secrets>>;
  /**
   * The vendor's limit on a message's `body`, in characters (Unicode code points); null when it has none. A longer body is
   * refused before any call, and the sender gets a warning.
   */
  readonly bodyCharactersMax: number | null;
  /**
   * How long one `send` may take in milliseconds, where answers that come later than the worker's PROVIDER_DEADLINE_MS are
   * usual. The worker grants as much of it as its lease allows. Absent: the worker's own.
   */
  readonly deadlineMs?: number;
  /** What tenants need to know about the vendor: the parts of its page that the schemas do not cover. */
  readonly guide: ProviderGuide<C>;
  /** Non-secret settings: `publicConfig` in the contract, with keys already in camelCase. */
  readonly config: Config;
  /** Secret settings: `secretConfig` in the contract, with keys already in camelCase. */
  readonly secrets: Secrets;
  /**
   * A user who may change settings must not be able to redirect a stored secret: changing a setting named here requires
   * `secretConfig` again.
   */
  readonly secretRoute: SecretRoute<z.output<Config>>;
  /**
   * Only where tenants name a host of their own to call, under any domain: the setting that names it, and the host that it names.
   * An address that must not be called is refused when the setting is stored.
   */
  readonly tenantHost?: {
    readonly setting: keyof z.output<Config> & string;
    readonly hostOf: (config: z.output<Config>) => string;
  };
  /**
   * Checks rules that need several settings together and no secret. Runs when the settings are valid one by one, also for a change
   * that keeps the stored secret; fields are named `publicConfig.x`.
   */
  checkConfig?(config: z.output<Config>): readonly FieldFault[];
  /**
   * Checks rules that need config and secrets together, for example a user name that requires a password. Runs only when
   * both halves are valid on their own; fields are named `publicConfig.x` or `secretConfig.x`.
   */
  check?(account: {
    readonly config: z.output<Config>;
    readonly secrets: z.output<Secrets>;
  }): readonly FieldFault[];
  send(
    message: OutboundFor<C>,
    account: { readonly config: z.output<Config>; readonly secrets: z.output<Secrets> },
    context: ProviderContext,
  ): Promise<Outcome>;
  /** Asks the provider whether the credential works, without sending a message. */
  verify(
    account: { readonly config: z.output<Config>; readonly secrets: z.output<Secrets> },
    context: ProviderContext,
  ): Promise<Verification>;
};

/** A provider without its message and account types, as the registry and the worker handle it. */
export type AnyProvider = Omit<
  ProviderDefinition,
  'secretRoute' | 'tenantHost' | 'receipts' | 'lookup' | 'guide' | 'checkConfig' | 'check' | 'send' | 'verify'
> & {
  readonly guide: AnyGuide;
  readonly receipts: ReceiptDefinition<never, never> | 'simulated' | null;
  readonly lookup?: LookupDefinition<never, never>;
  readonly secretRoute: Readonly<Record<string, boolean | ((config: never) => unknown)>>;
  readonly tenantHost?: { readonly setting: string; readonly hostOf: (config: never) => string };
  checkConfig?(config: never): readonly FieldFault[];
  check?(account: never): readonly FieldFault[];
  send(message: never, account: never, context: ProviderContext): Promise<Outcome>;
  verify(account: never, context: ProviderContext): Promise<Verification>;
};

/** Infers the types of a definition; at runtime it returns its argument. */
export function defineProvider<C extends Channel, Config extends z.ZodObject, Secrets extends z.ZodObject>(
  definition: ProviderDefinition<C, Config, Secrets>,
): ProviderDefinition<C, Config, Secrets> {
  return definition;
}
