import type { z } from 'zod';
import type { Channel } from '#core/domain/channel.ts';
import type { OutboundFor } from '#core/domain/content.ts';
import type { Failure } from '#core/domain/failure.ts';
import type { CallEnd, HttpRequest, HttpResult } from '#core/domain/http-exchange.ts';
import type { Outcome } from '#core/domain/outcome.ts';
import type { AnyGuide, ProviderGuide } from './guide.ts';
import type { LookupDefinition } from './lookup.ts';
import type { ReceiptDefinition } from './receipt.ts';

export type { CallEnd, HttpRequest, HttpResult };

export type ResolvedHost =
  | { readonly kind: 'address'; readonly address: string }
  | { readonly kind: 'refused'; readonly code: 'dns' | 'egress_blocked' };

export type HttpSender = (request: HttpRequest, until: CallEnd) => Promise<HttpResult>;
export type EgressResolver = (host: string, port: number) => Promise<ResolvedHost>;

/** The only way out that an adapter has; everything is bound to one tenant's account and one attempt. */
export type ProviderContext = {
  /**
   * Sends one request within the attempt's deadline: a body cap, no redirects, no retries. Never throws. A request to a
   * host that a tenant chose says so (`isTenantHost`): its connection passes the egress guard, else it is `not_sent` with
   * the code `egress_blocked`.
   */
  readonly http: (request: HttpRequest) => Promise<HttpResult>;
  /**
   * Resolves a tenant-supplied host to one address that passed the egress guard; connect to that address, keep the
   * host name for TLS. Fails as a value when the host is unknown, or any of its addresses or the port is forbidden.
   */
  readonly resolve: EgressResolver;
  /** The vendor's origin, or the operator's override for this provider (never tenant input). No trailing slash. */
  readonly origin: (vendorOrigin: string) => string;
  /**
   * Remembers a derived credential (an OAuth token) for as long as this version of the account lives.
   * Single-flight; a rejected load is not remembered. `forget` drops it, for a token refused before its time.
   */
  readonly memo: <T>(key: string, load: () => Promise<{ value: T; expiresAt: number }>) => Promise<T>;
  readonly forget: (key: string) => void;
  /** Aborted when the attempt's deadline passes; made when it is first asked for. */
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
};

/** What is wrong with one field of an account. The message says the rule and never repeats a value. */
export type FieldFault = { readonly field: string; readonly rule: string; readonly message: string };

export type Verification =
  | { readonly kind: 'valid' }
  /** The provider refused the credential itself. */
  | { readonly kind: 'invalid'; readonly failure: Failure }
  /** The provider could not be asked; says nothing about the credential. */
  | { readonly kind: 'unknown'; readonly failure: Failure };

/**
 * For every setting, whether it decides where or how an account's secrets travel: to which host, port or account of the
 * vendor, as which user, and how protected. `true`: its value does. A function: what it makes of all settings does, where
 * one thing has several spellings or a default that depends on other settings. `false`: it does not.
 */
export type SecretRoute<Config> = {
  readonly [Field in keyof Config]-?: boolean | ((config: Config) => unknown);
};

/**
 * One provider of the catalog. The definition is all there is to adding one: a folder with `provider.ts` whose default
 * export is one definition or an array of them; the registry is generated from the folders.
 */
export type ProviderDefinition<
  C extends Channel = Channel,
  Config extends z.ZodObject = z.ZodObject,
  Secrets extends z.ZodObject = z.ZodObject,
> = {
  /** Catalog id, for example `twilio`. */
  readonly id: string;
  readonly channel: C;
  /** Name for people. */
  readonly name: string;
  /**
   * How the provider itself guards against a second copy of one message: `key` (an idempotency key), `lookup` (by our
   * reference: asked before a call is repeated), or `none`. Decides what may be resent after an ambiguous call.
   */
  readonly dedupe: 'key' | 'lookup' | 'none';
  /**
   * How the provider reports on messages that it has accepted; null where it never does, so that `sent` is the last word.
   * A simulator gives its receipts along with the outcome.
   */
  readonly receipts: ReceiptDefinition<z.output<Config>, z.output<Secrets>> | 'simulated' | null;
  /**
   * How the provider is asked what became of a message whose receipt has not come, or whose call had no answer. Absent:
   * its API tells nobody.
   */
  readonly lookup?: LookupDefinition<z.output<Config>, z.output<Secrets>>;
  /**
   * Most characters (Unicode code points) of a message's `body` that the vendor takes; null where it sets no bound. The
   * account refuses a longer one before any call, and whoever sends it is warned.
   */
  readonly bodyCharactersMax: number | null;
  /** What tenants have to know of the vendor: what its page says beside the schemas. */
  readonly guide: ProviderGuide<C>;
  /** Non-secret settings: `publicConfig` of the contract, keys already in camelCase. */
  readonly config: Config;
  /** Secret settings: `secretConfig` of the contract, keys already in camelCase. */
  readonly secrets: Secrets;
  /**
   * Who may change settings must not be able to have a stored secret sent to a place of their own: a change of what is
   * named here needs `secretConfig` again.
   */
  readonly secretRoute: SecretRoute<z.output<Config>>;
  /**
   * Rules that need config and secrets together, for example a user name that calls for a password. Runs only when both
   * halves are valid by themselves; fields are named `publicConfig.x` or `secretConfig.x`.
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
  /** Asks the provider whether the credential works, without sending anything to anyone. */
  verify(
    account: { readonly config: z.output<Config>; readonly secrets: z.output<Secrets> },
    context: ProviderContext,
  ): Promise<Verification>;
};

/** Any provider, its message and account types forgotten: what registry and worker handle. */
export type AnyProvider = Omit<
  ProviderDefinition,
  'secretRoute' | 'receipts' | 'lookup' | 'guide' | 'check' | 'send' | 'verify'
> & {
  readonly guide: AnyGuide;
  readonly receipts: ReceiptDefinition<never, never> | 'simulated' | null;
  readonly lookup?: LookupDefinition<never, never>;
  readonly secretRoute: Readonly<Record<string, boolean | ((config: never) => unknown)>>;
  check?(account: never): readonly FieldFault[];
  send(message: never, account: never, context: ProviderContext): Promise<Outcome>;
  verify(account: never, context: ProviderContext): Promise<Verification>;
};

/** Gives a definition its types; the runtime value is the argument itself. */
export function defineProvider<C extends Channel, Config extends z.ZodObject, Secrets extends z.ZodObject>(
  definition: ProviderDefinition<C, Config, Secrets>,
): ProviderDefinition<C, Config, Secrets> {
  return definition;
}
