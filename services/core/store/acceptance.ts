import type { AuditEntry } from '#core/domain/audit-entry.ts';
import { toAcceptBatch } from './accept-batch.ts';
import { asJson, withDeadline, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { DATABASE_DEADLINE_MS } from './tenant-scope.ts';

/** One message to accept, in the names of the columns. */
export type AcceptRow = {
  readonly seq: number;
  /** The day on which its partition is dropped. */
  readonly purge_on: string;
  readonly id: string;
  readonly tenant_id: string;
  /** Null for what a person sends: no minute counts it. */
  readonly api_key_id: string | null;
  readonly channel: string;
  /** As sent. */
  readonly recipient: string;
  /** Its normal form. */
  readonly address: string;
  /** As `addressKey` makes it of that, in the database's way to write bytes. */
  readonly address_key: string;
  readonly sender: string | null;
  readonly content: unknown;
  readonly external_id: string | null;
  readonly category: string;
  /** 0 high, 1 normal, 2 bulk. */
  readonly priority: 0 | 1 | 2;
  readonly test: boolean;
  /** The account that it is to go out through; `NO_ACCOUNT` for a test message. */
  readonly account_id: string;
  readonly pinned_account_id: string | null;
  readonly segments: number | null;
  /** Bounds what claims it together with others; absent where it is little. */
  readonly content_bytes?: number;
  readonly encoding: string | null;
  readonly delivery_guarantee: string;
  readonly content_retention: string;
  readonly metadata: unknown;
  readonly tags: readonly string[] | null;
  readonly traceparent: string | null;
  readonly request_id: string;
  /** Of the request, where that was for several messages. */
  readonly batch_id?: string;
  /** Of the route that chose its account; absent where the sender named that, or no route is set. */
  readonly route_version?: number | undefined;
  /** Accounts of the route that would have gone first; absent where there are none. */
  readonly route_skipped?: readonly string[] | undefined;
  /** The message that it sends again. */
  readonly parent_id?: string;
  readonly enqueued_at: string;
  readonly expires_at: string;
  /** Goes before `expires_at`, from the commit on, where this process's clock is wrong; null where the sender named an instant. */
  readonly lifetime_ms?: number | null;
  /** `scheduled` where it waits for `send_at`; else it is queued at once. */
  readonly status?: 'scheduled';
  /** Not before this, by the database's clock. */
  readonly send_at?: string;
  /** What its record says instead, where the clock of test messages is ahead. */
  readonly scheduled_at?: string;
  readonly retention_days: number;
  readonly rate_per_minute: number;
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
  /** Seconds; only with the refusals that time fixes. */
  readonly retryAfter: number | null;
  /** Requests that the key's minute still has room for. */
  readonly remaining: number | null;
};

export type AcceptOptions = {
  readonly deadlineMs?: number;
  readonly warned?: (entry: AuditEntry) => void;
};

/** `ord`: null beside an entry of the audit log. */
export type VerdictRow = Verdict & { readonly ord: number | null };

/**
 * Settles and stores a batch of messages of any tenants in one statement and one commit.
 * @param sweepAfterMs How long the wake-ups have before the sweep may look.
 * @param warned Told of each entry that says of a tenant that its day's limit comes near, or is reached; belongs after the commit.
 * @returns one verdict per row, in order.
 * @throws DependencyError: nobody knows then whether the commit took place; what `isPlaceRefused` knows, where a
 * purge day is too early by the database's clock, or a number is taken.
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

/** The verdicts alone, once what they come with is told. */
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
