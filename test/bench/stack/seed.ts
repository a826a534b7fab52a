import { randomBytes, randomUUID } from 'node:crypto';
import { accountSecretBinding } from '#core/domain/storage/binding.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { secret } from '#core/domain/storage/secret.ts';
import {
  deriveKeySecret,
  formatServiceKey,
  hashKeySecret,
  newKeyId,
} from '#core/domain/tenant/service-key.ts';
import { deriveSubkeys } from '#core/domain/storage/subkeys.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';

/** The Twilio auth token of every account. */
export const AUTH_TOKEN = '1'.repeat(32);

export type BenchTenant = {
  readonly tenantId: TenantId;
  readonly apiKeyId: string;
  /** The complete text of the key. */
  readonly key: string;
  /** The id of its only account, for sms. */
  readonly accountId: string;
};

export type TenantRecord = BenchTenant & {
  readonly keyId: string;
  readonly secretHash: string;
  readonly ciphertext: string;
};

/** Tenants with a key in the keyring. Each database has the same ones, because creating keys takes long. */
export type TenantPool = {
  /** Writes the tenants `from` to before `until` to a database and creates those that do not exist yet. */
  readonly writeTo: (admin: Sql, from: number, until: number) => Promise<BenchTenant[]>;
  /** Returns tenants that already exist. */
  readonly known: (from: number, until: number) => BenchTenant[];
};

const AT_ONCE = 16;

/** Creates a pool. `made` holds the existing tenants; `onMade` is called after new ones were added to it. */
export function createTenantPool(
  keyring: KeyEncrypter,
  pepper: string,
  made: TenantRecord[],
  onMade: () => Promise<void>,
): TenantPool {
  const subkeys = deriveSubkeys(secret(pepper));

  async function make(): Promise<TenantRecord> {
    const tenantId = randomUUID() as TenantId;
    const [apiKeyId, accountId, keyId] = [randomUUID(), randomUUID(), newKeyId()];
    const keySecret = deriveKeySecret(subkeys['key-secret'], apiKeyId, randomBytes(16));
    await keyring.ensureKey(tenantId);
    const ciphertext = await keyring.encrypt(
      accountSecretBinding(tenantId, accountId),
      Buffer.from(JSON.stringify({ authToken: AUTH_TOKEN })),
    );
    const key = formatServiceKey({ mode: 'live', keyId, secret: keySecret });
    const secretHash = hashKeySecret(subkeys['key-hash'], keySecret).toString('hex');
    return { tenantId, apiKeyId, key, keyId, secretHash, accountId, ciphertext };
  }

  return {
    async writeTo(admin, from, until) {
      while (made.length < until) {
        const few = Math.min(AT_ONCE, until - made.length);
        made.push(...(await Promise.all(Array.from({ length: few }, make))));
      }
      await onMade();
      const tenants = made.slice(from, until);
      await insertTenants(admin, tenants);
      return tenants;
    },
    known: (from, until) => made.slice(from, until),
  };
}

/** Inserts tenants of the enterprise plan, each with an sms account and a key whose limit one load process cannot reach. */
async function insertTenants(admin: Sql, tenants: readonly TenantRecord[]): Promise<void> {
  const column = (name: keyof TenantRecord): string[] => tenants.map((tenant) => tenant[name]);
  await admin.begin(async (tx) => {
    await tx`
      select count(*) from unnest(${column('tenantId')}::uuid[]) u (id),
        despatch.create_tenant(u.id, 'bench-' || u.id, 'bench', 'enterprise', ${tx.json({ ...BUILT_IN_PLANS.enterprise })}, null)`;
    await tx`
      insert into despatch.api_keys (id, tenant_id, key_id, name, mode, scopes, rate_limit_rpm, secret_hash)
      select u.id, u.tenant, u.key_id, 'bench', 'live', '{messages:send,messages:read}', 60000, decode(u.hash, 'hex')
      from unnest(${column('apiKeyId')}::uuid[], ${column('tenantId')}::uuid[], ${column('keyId')}::text[],
        ${column('secretHash')}::text[]) u (id, tenant, key_id, hash)`;
    await tx`
      insert into despatch.provider_accounts (id, tenant_id, provider, channel, label, status, config_public, ciphertext)
      select u.id, u.tenant, 'twilio', 'sms', 'bench', 'active',
        ${tx.json({ accountSid: `AC${'0'.repeat(32)}`, from: '+15550009999' })}, u.ciphertext
      from unnest(${column('accountId')}::uuid[], ${column('tenantId')}::uuid[], ${column('ciphertext')}::text[])
        u (id, tenant, ciphertext)`;
  });
}
