// Webhook endpoints of the bench's tenants, and the events that are due at them.
import { randomBytes, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { webhookSecretBinding } from '#core/domain/storage/binding.ts';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import { matchesEndpoint } from '#core/domain/webhooks/webhook-endpoint.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { feedNumberingStore } from '#core/store/webhooks/feed-numbering.ts';
import { loadMessageIdKey } from '#core/store/messages/message-places.ts';
import { webhookStore, type WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { eventBody } from '../../../services/worker/webhooks/event-body.ts';
import type { BenchTenant } from './seed.ts';
import { storeSentMessages } from './sent-messages.ts';
import type { BenchStack, World } from './stack.ts';

export type BenchEndpoint = {
  readonly id: string;
  readonly tenantId: string;
  /** Path of its URL; each endpoint has its own. */
  readonly path: string;
};

export type EndpointTerms = {
  /** The receiver's port. */
  readonly port: number;
  /** Default: all types. */
  readonly eventTypes?: readonly string[];
  /** Default: active. */
  readonly status?: 'active' | 'paused';
};

/** Adds an endpoint for each given tenant, once per occurrence. It subscribes from the current end of the feed. */
export async function addEndpoints(
  { encrypter }: BenchStack,
  { admin }: World,
  tenants: readonly BenchTenant[],
  { port, eventTypes = ['*'], status = 'active' }: EndpointTerms,
): Promise<BenchEndpoint[]> {
  const rows = await Promise.all(
    tenants.map(async ({ tenantId }) => {
      const id = randomUUID();
      const text = `whsec_${randomBytes(32).toString('base64')}`;
      const secret = await encrypter.encrypt(webhookSecretBinding(tenantId, id), Buffer.from(text));
      return { id, tenantId, secret, path: `/${id}` };
    }),
  );
  await admin`
    insert into webhook_endpoints (id, tenant_id, url, event_types, secret, status, matched_to)
    select u.id, u.tenant, ${`http://127.0.0.1:${port}/`} || u.id, ${[...eventTypes]}, u.secret, ${status},
      coalesce((select f.last_seq from feed f where f.tenant_id = u.tenant order by f.last_seq desc limit 1), 0)
    from unnest(${rows.map(({ id }) => id)}::uuid[], ${rows.map(({ tenantId }) => tenantId)}::uuid[],
      ${rows.map(({ secret }) => secret)}::text[]) as u (id, tenant, secret)`;
  return rows.map(({ id, tenantId, path }) => ({ id, tenantId, path }));
}

/** Removes all endpoints; their waiting events are never delivered. */
export async function removeEndpoints({ admin }: World): Promise<void> {
  await admin`update webhook_endpoints set deleted_at = now() where deleted_at is null`;
}

/** Changes the port of an endpoint; a worker reads its URL with each claim. */
export async function moveEndpoint({ admin }: World, id: string, port: number): Promise<void> {
  await admin`
    update webhook_endpoints set url = ${`http://127.0.0.1:${port}/`} || id, version = version + 1 where id = ${id}`;
}

export async function pauseEndpoint({ admin }: World, id: string): Promise<void> {
  await admin`update webhook_endpoints set status = 'paused', version = version + 1 where id = ${id}`;
}

const CHANGES_AT_ONCE = 1_000;

/**
 * Stores what a worker that matches and does not call leaves behind: events of so many messages, each due at its tenant's
 * endpoints.
 */
export async function storeDueEvents(
  { admin }: World,
  tenants: readonly BenchTenant[],
  messages: number,
): Promise<void> {
  await storeSentMessages(admin, tenants, messages);
  // The events of their acceptance.
  await admin`
    select note_changes(array_agg(m.tenant_id order by m.seq), array_agg(m.seq order by m.seq),
      array_agg(m.purge_on order by m.seq), null)
    from (select tenant_id, seq, purge_on, (row_number() over (order by seq)) / 100 as run from messages) m group by m.run`;
  const numbering = feedNumberingStore(admin, direct);
  while ((await numbering.numberChanges(CHANGES_AT_ONCE, 0)).outcome === 'more');
  const store = storeOf(admin);
  let tenantIds: readonly string[] = tenants.map(({ tenantId }) => tenantId);
  while (tenantIds.length > 0) {
    const terms = { match: matchesEndpoint, claimsMax: 0, tenantClaimsMax: 0, leaseMs: LEASE_MS, busy: [] };
    tenantIds = (await store.matchEvents(tenantIds, terms)).behind;
  }
  await admin`vacuum (analyze) feed, endpoint_feed, due_deliveries, changes`;
}

const LEASE_MS = 600_000;

/** Writes a file with path and body of every due event, exactly as a worker would post them. @returns its path. */
export async function writeDuePosts({ admin }: World, folder: string): Promise<string> {
  const store = storeOf(admin);
  const posts: [path: string, body: string][] = [];
  let after: string | null = null;
  for (;;) {
    const ask = {
      after,
      endpointsMax: 1_000,
      claimsMax: 100,
      tenantClaimsMax: 100,
      busy: [],
      leaseMs: LEASE_MS,
    };
    const { claims, next }: Awaited<ReturnType<WebhookStore['claimDeliveries']>> =
      await store.claimDeliveries(ask);
    for (const { endpoint, events } of claims)
      for (const { event, seq } of events)
        posts.push([new URL(endpoint.url).pathname, eventBody(event, seq, false).toString()]);
    after = next;
    if (next === null && claims.length === 0) break;
  }
  const file = join(folder, 'posts.json');
  await writeFile(file, JSON.stringify(posts));
  return file;
}

function storeOf(admin: Sql): WebhookStore {
  return webhookStore(
    admin,
    direct,
    createIdLoader(() => loadMessageIdKey(admin)),
  );
}

const direct = <T>(work: Promise<T>): Promise<T> => work;

// Counting ---------------------------------------------------------------------------------------------------------

/** Counts the events that are still due at endpoints. */
export async function countDue(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select coalesce(sum(last_seq - first_seq + 1), 0)::bigint as n from due_deliveries`;
  return row?.n ?? 0;
}

/** Counts the events that have a number in their tenants' feeds. */
export async function countNumbered(sql: Sql, tenants: readonly BenchTenant[]): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select coalesce(sum(f.last_seq), 0)::bigint as n
    from unnest(${tenants.map(({ tenantId }) => tenantId)}::uuid[]) as u (id),
      lateral (select x.last_seq from feed x where x.tenant_id = u.id order by x.last_seq desc limit 1) f`;
  return row?.n ?? 0;
}

/** Counts the events in the feeds of these endpoints. */
export async function countMatched(sql: Sql, endpoints: readonly BenchEndpoint[]): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select coalesce(sum(f.last_seq), 0)::bigint as n
    from unnest(${endpoints.map(({ id }) => id)}::uuid[]) as u (id),
      lateral (select x.last_seq from endpoint_feed x where x.endpoint_id = u.id order by x.last_seq desc limit 1) f`;
  return row?.n ?? 0;
}
