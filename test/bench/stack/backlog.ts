import { DAY_MS } from '#core/domain/text/duration.ts';
import { addressKeyHex, addressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { chunks } from '#core/domain/chunks.ts';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { encodeWakes, WAKES_PER_MESSAGE_MAX } from '#core/domain/queue/wake.ts';
import { acceptMessages, type AcceptRow } from '#core/store/messages/acceptance.ts';
import { messageText } from '../load/request-text.ts';
import { placeMessages, type Placed } from './layout.ts';
import type { BenchTenant } from './seed.ts';
import type { World } from './stack.ts';

const AT_ONCE = 500;
const ADDRESS_KEYS = addressKeyRoot(secret('address keys of a backlog'));

/** Stores what an api stores while no worker runs: rows in Postgres and wake-ups in the stream, with tenants interleaved. */
export async function fillBacklog(
  world: World,
  tenants: readonly BenchTenant[],
  messages: number,
  firstNumber = 0,
): Promise<void> {
  for (let from = 0; from < messages; from += AT_ONCE) {
    const now = Date.now();
    const times = Array.from({ length: Math.min(AT_ONCE, messages - from) }, () => now);
    const rows = (await placeMessages(world.admin, times)).map((placed, i) =>
      row(tenants[(from + i) % tenants.length] as BenchTenant, placed, firstNumber + from + i),
    );
    const verdicts = await acceptMessages(world.admin, rows, 5_000, { deadlineMs: 60_000 });
    const wakes = rows.map(({ id, seq, tenant_id: tenantId, account_id: accountId }, i) => {
      const verdict = verdicts[i];
      if (verdict?.verdict !== 'accepted') throw new Error(`the backlog was refused: ${verdict?.verdict}`);
      return { id, seq, tenantId, accountId };
    });
    const { failed } = await world.nats.publishWakes(
      chunks(wakes, WAKES_PER_MESSAGE_MAX).map((group) => ({
        kind: 'normal',
        id: (group[0] as { id: string }).id,
        payload: encodeWakes(group),
      })),
    );
    if (failed.length > 0) throw new Error(`${failed.length} wake-ups were not taken`);
  }
}

function row(
  { tenantId, apiKeyId, accountId }: BenchTenant,
  { seq, purgeOn, id }: Placed,
  n: number,
): AcceptRow {
  const now = Date.now();
  const { to, body, externalId } = messageText(n);
  const { messagesPerDay, backlogMax, retentionDays } = BUILT_IN_PLANS.enterprise;
  return {
    seq,
    purge_on: purgeOn,
    id,
    tenant_id: tenantId,
    api_key_id: apiKeyId,
    channel: 'sms',
    recipient: to,
    address: to,
    address_key: `\\x${addressKeyHex(ADDRESS_KEYS, tenantId, 'sms', to)}`,
    sender: null,
    content: { body },
    external_id: externalId,
    category: 'transactional',
    priority: 1,
    test: false,
    account_id: accountId,
    pinned_account_id: null,
    segments: 1,
    encoding: 'GSM-7',
    delivery_guarantee: 'at_least_once',
    content_retention: 'retain',
    metadata: { order: externalId },
    tags: ['parcel'],
    traceparent: null,
    request_id: 'backlog',
    enqueued_at: new Date(now).toISOString(),
    expires_at: new Date(now + DAY_MS).toISOString(),
    retention_days: retentionDays,
    rate_per_minute: 1_000_000,
    messages_per_day: messagesPerDay,
    backlog_max: backlogMax,
    scope: null,
    fingerprint: null,
    response: { id, status: 'queued' },
  };
}
