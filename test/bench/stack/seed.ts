import { randomBytes, randomUUID } from 'node:crypto';
import { providerSecretBinding } from '#core/domain/binding.ts';
import type { TenantId } from '#core/domain/ids.ts';
import { PLANS } from '#core/domain/plan.ts';
import { secret } from '#core/domain/secret.ts';
import { deriveKeySecret, formatServiceKey, hashKeySecret, newKeyId } from '#core/domain/service-key.ts';
import { deriveSubkeys } from '#core/domain/subkeys.ts';
import type { KeyEncrypter } from '#core/platform/keyring.ts';
import type { Sql } from '#core/platform/postgres.ts';

export type BenchTenant = {
  readonly tenantId: TenantId;
  readonly apiKeyId: string;
  /** The key's whole text. */
  readonly key: string;
};

export type SeedOptions = {
  readonly count: number;
  readonly keyring: KeyEncrypter;
  readonly pepper: string;
};

const AT_ONCE = 8;

/** Tenants of the enterprise plan, each with an sms provider and a key whose limit no load of one process reaches. */
export async function seedTenants(admin: Sql, options: SeedOptions): Promise<BenchTenant[]> {
  const { count, keyring, pepper } = options;
  const subkeys = deriveSubkeys(secret(pepper));
  const tenants: BenchTenant[] = [];
  const seed = async (): Promise<void> => {
    const tenantId = randomUUID() as TenantId;
    const [apiKeyId, providerId, keyId] = [randomUUID(), randomUUID(), newKeyId()];
    const keySecret = deriveKeySecret(subkeys['key-secret'], apiKeyId, randomBytes(16));
    const slug = `bench-${tenantId}`;
    tenants.push({ tenantId, apiKeyId, key: formatServiceKey({ mode: 'live', keyId, secret: keySecret }) });
    await keyring.ensureKey(tenantId);
    const ciphertext = await keyring.encrypt(
      providerSecretBinding(tenantId, providerId),
      Buffer.from(JSON.stringify({ authToken: '1'.repeat(32) })),
    );
    await admin`select despatch.create_tenant(${tenantId}, ${slug}, ${slug}, 'enterprise',
      ${admin.json({ ...PLANS.enterprise })}, null)`;
    await admin`insert into despatch.api_keys (id, tenant_id, key_id, name, mode, scopes, rate_limit_rpm, secret_hash)
      values (${apiKeyId}, ${tenantId}, ${keyId}, 'bench', 'live', ${['messages:send', 'messages:read']}, 60000,
        ${hashKeySecret(subkeys['key-hash'], keySecret)})`;
    await admin`insert into despatch.providers (id, tenant_id, provider, channel, label, status, config_public, ciphertext)
      values (${providerId}, ${tenantId}, 'twilio', 'sms', 'bench', 'active',
        ${admin.json({ accountSid: `AC${'0'.repeat(32)}`, from: '+15550009999' })}, ${ciphertext})`;
  };
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (tenants.length < count) await seed();
    }),
  );
  return tenants;
}
