import type { Channel } from '#core/domain/channel.ts';
import type { Limits } from '#core/domain/plan.ts';
import type { Wake } from '#core/domain/wake.ts';
import { asJson, withDeadline, type Json, type Sql } from '#core/platform/postgres/postgres.ts';
import { maintainPartitions } from './partitions.ts';

/** A message that a worker has to act on; see `claimed_message` in the schema. */
export type ClaimedMessage = {
  /** `expired` and `no_route`: it has ended instead of being claimed, and there is nothing to do but to tell. */
  readonly action: 'send' | 'lost' | 'expired' | 'no_route';
  readonly id: string;
  readonly purgeOn: string;
  readonly seq: number;
  readonly tenantId: string;
  readonly attempt: number;
  readonly retries: number;
  readonly ambiguous: number;
  readonly providerWaits: number;
  readonly duplicateRisk: boolean;
  readonly channel: Channel;
  readonly address: string;
  readonly sender: string | null;
  /** The channel's content, as the api validated it. */
  readonly content: unknown;
  readonly test: boolean;
  readonly segments: number | null;
  readonly deliveryGuarantee: 'at_least_once' | 'at_most_once';
  readonly enqueuedAt: Date;
  readonly expiresAt: Date;
  readonly traceparent: string | null;
  /** Of the request that sent it; null where none did. */
  readonly requestId: string | null;
  /** Null in test mode, where a simulator answers. */
  readonly providerId: string | null;
  readonly provider: string;
  readonly providerStatus: string | null;
  readonly providerVersion: number | null;
  /** Whether the content is to go as soon as no provider needs it. */
  readonly discard: boolean;
};

/** How an attempt ended and what follows; see `completion` in the schema. What is undefined does not travel. */
export type Completion = {
  readonly id: string;
  readonly purge_on: string;
  readonly seq: number;
  readonly tenant_id: string;
  readonly attempt: number;
  readonly outcome: string;
  readonly outcome_reason: string | undefined;
  readonly failure: Json | undefined;
  readonly http_status: number | undefined;
  readonly provider_message_id: string | undefined;
  readonly sent_from: string | undefined;
  readonly status: string;
  readonly reason: string | undefined;
  readonly failure_shown: Json | undefined;
  readonly next_attempt_ms: number | undefined;
  readonly retries: number;
  readonly ambiguous: number;
  readonly provider_waits: number;
  readonly duplicate_risk: boolean;
  readonly final: boolean;
  readonly await_ms: number | undefined;
  readonly receipts: Json | undefined;
  readonly discard: boolean;
};

export type ProviderAccountRow = {
  readonly id: string;
  readonly tenantId: string;
  readonly provider: string;
  readonly configPublic: unknown;
  readonly ciphertext: string | null;
  readonly secretVersion: number;
  readonly version: number;
  readonly status: string;
};

export type ClaimTerms = {
  /** Names this start of the process, and no other one: what is claimed under it is its own. */
  readonly worker: string;
  readonly leaseMs: number;
  /** Provider accounts that may not be called now. */
  readonly blocked: readonly string[];
};

export type SweepTask = { readonly tenantId: string; readonly task: 'due' | 'hold' | 'release' };

/**
 * The worker's side of the store. Everything here works across tenants through functions of the schema; the worker's
 * role can touch no table. Every call is bounded by `deadlineMs`.
 */
