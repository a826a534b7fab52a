import type { Channel } from '#core/domain/message/channel.ts';
import { ENDPOINT_MOVES, type EndpointStatus } from '#core/domain/webhooks/endpoint-state.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';

export const SIGNATURES = ['v1', 'v1a'] as const;
export type Signature = (typeof SIGNATURES)[number];

/** The settings of an endpoint that a tenant can change. */
export type EndpointSettings = {
  readonly url: string;
  readonly description: string | null;
  readonly eventTypes: readonly string[];
  readonly finalOnly: boolean;
  readonly channels: readonly Channel[];
  readonly tags: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly ordered: boolean;
  readonly maskRecipients: boolean;
  readonly rateLimitPerSecond: number | null;
  readonly signatures: readonly Signature[];
};

/** Everything that the api may know of an endpoint: all but its secrets. Deleted endpoints are not visible. */
export type EndpointRecord = EndpointSettings & {
  readonly id: string;
  /** The number that delivery ids encrypt; higher for each new endpoint, until the maximum is reached. */
  readonly number: number;
  readonly hasClientCertificate: boolean;
  readonly status: EndpointStatus;
  readonly statusReason: string | null;
  /** Number of failed calls since the last success, and the time of the first of them. */
  readonly failures: number;
  readonly failingSince: Date | null;
  readonly secretVersion: number;
  /** Until when the former secret signs too; null if none does. */
  readonly previousSecretUntil: Date | null;
  /** Incremented by every change. */
  readonly version: number;
  /** The highest number of its own feed; 0 before the first event. */
  readonly lastSeq: number;
  /** Number of deliveries still to be made, counted up to `PENDING_MAX`. */
  readonly pending: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
};

/** Pending deliveries are counted up to this number. */
export const PENDING_MAX = 1_000;

export type NewEndpoint = EndpointSettings & {
  readonly id: string;
  /** Ciphertexts. */
  readonly secret: string;
  readonly clientCertificate: string | null;
};

/** Inserts an endpoint. Its feed starts after the tenant's newest event. */
export async function insertEndpoint(
  tenantId: TenantId,
  tx: TransactionSql,
  endpoint: NewEndpoint,
): Promise<void> {
  const { id, url, description, eventTypes, finalOnly, channels, tags, headers } = endpoint;
  await tx`
    insert into webhook_endpoints (id, tenant_id, url, description, event_types, final_only, channels, tags, headers, ordered,
      mask_recipients, rate_limit_per_second, signatures, secret, client_certificate, matched_to)
    values (${id}, ${tenantId}, ${url}, ${description}, ${[...eventTypes]}, ${finalOnly}, ${[...channels]}, ${[...tags]},
      ${tx.json(headers)}, ${endpoint.ordered}, ${endpoint.maskRecipients}, ${endpoint.rateLimitPerSecond},
      ${[...endpoint.signatures]}, ${endpoint.secret}, ${endpoint.clientCertificate},
      coalesce((select h.last_seq from feed_heads h where h.tenant_id = ${tenantId} order by h.last_seq desc limit 1), 0))`;
}

export async function findEndpoint(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
): Promise<EndpointRecord | undefined> {
  const [row] = camelRows<EndpointRecord>(await tx`${endpoints(tx, tenantId)} and e.id = ${id}`.values());
  return row;
}

/** Whether an endpoint gets masked recipients; undefined if there is no such endpoint. */
export async function masksRecipients(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
): Promise<boolean | undefined> {
  const [row] = await tx<{ masks: boolean }[]>`
    select mask_recipients as masks from webhook_endpoints
    where tenant_id = ${tenantId} and id = ${id} and deleted_at is null`;
  return row?.masks;
}

export async function findEndpointByNumber(
  tenantId: TenantId,
  tx: TransactionSql,
  number: number,
): Promise<EndpointRecord | undefined> {
  const [row] = camelRows<EndpointRecord>(
    await tx`${endpoints(tx, tenantId)} and e.number = ${number}`.values(),
  );
  return row;
}

