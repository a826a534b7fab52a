import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import { toAcceptBatch } from './accept-batch.ts';
import { asJson, withDeadline, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { DATABASE_DEADLINE_MS } from '../query/tenant-scope.ts';

/** One message to accept, with the names of the columns. */
export type AcceptRow = {
  readonly seq: number;
  /** The day on which its partition is dropped. */
  readonly purge_on: string;
  readonly id: string;
  readonly tenant_id: string;
  /** Null for a message sent by a person, which no rate limit per minute counts. */
  readonly api_key_id: string | null;
  readonly channel: string;
  /** As sent. */
  readonly recipient: string;
  /** Its normal form. */
  readonly address: string;
  /** `addressKey` of `address`, in the database's text format for bytes. */
  readonly address_key: string;
  readonly sender: string | null;
  readonly content: unknown;
  readonly external_id: string | null;
  readonly category: string;
  /** 0 high, 1 normal, 2 bulk. */
  readonly priority: 0 | 1 | 2;
  readonly test: boolean;
  /** The account that is to send it; `NO_ACCOUNT` for a test message. */
  readonly account_id: string;
  readonly pinned_account_id: string | null;
  readonly segments: number | null;
  /** Counts toward the byte limit of a claim; absent for a small content. */
  readonly content_bytes?: number;
  readonly encoding: string | null;
  readonly delivery_guarantee: string;
  readonly content_retention: string;
  readonly metadata: unknown;
  readonly tags: readonly string[] | null;
  readonly traceparent: string | null;
  readonly request_id: string;
  /** Id of the request, if it was for several messages. */
  readonly batch_id?: string | undefined;
  /** Version of the route that chose its account; absent if the sender named the account, or no route is set. */
  readonly route_version?: number | undefined;
  /** Accounts of the route that came first and could not be used; absent if there are none. */
  readonly route_skipped?: readonly string[] | undefined;
  /** The message that this one repeats. */
  readonly parent_id?: string;
  readonly enqueued_at: string;
  readonly expires_at: string;
  /** Replaces `expires_at`, counted from the commit, if this process's clock is wrong; null if the sender named an instant. */
  readonly lifetime_ms?: number | null;
  /** `scheduled` for a message that waits until `send_at`; otherwise it is queued at once. */
  readonly status?: 'scheduled' | undefined;
  /** Not sent before this, by the database's clock. */
  readonly send_at?: string | undefined;
  /** The instant that its record shows instead, if the test clock is ahead. */
  readonly scheduled_at?: string | undefined;
  readonly retention_days: number;
  readonly rate_per_minute: number;
  /** The daily limit of its mode, and how far a message of its mode may fill the backlog. */
  readonly messages_per_day: number;
  readonly backlog_max: number;
  /** Hex. */
  readonly scope: string | null;
  readonly fingerprint: string | null;
  /** The 202's body. */
  readonly response: unknown;
};

export type Verdict = {
  readonly verdict:
    | 'accepted'
    | 'replayed'
    | 'mismatch'
    | 'suspended'
    | 'rate_limited'
    | 'daily_limit_reached'
    | 'backlog_full';
  /** Only with `replayed`: the first response's body. */
  readonly response: unknown;
  /** Seconds; only with refusals that end with time. */
  readonly retryAfter: number | null;
  /** Requests that the key's rate still permits this minute. */
  readonly remaining: number | null;
};

export type AcceptOptions = {
  readonly deadlineMs?: number;
  readonly warned?: (entry: AuditEntry) => void;
};

/** `ord` is null in a row that carries an audit log entry. */
export type VerdictRow = Verdict & { readonly ord: number | null };

/**
 * Settles and stores a batch of messages of any tenants in one statement and one commit.
 * @param sweepAfterMs how long the sweep leaves a message to its wake-up.
 * @param warned called for each audit log entry about a tenant whose daily limit is nearly or fully used up; to be used after the
 *   commit.
 * @returns one verdict per row, in order.
 * @throws DependencyError: it is then unknown whether the commit took place. An error that `isPlaceRefused` recognizes if a purge
 *   day is too early by the database's clock, or a number is taken.
 */
export async function acceptMessages(
  sql: Sql | TransactionSql,
  rows: readonly AcceptRow[],
  sweepAfterMs: number,
  { deadlineMs = DATABASE_DEADLINE_MS, warned = () => {} }: AcceptOptions = {},
): Promise<Verdict[]> {
  const { callers, messages, keys } = toAcceptBatch(rows);
  const settled = await withDeadline(
    sql<VerdictRow[]>`select ord, verdict, response, retry_after as "retryAfter", remaining
      from accept(${asJson(sql, callers)}, ${asJson(sql, messages)}, ${keys.length === 0 ? null : asJson(sql, keys)}, ${sweepAfterMs}) order by ord`,
    deadlineMs,
  );
  return verdictsOf(settled, warned);
}

/** Returns the verdicts alone, after passing on the audit log entries among them. */
export function verdictsOf(rows: readonly VerdictRow[], warned: (entry: AuditEntry) => void): Verdict[] {
  const verdicts: Verdict[] = [];
  for (const { ord, ...verdict } of rows) {
    if (ord !== null) verdicts.push(verdict);
    else {
      const entry = verdict.response as Omit<AuditEntry, 'requestId'>;
      warned({ ...entry, at: new Date(entry.at).toISOString(), requestId: null });
    }
  }
  return verdicts;
}
