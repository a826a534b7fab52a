import { randomUUID } from 'node:crypto';
import { addressKeyHex, addressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import { createMessageIds } from '#core/domain/storage/message-id.ts';
import { BUILT_IN_PLANS, type Limits } from '#core/domain/tenant/plan.ts';
import { purgeDay } from '#core/domain/storage/purge-day.ts';
import { secret } from '#core/domain/storage/secret.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { acceptMessages, type AcceptRow, type Verdict as Accepted } from '#core/store/messages/acceptance.ts';

/** A tenant whose rows were written over the superuser's connection before a test. */
export type SeededTenant = { readonly tenantId: string; readonly slug: string; readonly apiKeyId: string };

export async function seedTenant(admin: Sql, limits: Partial<Limits> = {}): Promise<SeededTenant> {
  const [tenantId, apiKeyId] = [randomUUID(), randomUUID()];
  const slug = `t-${tenantId.slice(0, 8)}`;
  await admin`select despatch.create_tenant(${tenantId}, ${slug}, ${slug}, 'free',
    ${admin.json({ ...BUILT_IN_PLANS.free, ...limits })}, null)`;
  await admin`insert into despatch.api_keys (id, tenant_id, key_id, name, mode, scopes, secret_hash)
    values (${apiKeyId}, ${tenantId}, ${apiKeyId.slice(0, 16)}, 'seed', 'live', ${['messages:send']}, ${Buffer.alloc(32)})`;
  return { tenantId, slug, apiKeyId };
}

/** Suspends a tenant with a reason, or resumes it with null. */
export async function moveSuspension(admin: Sql, tenantId: string, reason: string | null): Promise<void> {
  await admin.begin(async (tx) => {
    await tx`select set_config('app.tenant', ${tenantId}, true)`;
    await tx`select despatch.set_suspension(${tenantId}, ${reason}, 'test')`;
  });
}

/** Ids of the oldest accounts, by tenant and channel. */
const oldestAccounts = new Map<string, string>();

export async function seedAccount(
  admin: Sql,
  tenantId: string,
  options: { provider?: string; channel?: Channel; config?: object; ratePerSecond?: number } = {},
): Promise<string> {
  const id = randomUUID();
  const channel = options.channel ?? 'sms';
  await admin`insert into despatch.provider_accounts (id, tenant_id, provider, channel, label, config_public, ciphertext,
      rate_limit_per_second)
    values (${id}, ${tenantId}, ${options.provider ?? `simulator-${channel}`}, ${channel}, 'seed',
      ${admin.json((options.config ?? {}) as never)}, 'test:{}', ${options.ratePerSecond ?? null})`;
  const key = `${tenantId} ${channel}`;
  if (!oldestAccounts.has(key)) oldestAccounts.set(key, id);
  return id;
}

/** The root of the address keys by which tests find the recipients of `acceptRow`. */
export const ADDRESS_KEYS = addressKeyRoot(secret('address keys of seeded messages'));

/** Ids of rows that no test requests from an api by id. */
const ids = createMessageIds(Buffer.alloc(16));
/** Far beyond the numbers that an api reserves in the same database. */
let nextSeq = 2 ** 40;

export type TestRow = Record<string, unknown> & {
  readonly seq: number;
  readonly purge_on: string;
  readonly id: string;
  readonly account_id: string;
};

/**
 * Returns a complete row of an accept batch, which a test overrides where needed. Its account is the one in the overrides, else
 * the oldest that was seeded for its channel, else one that does not exist any more.
 */
export function acceptRow(tenant: SeededTenant, overrides: Record<string, unknown> = {}): TestRow {
  const {
    test = false,
    channel = 'sms',
    address = '+15550000001',
    retention_days: retentionDays = 30,
    pinned_account_id: pinned,
    send_at: sendAt,
  } = overrides;
  const enqueuedAt = new Date();
  const keptFrom = Math.max(enqueuedAt.getTime(), typeof sendAt === 'string' ? Date.parse(sendAt) : 0);
  const place = { seq: nextSeq++, purgeOn: purgeDay(keptFrom, Number(retentionDays)) };
  const id = ids.encode(place);
  const account = pinned ?? oldestAccounts.get(`${tenant.tenantId} ${String(channel)}`) ?? randomUUID();
  return {
    seq: place.seq,
    purge_on: place.purgeOn,
    id,
    tenant_id: tenant.tenantId,
    api_key_id: tenant.apiKeyId,
    account_id: test === true ? NO_ACCOUNT : (account as string),
    channel: 'sms',
    recipient: '+15550000001',
    address: '+15550000001',
    address_key: `\\x${addressKeyHex(ADDRESS_KEYS, tenant.tenantId, channel as Channel, address as string)}`,
    content: { body: 'Hello' },
    category: 'transactional',
    priority: 1,
    test: false,
    segments: 1,
    encoding: 'GSM-7',
    delivery_guarantee: 'at_least_once',
    content_retention: 'retain',
    enqueued_at: enqueuedAt.toISOString(),
    expires_at: new Date(enqueuedAt.getTime() + 86_400_000).toISOString(),
    retention_days: 30,
    rate_per_minute: 6_000,
    messages_per_day: 10_000,
    backlog_max: 100_000,
    response: { id, status: 'queued' },
    ...overrides,
  };
}

export type Verdict = Accepted & { readonly response: { id: string } | null };

/** Longer than the api's deadline: a test may hold a lock on a busy machine. */
const ACCEPT_DEADLINE_MS = 60_000;

/** Accepts rows through the api's accept function. */
export async function acceptBatch(
  sql: Sql,
  rows: readonly Record<string, unknown>[],
  sweepAfterMs = 5_000,
): Promise<Verdict[]> {
  const batch = rows as unknown as readonly AcceptRow[];
  return (await acceptMessages(sql, batch, sweepAfterMs, { deadlineMs: ACCEPT_DEADLINE_MS })) as Verdict[];
}