export type EndpointQuery = {
  readonly status?: EndpointStatus | undefined;
  /** Only endpoints older than this number. */
  readonly before: number | undefined;
  readonly most: number;
};

/** Returns endpoints, newest first. */
export async function listEndpoints(
  tenantId: TenantId,
  tx: TransactionSql,
  { status, before, most }: EndpointQuery,
): Promise<EndpointRecord[]> {
  return camelRows<EndpointRecord>(
    await tx`
      ${endpoints(tx, tenantId)}
        ${status === undefined ? tx`` : tx`and e.status = ${status}`}
        ${before === undefined ? tx`` : tx`and e.number < ${before}`}
      order by e.number desc limit ${most}`.values(),
  );
}

export async function countEndpoints(tenantId: TenantId, tx: TransactionSql): Promise<number> {
  const [row] = await tx<{ n: number }[]>`
    select count(*)::integer as n from webhook_endpoints where tenant_id = ${tenantId} and deleted_at is null`;
  return row?.n ?? 0;
}

/** Absent settings are not changed. */
export type EndpointChange = { readonly [K in keyof EndpointSettings]?: EndpointSettings[K] | undefined } & {
  /** A ciphertext; null removes the certificate. */
  readonly clientCertificate?: string | null | undefined;
};

/** Whether a change affects where calls go or what they carry. */
export function affectsCalls({ url, headers, clientCertificate }: EndpointChange): boolean {
  return url !== undefined || headers !== undefined || clientCertificate !== undefined;
}

/**
 * Updates an endpoint. A failing endpoint is retried at once if the change affects its calls, because the old setting may have
 * been the cause.
 */
export async function updateEndpoint(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
  change: EndpointChange,
): Promise<void> {
  const { url, description, eventTypes, finalOnly, channels, tags, headers, ordered, signatures } = change;
  const { maskRecipients, rateLimitPerSecond, clientCertificate } = change;
  await tx`
    update webhook_endpoints set version = version + 1, updated_at = now()
      ${url === undefined ? tx`` : tx`, url = ${url}`}
      ${description === undefined ? tx`` : tx`, description = ${description}`}
      ${eventTypes === undefined ? tx`` : tx`, event_types = ${[...eventTypes]}`}
      ${finalOnly === undefined ? tx`` : tx`, final_only = ${finalOnly}`}
      ${channels === undefined ? tx`` : tx`, channels = ${[...channels]}`}
      ${tags === undefined ? tx`` : tx`, tags = ${[...tags]}`}
      ${headers === undefined ? tx`` : tx`, headers = ${tx.json(headers)}`}
      ${ordered === undefined ? tx`` : tx`, ordered = ${ordered}`}
      ${maskRecipients === undefined ? tx`` : tx`, mask_recipients = ${maskRecipients}`}
      ${rateLimitPerSecond === undefined ? tx`` : tx`, rate_limit_per_second = ${rateLimitPerSecond}`}
      ${signatures === undefined ? tx`` : tx`, signatures = ${[...signatures]}`}
      ${clientCertificate === undefined ? tx`` : tx`, client_certificate = ${clientCertificate}`}
      ${affectsCalls(change) ? tx`, call_at = '-infinity'` : tx``}
    where tenant_id = ${tenantId} and id = ${id} and deleted_at is null`;
}

/** Whether events of the endpoint wait for earlier ones of their messages. */
export async function hasWaitingEvents(tenantId: TenantId, tx: TransactionSql, id: string): Promise<boolean> {
  const rows = await tx`
    select from due_deliveries where tenant_id = ${tenantId} and endpoint_id = ${id} and due_at = 'infinity' limit 1`;
  return rows.length > 0;
}

