import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';
import type { ReportRow } from './receipt-reports.ts';

/** A message whose outcome is to be looked up at its provider. */
export type DueLookup = {
  readonly seq: number;
  readonly purgeOn: string;
  readonly tenantId: string;
  readonly accountId: string;
  /** Null if the account is deleted. */
  readonly accountVersion: number | null;
  readonly provider: string;
  readonly messageId: string;
  readonly status: 'sent' | 'unknown';
  readonly providerMessageId: string | null;
  readonly ageMs: number;
  /** Number of lookups of the message so far, including this one. */
  readonly asks: number;
  /** Number of consecutive failures of the account's lookups. */
  readonly failures: number;
  /** Number of the account's turn. */
  readonly turn: number;
};

export type LookupTerms = {
  /** Maximum number of accounts whose last lookup succeeded. */
  readonly accountsMax: number;
  /** Maximum number of accounts whose last lookup failed; each is asked one question. */
  readonly failingMax: number;
  /** For each provider that can be asked: how many questions an account gets at once. */
  readonly paces: readonly { readonly provider: string; readonly most: number }[];
  readonly leaseMs: number;
};

/** The results of lookups. */
export type SettledLookups = {
  readonly reports: readonly (ReportRow & {
    readonly tenant_id: string;
    readonly account_id: string;
    readonly received_ms: number;
  })[];
  /** Provider ids of messages that were unknown before. */
  readonly found: readonly {
    readonly seq: number;
    readonly purge_on: string;
    readonly tenant_id: string;
    readonly provider_message_id: string;
  }[];
  readonly done: readonly { readonly seq: number; readonly asks: number }[];
  /** `ms` null: not again. */
  readonly again: readonly {
    readonly seq: number;
    readonly asks: number;
    readonly ms: number | null;
    /** No question was asked, and none is counted. Default: false. */
    readonly unasked?: boolean;
  }[];
  readonly turns: readonly {
    readonly account_id: string;
    readonly turn: number;
    readonly failures: number;
    readonly pause_ms: number;
  }[];
};

/** Messages of one account for which no receipt ever arrived. */
export type SilentMessages = {
  readonly tenantId: string;
  /** Null if they were not sent through an account of the tenant. */
  readonly accountId: string | null;
  readonly provider: string | null;
  readonly messages: number;
};

/** Messages that have been silent for too long. @param bounded gives a query its deadline. */
export function lookupStore(sql: Sql, bounded: Bounded) {
  const { rowsOf } = boundedQueries(bounded);
  return {
    /**
     * Ends the wait for receipts that have not arrived: messages of providers that can be asked are looked up, and become
     * `unknown` once they are `timeoutMs` old; all others become `unknown` now.
     * @returns the number of messages handled, and the accounts whose messages are `unknown` now.
     */
    async expireReceipts(
      most: number,
      askable: readonly string[],
      timeoutMs: number,
    ): Promise<{ readonly seen: number; readonly silent: readonly SilentMessages[] }> {
      const rows = await bounded(
        sql<{ seen: number; silent: SilentMessages[] }[]>`
          select seen, silent from expire_receipts(${most}, ${[...askable]}::text[], ${timeoutMs})`,
      );
      return rows[0] ?? { seen: 0, silent: [] };
    },
    /** Claims messages to look up. They are claimed again after `leaseMs` unless they are settled. */
    takeLookups: ({ accountsMax, failingMax, paces, leaseMs }: LookupTerms) =>
      rowsOf<DueLookup>(
        sql`select * from take_lookups(${accountsMax}, ${failingMax}, ${asJson(sql, paces)}, ${leaseMs})`,
      ),
    async settleLookups({ reports, found, done, again, turns }: SettledLookups): Promise<void> {
      await bounded(
        sql`select settle_lookups(${asJson(sql, reports)}, ${asJson(sql, found)}, ${asJson(sql, done)},
          ${asJson(sql, again)}, ${asJson(sql, turns)})`,
      );
    },
    /** Resumes lookups that failed, after the account has changed. */
    async resumeLookups(accountId: string): Promise<void> {
      await bounded(sql`select resume_lookups(${accountId})`);
    },
  };
}