export function deliveryStore(sql: Sql, deadlineMs: number) {
  const bounded = <T>(work: Promise<T>): Promise<T> => withDeadline(work, deadlineMs);

  return {
    async claim(
      wakes: readonly { id: string; purgeOn: string }[],
      terms: ClaimTerms,
    ): Promise<ClaimedMessage[]> {
      const rows = await bounded(
        sql<
          ClaimedRow[]
        >`select * from claim(${wakes.map((w) => w.id)}::uuid[], ${wakes.map((w) => w.purgeOn)}::date[],
          ${terms.worker}, ${terms.leaseMs}, ${[...terms.blocked]}::uuid[])`,
      );
      return rows.map(toClaimed);
    },
    /**
     * `more`: the look stopped at its limit, so there may be more to find.
     * @param again Also what this worker has claimed before and not settled, under the same attempt.
     */
    async claimDue(
      tenantId: string,
      most: number,
      aheadMs: number,
      terms: ClaimTerms,
      again = false,
    ): Promise<{ messages: ClaimedMessage[]; more: boolean }> {
      const rows = await bounded(
        sql<
          (ClaimedRow | { action: 'more' })[]
        >`select * from claim_due(${tenantId}, ${most}, ${aheadMs}, ${terms.worker}, ${terms.leaseMs},
          ${[...terms.blocked]}::uuid[], ${again})`,
      );
      const messages = rows.filter((row): row is ClaimedRow => row.action !== 'more');
      return { messages: messages.map(toClaimed), more: messages.length < rows.length };
    },
    /** A tenant's messages that wait for a call, the longest due first; nothing of them is read but their names. */
    async waitingMessages(tenantId: string, most: number, aheadMs: number): Promise<Wake[]> {
      const rows = await bounded(
        sql<{ id: string; purge_on: string; priority: number }[]>`
          select id, purge_on, priority from waiting_messages(${tenantId}, ${most}, ${aheadMs})`,
      );
      return rows.map(({ id, purge_on, priority }) => ({ id, purgeOn: purge_on, tenantId, priority }));
    },
    /** Ends a message that cannot be claimed as failed. Returns whether it was still waiting for a call. */
    async endRefused({ id, purgeOn }: Pick<Wake, 'id' | 'purgeOn'>): Promise<boolean> {
      const [row] = await bounded(sql<{ ended: boolean }[]>`select end_refused(${id}, ${purgeOn}) as ended`);
      return row?.ended ?? false;
    },
    /** Returns the ids of the completions that counted; the others' attempts were no longer current. */
    async complete(batch: readonly Completion[]): Promise<Set<string>> {
      const rows = await bounded(sql<{ id: string }[]>`select complete(${asJson(sql, batch)}) as id`);
      return new Set(rows.map((row) => row.id));
    },
    /** A content that is stored apart from its message; null where there is none any more. */
    async loadContent({ id, purgeOn }: Pick<ClaimedMessage, 'id' | 'purgeOn'>): Promise<unknown> {
      const [row] = await bounded(
        sql<{ content: string | null }[]>`select load_content(${id}, ${purgeOn}) as content`,
      );
      return row?.content == null ? null : (JSON.parse(row.content) as unknown);
    },
    /** Deletes contents whose messages were never accepted. Returns how many it has looked at. */
    async settleContents(most: number): Promise<number> {
      const [row] = await bounded(sql<{ n: number }[]>`select settle_contents(${most}) as n`);
      return row?.n ?? 0;
    },
    async applyReceipts(most: number): Promise<number> {
      const [row] = await bounded(sql<{ n: number }[]>`select apply_receipts(${most}) as n`);
      return row?.n ?? 0;
    },
    async dueTenants(): Promise<SweepTask[]> {
      const rows = await bounded(
        sql<{ tenant_id: string; task: SweepTask['task'] }[]>`select tenant_id, task from due_tenants()`,
      );
      return rows.map((row) => ({ tenantId: row.tenant_id, task: row.task }));
    },
    async holdTenant(tenantId: string, most: number): Promise<number> {
      const [row] = await bounded(sql<{ n: number }[]>`select hold_tenant(${tenantId}, ${most}) as n`);
      return row?.n ?? 0;
    },
    async releaseTenant(tenantId: string, most: number): Promise<number> {
      const [row] = await bounded(sql<{ n: number }[]>`select release_tenant(${tenantId}, ${most}) as n`);
      return row?.n ?? 0;
    },
    /** By id; without those that are deleted. */
    async loadProviders(ids: readonly string[]): Promise<Map<string, ProviderAccountRow>> {
      const rows = await bounded(
        sql<
          {
            id: string;
            tenant_id: string;
            provider: string;
            config_public: unknown;
            ciphertext: string | null;
            secret_version: number;
            version: number;
            status: string;
          }[]
        >`select * from load_providers(${[...ids]}::uuid[])`,
      );
      return new Map(
        rows.map((row) => [
          row.id,
          {
            id: row.id,
            tenantId: row.tenant_id,
            provider: row.provider,
            configPublic: row.config_public,
            ciphertext: row.ciphertext,
            secretVersion: row.secret_version,
            version: row.version,
            status: row.status,
          },
        ]),
      );
    },
    /**
     * @param version the version of the account that the provider was called with.
     * @param refusal null for a success, else why the credential was refused.
     * @returns the status that the account moved to, null where it did not move.
     */
    async noteProviderResult(id: string, version: number, refusal: string | null): Promise<string | null> {
      const [row] = await bounded(
        sql<{ moved: string | null }[]>`
          select note_provider_result(${id}, ${version}, ${refusal === null}, ${refusal}) as moved`,
      );
      return row?.moved ?? null;
    },
    async noteProviderHealth(id: string, health: 'healthy' | 'open' | 'probing'): Promise<void> {
      await bounded(sql`select note_provider_health(${id}, ${health})`);
    },
    /** The ids of accounts whose check somebody waits for. */
    async takeVerifications(most: number): Promise<string[]> {
      const rows = await bounded(sql<{ id: string }[]>`select id from take_verifications(${most})`);
      return rows.map(({ id }) => id);
    },
    /** @param version the version of the account that was checked. Returns the status that the account moved to. */
    async noteVerification(
      id: string,
      version: number,
      result: 'valid' | 'invalid' | 'unknown',
      reason: string | null,
    ): Promise<string | null> {
      const [row] = await bounded(
        sql<
          { moved: string | null }[]
        >`select note_verification(${id}, ${version}, ${result}, ${reason}) as moved`,
      );
      return row?.moved ?? null;
    },
    /** `limits` is null where a tenant has no row of its own: the free plan holds. */
    async tenantLimits(ids: readonly string[]): Promise<{ tenantId: string; limits: Limits | null }[]> {
      const rows = await bounded(
        sql<{ tenant_id: string; limits: Limits | null }[]>`
          select tenant_id, limits from tenant_limits_of(${[...ids]}::uuid[])`,
      );
      return rows.map((row) => ({ tenantId: row.tenant_id, limits: row.limits }));
    },
    async backlogTotals(): Promise<{ backlog: number; oldestDueSeconds: number }> {
      const [row] = await bounded(
        sql<{ backlog: number; oldest_due_seconds: number | null }[]>`select * from backlog_totals()`,
      );
      return { backlog: row?.backlog ?? 0, oldestDueSeconds: row?.oldest_due_seconds ?? 0 };
    },
    /** Makes partitions ahead and drops those that have served; one worker at a time, the others return at once. */
    maintain: () => maintainPartitions(sql, bounded),
    /** Empties what a new secret has replaced, once its quarter of an hour is over. */
    async forgetReplacedSecrets(): Promise<void> {
      await bounded(sql`select forget_replaced_secrets()`);
    },
  };
}