/**
 * Stores a new secret. The former one signs beside it for `graceSeconds`; with 0 it is deleted at once. A secret before that one
 * is deleted in any case.
 * @param secret a ciphertext.
 */
export async function replaceEndpointSecret(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
  secret: string,
  graceSeconds: number,
): Promise<void> {
  await tx`select from replace_endpoint_secret(${tenantId}, ${id}, ${secret}, ${graceSeconds})`;
}

/** Maximum number of retries brought forward, because a request has a deadline; the others stay on schedule. */
const BROUGHT_FORWARD_MAX = 10_000;

/**
 * Pauses or resumes an endpoint. Pausing holds deliveries back; resuming makes the endpoint active from any state, clears its
 * failures, and brings scheduled retries forward.
 * @returns whether it was moved; false if the table of moves has no such move from its state.
 */
export async function moveEndpointTo(
  tenantId: TenantId,
  tx: TransactionSql,
  id: string,
  move: 'pause' | 'resume',
): Promise<boolean> {
  const { to } = ENDPOINT_MOVES[move];
  const { count: moved } = await tx`
    update webhook_endpoints set status = ${to}, status_reason = null, failures = 0, failing_since = null,
      call_at = '-infinity', version = version + 1, updated_at = now()
    where tenant_id = ${tenantId} and id = ${id} and deleted_at is null and may_move_endpoint('tenant', status, ${to})`;
  if (moved === 0 || move === 'pause') return moved > 0;
  // The order of the rows differs from the workers' lock order, so locked rows are skipped.
  await tx`
    update due_deliveries d set due_at = now() where d.tenant_id = ${tenantId} and d.id = any (array(
      select x.id from due_deliveries x
      where x.endpoint_id = ${id} and x.claim is null and x.due_at > now() and x.due_at < 'infinity'
      order by x.due_at limit ${BROUGHT_FORWARD_MAX} for update skip locked))`;
  return true;
}

/**
 * Deletes an endpoint. Its secrets, with the query of its URL, are deleted at once. The row stays until everything stored of its
 * deliveries is gone (SQL `purge_deleted_endpoints`). There may be very many due deliveries: they are no longer made or shown, and
 * claims delete them (SQL `claim_deliveries`).
 */
export async function deleteEndpoint(tenantId: TenantId, tx: TransactionSql, id: string): Promise<void> {
  await tx`
    update webhook_endpoints set deleted_at = now(), secret = '', previous_secret = null, previous_until = null,
      client_certificate = null, headers = '{}', url = split_part(url, '?', 1), status = 'disabled', status_reason = null,
      version = version + 1, updated_at = now()
    where tenant_id = ${tenantId} and id = ${id} and deleted_at is null`;
  await tx`delete from endpoint_tests where tenant_id = ${tenantId} and endpoint_id = ${id}`;
}

function endpoints(tx: TransactionSql, tenantId: TenantId) {
  return tx`
    select e.id, e.number, e.url, e.description, e.event_types, e.final_only, e.channels, e.tags, e.headers, e.ordered,
      e.mask_recipients, e.rate_limit_per_second, e.signatures, e.has_client_certificate, e.status, e.status_reason, e.failures,
      e.failing_since, e.secret_version, case when e.previous_until > now() then e.previous_until end as previous_secret_until,
      e.version, e.created_at, e.updated_at, coalesce(h.last_seq, 0) as last_seq, d.pending
    from webhook_endpoints e
    left join lateral (
      select x.last_seq from endpoint_heads x where x.endpoint_id = e.id
      order by x.feed_seq desc, x.last_seq desc limit 1) h on true
    cross join lateral (
      select least(coalesce(sum(y.last_seq - y.first_seq + 1), 0), ${PENDING_MAX})::integer as pending
      from (select x.first_seq, x.last_seq from due_deliveries x where x.endpoint_id = e.id limit ${PENDING_MAX}) y) d
    where e.tenant_id = ${tenantId} and e.deleted_at is null`;
}
