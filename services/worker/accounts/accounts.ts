import { LRUCache } from 'lru-cache';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import { findProvider, parseAccount } from '#providers/registry.ts';
import type { AnyProvider } from '#providers/provider.ts';
import type { ProviderAccountRow } from '#core/store/accounts/called-accounts.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Credentials } from './credentials.ts';

/** A tenant's provider account, ready to be called. */
export type Account = {
  readonly id: string;
  readonly provider: AnyProvider;
  /** Version of the account row; settings and secret were read from the same row. */
  readonly version: number;
  readonly config: Record<string, unknown>;
  readonly secrets: Record<string, unknown>;
  /** The row that the account was parsed from; null for the simulator of a test message. */
  readonly row: ProviderAccountRow | null;
};

export type AccountLookup =
  | { readonly kind: 'ready'; readonly account: Account }
  /**
   * Vault or the database does not answer now, or this build does not know the provider: during an upgrade, another worker does. The
   * caller can retry without loss.
   */
  | { readonly kind: 'unavailable' }
  /** The account was deleted or its key destroyed, or this build refuses its settings. */
  | {
      readonly kind: 'unusable';
      readonly code: 'provider_deleted' | 'credentials_unreadable' | 'config_invalid';
    };

/** The account with each secret that the vendor may have signed with, the current secret first. */
export type AccountsInForce =
  | { readonly kind: 'ready'; readonly accounts: readonly [Account, ...Account[]] }
  | Exclude<AccountLookup, { readonly kind: 'ready' }>;

export type Accounts = {
  /**
   * Returns the account, from the cache or the database.
   * @param version the account version that the claim read; a cached copy of another version is not used.
   */
  get(accountId: string, version: number): Promise<AccountLookup>;
  /**
   * Like `get`, and adds the previous secret if it was still valid at a time.
   * @param atMs when the vendor's call arrived, in milliseconds since the epoch by Postgres's clock. A call may be read hours later.
   */
  inForce(accountId: string, version: number, atMs: number): Promise<AccountsInForce>;
};

const ACCOUNTS_MAX = 20_000;
const ACCOUNTS_AT_ONCE = 256;

/**
 * Creates the cache of account rows, keyed by version. Decrypted secrets are cached in `credentials`. Both caches are bounded.
 */
export function createAccounts(
  store: Pick<WorkerStore, 'loadAccounts'>,
  credentials: Credentials,
  /** Cache of the secrets that were replaced recently. */
  replaced: Credentials,
): Accounts {
  const rows = new LRUCache<string, Promise<ProviderAccountRow | null>>({ max: ACCOUNTS_MAX });
  // A claim may contain as many accounts as messages, so lookups are batched.
  const loads = createMicroBatch<string, ProviderAccountRow | null>({
    itemsMax: ACCOUNTS_AT_ONCE,
    flushesMax: 2,
    queuedMax: ACCOUNTS_MAX,
    async flush(ids) {
      const found = await store.loadAccounts(ids);
      return ids.map((id) => found.get(id) ?? null);
    },
  });

  function load(accountId: string, version: number): Promise<ProviderAccountRow | null> {
    const key = `${accountId} ${version}`;
    const known = rows.get(key);
    if (known !== undefined) return known;
    const loading = loads.add(accountId);
    rows.set(key, loading);
    // Do not cache a failed load, or a row of another version, under this version.
    loading.then(
      (row) => row?.version === version || rows.delete(key),
      () => rows.delete(key),
    );
    return loading;
  }

  /**
   * Caches parsed accounts, because parsing costs more than a lookup. An entry is valid while the cache returns the same secrets
   * object.
   */
  const parsed = new WeakMap<object, Account>();

  async function get(accountId: string, version: number): Promise<AccountLookup> {
    const row = await load(accountId, version).catch(() => 'unavailable' as const);
    if (row === 'unavailable') return { kind: 'unavailable' };
    if (row === null || row.ciphertext === null) return { kind: 'unusable', code: 'provider_deleted' };
    return open(row, row.ciphertext, credentials);
  }

  async function open(
    row: ProviderAccountRow,
    ciphertext: string,
    from: Credentials,
  ): Promise<AccountLookup> {
    const { tenantId, id, secretVersion } = row;
    const found = await from.get({
      tenantId: tenantId as TenantId,
      subject: id,
      secretVersion,
      ciphertext,
    });
    if (!found.ok) {
      return found.reason === 'unavailable'
        ? { kind: 'unavailable' }
        : { kind: 'unusable', code: 'credentials_unreadable' };
    }
    const { secret: secrets } = found;
    if (typeof secrets !== 'object' || secrets === null)
      return { kind: 'unusable', code: 'credentials_unreadable' };
    const known = parsed.get(secrets);
    if (known?.row === row) return { kind: 'ready', account: known };
    const lookup = parseRow(row, secrets);
    if (lookup.kind === 'ready') parsed.set(secrets, lookup.account);
    return lookup;
  }

  return {
    get,
    async inForce(accountId, version, atMs) {
      const present = await get(accountId, version);
      if (present.kind !== 'ready') return present;
      const { row } = present.account;
      const isHeld = row?.previousUntil != null && row.previousUntil.getTime() > atMs;
      if (row?.previousCiphertext == null || !isHeld) return { kind: 'ready', accounts: [present.account] };
      const before = await open(row, row.previousCiphertext, replaced);
      if (before.kind === 'unavailable') return before;
      return {
        kind: 'ready',
        accounts: before.kind === 'ready' ? [present.account, before.account] : [present.account],
      };
    },
  };
}

function parseRow(row: ProviderAccountRow, sentSecrets: unknown): AccountLookup {
  const provider = findProvider(row.provider);
  if (provider === undefined) return { kind: 'unavailable' };
  const account = parseAccount(provider, row.configPublic, sentSecrets);
  if (!account.ok) return { kind: 'unusable', code: 'config_invalid' };
  const { config, secrets } = account;
  return {
    kind: 'ready',
    account: { id: row.id, provider, version: row.version, config, secrets, row },
  };
}