export type DeliveryStore = ReturnType<typeof deliveryStore>;

type ClaimedRow = {
  action: ClaimedMessage['action'];
  id: string;
  purge_on: string;
  seq: number;
  tenant_id: string;
  attempt: number;
  retries: number;
  ambiguous: number;
  provider_waits: number;
  duplicate_risk: boolean;
  channel: Channel;
  address: string;
  sender: string | null;
  content: unknown;
  test: boolean;
  segments: number | null;
  delivery_guarantee: ClaimedMessage['deliveryGuarantee'];
  enqueued_at: Date;
  expires_at: Date;
  traceparent: string | null;
  request_id: string | null;
  provider_id: string | null;
  provider: string;
  provider_status: string | null;
  provider_version: number | null;
  discard: boolean;
};

function toClaimed(row: ClaimedRow): ClaimedMessage {
  return {
    action: row.action,
    id: row.id,
    purgeOn: row.purge_on,
    seq: row.seq,
    tenantId: row.tenant_id,
    attempt: row.attempt,
    retries: row.retries,
    ambiguous: row.ambiguous,
    providerWaits: row.provider_waits,
    duplicateRisk: row.duplicate_risk,
    channel: row.channel,
    address: row.address,
    sender: row.sender,
    content: row.content,
    test: row.test,
    segments: row.segments,
    deliveryGuarantee: row.delivery_guarantee,
    enqueuedAt: row.enqueued_at,
    expiresAt: row.expires_at,
    traceparent: row.traceparent,
    requestId: row.request_id,
    providerId: row.provider_id,
    provider: row.provider,
    providerStatus: row.provider_status,
    providerVersion: row.provider_version,
    discard: row.discard,
  };
}
