import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import { matchesEndpoint } from '#core/domain/webhooks/webhook-endpoint.ts';
import type { DeliveryClaim } from '#core/store/webhooks/delivery-claim.ts';
import type { DeliveryCompletion } from '#core/store/webhooks/delivery-completion.ts';
import { webhookStore, type WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { acceptBatch, acceptRow, seedAccount, type SeededTenant, seedTenant } from '#test/support/seed.ts';
import { setupStores } from './setup-stores.ts';

export const LEASE_MS = 60_000;

export const direct = <T>(work: Promise<T>): Promise<T> => work;

/** Sets up a tenant that can send, and the single steps that workers take to deliver its events. */
export async function setupWebhooks() {
  const stores = await setupStores();
  const { admin, api, store, worker } = stores;
  const tenant = await seedTenant(admin, { messagesPerDay: 1_000_000 });
  await seedAccount(admin, tenant.tenantId);
  const loadIds = createIdLoader(store.messageIdKey);
  const webhooks = webhookStore(worker, direct, loadIds);

  async function endpoint(settings: Record<string, unknown> = {}, of = tenant.tenantId): Promise<string> {
    const row = {
      tenant_id: of,
      url: 'https://hooks.test/',
      event_types: ['*'],
      secret: 'vault:v1:s',
      matched_to: 0,
      ...settings,
    };
    const [made] = await admin<
      { id: string }[]
    >`insert into despatch.webhook_endpoints ${admin(row)} returning id`;
    return made?.id ?? '';
  }
  async function number(): Promise<string[]> {
    const tenants = new Set<string>();
    for (;;) {
      const pass = await store.numberChanges(100, 0);
      for (const id of pass.endpointTenants) tenants.add(id);
      if (pass.outcome !== 'more') return [...tenants];
    }
  }
  /** Accepts messages, each with one event. Returns their numbers. */
  async function send(
    n: number,
    of: SeededTenant = tenant,
    overrides: Record<string, unknown> = {},
  ): Promise<number[]> {
    const rows = Array.from({ length: n }, () => acceptRow(of, overrides));
    for (let i = 0; i < n; i += 500) await acceptBatch(api, rows.slice(i, i + 500));
    await number();
    return rows.map(({ seq }) => seq);
  }
  const match = (claimsMax = 0, by: WebhookStore = webhooks, leaseMs = LEASE_MS, of = [tenant.tenantId]) =>
    by.matchEvents(of, { match: matchesEndpoint, claimsMax, tenantClaimsMax: claimsMax, leaseMs, busy: [] });
  async function server(): Promise<number> {
    const [row] = await worker<{ server: number }[]>`
      select server from endpoints_to_match(${[tenant.tenantId]}::uuid[])`;
    return row?.server ?? 0;
  }
  async function matchAll(): Promise<void> {
    while ((await match()).behind.length > 0);
  }
  const claim = async (
    terms: Partial<Parameters<WebhookStore['claimDeliveries']>[0]> = {},
    by: WebhookStore = webhooks,
  ) =>
    by.claimDeliveries({
      after: null,
      endpointsMax: 100,
      claimsMax: 100,
      tenantClaimsMax: 100,
      busy: [],
      leaseMs: LEASE_MS,
      ...terms,
    });
  const claims = async (...args: Parameters<typeof claim>) => (await claim(...args)).claims;
  /** Returns the numbers in an endpoint's feed. */
  const feed = (id: string) => admin<{ seq: number; message: number }[]>`
    select f.first_seq + u.nth - 1 as seq, u.message from despatch.endpoint_feed f, unnest(f.seqs) with ordinality as u (message, nth)
    where f.endpoint_id = ${id} order by f.last_seq, u.nth`;
  const due = (id: string) => admin<{ id: number; first: number; last: number; isClaimed: boolean }[]>`
    select id, first_seq as first, last_seq as last, claim is not null as "isClaimed" from despatch.due_deliveries
    where endpoint_id = ${id} order by first_seq`;
  const over = (what: 'leases' | 'everything' = 'leases') => admin`
    update despatch.due_deliveries set due_at = now() - interval '1 second'
    where ${what === 'everything' ? admin`true` : admin`claim is not null`}`;
  return {
    ...stores,
    loadIds,
    tenant,
    webhooks,
    endpoint,
    number,
    send,
    match,
    server,
    matchAll,
    claim,
    claims,
    feed,
    due,
    over,
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

export const upTo = (n: number, from = 1) => Array.from({ length: n - from + 1 }, (_, i) => from + i);

/** Returns the numbers of the claimed events. */
export const seqsOf = (claimed: readonly DeliveryClaim[]) =>
  claimed.flatMap(({ events }) => events.map(({ seq }) => seq));

export const attemptOf = (claim: DeliveryClaim, seq: number, isSuccess: boolean) => ({
  seq,
  attempt: claim.attempts + 1,
  at: new Date(),
  durationMs: 12,
  status: isSuccess ? 200 : 503,
  error: null,
  answer: 'ok',
  succeeded: isSuccess,
});

/** Returns what a completion says of its claim. */
export const partsOf = (claim: DeliveryClaim): Pick<DeliveryCompletion, 'claim' | 'messages'> => ({
  claim,
  messages: claim.events.flatMap(({ messageSeq }) => messageSeq ?? []),
});

export const succeeded = (claim: DeliveryClaim): DeliveryCompletion => ({
  ...partsOf(claim),
  attempts: claim.events.map(({ seq }) => attemptOf(claim, seq, true)),
  again: [],
  uncalled: [],
});
