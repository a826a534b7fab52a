import { randomUUID } from 'node:crypto';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { acceptBatch, acceptRow, seedAccount } from './seed.ts';
import { plantSuppression } from './suppress.ts';

/** Counts the rows of a tenant by table: in every table with a tenant column, and its own row. */
export async function leftoversOf(admin: Sql, tenantId: string): Promise<Record<string, number>> {
  const tables = await admin<{ name: string; col: string }[]>`
    select c.relname as name, a.attname as col from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = 'despatch'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and ((a.attname = 'tenant_id') or (c.relname = 'tenants' and a.attname = 'id'))`;
  const counts: Record<string, number> = {};
  for (const { name, col } of tables) {
    const [found] = await admin<{ n: number }[]>`
      select count(*)::integer as n from ${admin(name)} where ${admin(col)} = ${tenantId}`;
    if (found !== undefined && found.n > 0) counts[name] = found.n;
  }
  return counts;
}

/** Tables that `fillTenant` fills at least. */
export const FILLED_TABLES = [
  'messages',
  'live_messages',
  'idempotency_keys',
  'provider_accounts',
  'routes',
  'api_keys',
  'members',
  'audit_log',
  'suppressions',
];

/** Gives a tenant with a member and an audit entry a key, an account and waiting messages. */
export async function fillTenant(
  admin: Sql,
  api: Sql,
  tenantId: string,
): Promise<{ tenantId: string; slug: string; apiKeyId: string }> {
  const apiKeyId = randomUUID();
  await admin`insert into api_keys (id, tenant_id, key_id, name, mode, scopes, secret_hash)
    values (${apiKeyId}, ${tenantId}, ${apiKeyId.slice(0, 16)}, 'seed', 'live', ${['messages:send']}, ${Buffer.alloc(32)})`;
  const accountId = await seedAccount(admin, tenantId, { ratePerSecond: 5 });
  await admin`insert into routes (tenant_id, channel, version, strategy, steps, failover_on)
    values (${tenantId}, 'sms', 1, 'priority', ${admin.json([{ accountId, weight: 1 }])}, '{}')`;
  const tenant = { tenantId, slug: '', apiKeyId };
  // A recipient that none of the messages has.
  await plantSuppression(admin, tenantId, { address: '+15550000099' });
  for (let i = 0; i < 30; i += 1) {
    const scope = randomUUID().replaceAll('-', '').repeat(2);
    await acceptBatch(api, [acceptRow(tenant, { scope, fingerprint: scope })]);
  }
  return tenant;
}
