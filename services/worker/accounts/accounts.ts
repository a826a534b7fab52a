import { LRUCache } from 'lru-cache';
import type { TenantId } from '#core/domain/ids.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import { findProvider, parseAccount } from '#providers/registry.ts';
import type { AnyProvider } from '#providers/provider.ts';
import type { ProviderAccountRow } from '#core/store/called-accounts.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { Credentials } from './credentials.ts';

/** A tenant's provider account, ready to be called. */
export type Account = {
  readonly id: string;
  readonly provider: AnyProvider;
  /** Of settings and secret together, which were read together. */
  readonly version: number;
  readonly config: Record<string, unknown>;
  readonly secrets: Record<string, unknown>;
  /** What it was made from; null for a test message's simulator. */
  readonly row: ProviderAccountRow | null;
};

export type AccountLookup =
  | { readonly kind: 'ready'; readonly account: Account }
  /** Vault or the database cannot be asked now; try again, nothing is lost. */
  | { readonly kind: 'unavailable' }
  /** Deleted, its key destroyed, or written for a provider that this build does not know. */
  | { readonly kind: 'unusable'; readonly code: string };

/** The account with each of its secrets that a vendor may sign with now, the present one first. */
export type AccountsInForce =
  | { readonly kind: 'ready'; readonly accounts: readonly [Account, ...Account[]] }
  | Exclude<AccountLookup, { readonly kind: 'ready' }>;

export type Accounts = {
  /** @param version the account's version that the claim saw: a cached copy of another one is not used. */
  get(accountId: string, version: number): Promise<AccountLookup>;
  /** As `get`, and with the secret before, as long as that one holds. */
  inForce(accountId: string, version: number): Promise<AccountsInForce>;
};

const ACCOUNTS_MAX = 20_000;
const ACCOUNTS_AT_ONCE = 256;

/** Account rows are cached by version, decrypted secrets in `credentials`; both are bounded. */
export function createAccounts(
  store: Pick<DeliveryStore, 'loadAccounts'>,
  credentials: Credentials,
  /** Of secrets that were replaced a short time ago. */
  replaced: Credentials,
): Accounts {
  const rows = new LRUCache<string, Promise<ProviderAccountRow | null>>({ max: ACCOUNTS_MAX });
  // One claim may meet as many accounts as messages.
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
    // What failed or was overtaken by a change must not be remembered under this version.
    loading.then(
      (row) => row?.version === version || rows.delete(key),
      () => rows.delete(key),
    );
    return loading;
  }

  /** Parsing costs more than a look-up; what was parsed holds for as long as the cache gives the same secrets out. */
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
      accountId: id,
      secretVersion,
      ciphertext,
    });
    if (!found.ok) {
      return found.reason === 'unavailable'
        ? { kind: 'unavailable' }
        : { kind: 'unusable', code: 'credentials_unreadable' };
    }
    const { secrets } = found;
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
    async inForce(accountId, version) {
      const present = await get(accountId, version);
      if (present.kind !== 'ready') return present;
      const { row } = present.account;
      const isHeld = row?.previousUntil != null && row.previousUntil.getTime() > Date.now();
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
  if (provider === undefined) return { kind: 'unusable', code: 'provider_unknown' };
  const account = parseAccount(provider, row.configPublic, sentSecrets);
  if (!account.ok) return { kind: 'unusable', code: 'config_invalid' };
  const { config, secrets } = account;
  return {
    kind: 'ready',
    account: { id: row.id, provider, version: row.version, config, secrets, row },
  };
}
