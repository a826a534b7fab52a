import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';
import type { Bounded } from './bounded-queries.ts';
import { camelRows } from './camel-rows.ts';
import type { ReportRow } from './receipt-reports.ts';

/** A message to ask its provider about. */
export type DueLookup = {
  readonly seq: number;
  readonly purgeOn: string;
  readonly tenantId: string;
  readonly accountId: string;
  /** Null where the account is deleted. */
  readonly accountVersion: number | null;
  readonly provider: string;
  readonly messageId: string;
  readonly status: 'sent' | 'unknown';
  readonly providerMessageId: string | null;
  readonly ageMs: number;
  /** Which question about the message it is. */
  readonly asks: number;
  /** How often in a row the account has not been answered. */
  readonly failures: number;
  /** Which turn of the account it is. */
  readonly turn: number;
};

export type LookupTerms = {
  /** Accounts that answered last. */
  readonly accountsMax: number;
  /** Accounts that did not; they are asked one question each. */
  readonly failingMax: number;
  /** Of each provider that can be asked: how many questions an account is asked at once. */
  readonly paces: readonly { readonly provider: string; readonly most: number }[];
  readonly leaseMs: number;
};

/** What became of questions. */
export type SettledLookups = {
  readonly reports: readonly (ReportRow & {
    readonly tenant_id: string;
    readonly account_id: string;
    readonly received_ms: number;
  })[];
  /** Ids of messages at their provider, which were not known before. */
  readonly found: readonly {
    readonly seq: number;
    readonly purge_on: string;
    readonly tenant_id: string;
    readonly provider_message_id: string;
  }[];
  readonly done: readonly { readonly seq: number; readonly asks: number }[];
  /** `ms` null: not again. */
  readonly again: readonly { readonly seq: number; readonly asks: number; readonly ms: number | null }[];
  readonly turns: readonly {
    readonly account_id: string;
    readonly turn: number;
    readonly failures: number;
    readonly pause_ms: number;
  }[];
};

/** Of one account, messages of which nothing was ever heard. */
export type SilentMessages = {
  readonly tenantId: string;
  /** Null where they went through none of the tenant's. */
  readonly accountId: string | null;
  readonly provider: string | null;
  readonly messages: number;
};

/** Messages that have been silent for too long. @param bounded gives a query its deadline. */
export function lookupStore(sql: Sql, bounded: Bounded) {
  return {
    /**
     * Ends the wait for receipts that have not come: messages of providers that can be asked are asked about, and
     * `unknown` when they are `timeoutMs` old; the others are `unknown` now.
     * @returns how many it has seen, and of which accounts messages are `unknown` now.
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
    /** Messages to ask about. They come again after `leaseMs` unless they are settled. */
    takeLookups: async ({ accountsMax, failingMax, paces, leaseMs }: LookupTerms) =>
      camelRows<DueLookup>(
        await bounded(
          sql`select * from take_lookups(${accountsMax}, ${failingMax}, ${asJson(sql, paces)}, ${leaseMs})`.values(),
        ),
      ),
    async settleLookups({ reports, found, done, again, turns }: SettledLookups): Promise<void> {
      await bounded(
        sql`select settle_lookups(${asJson(sql, reports)}, ${asJson(sql, found)}, ${asJson(sql, done)},
          ${asJson(sql, again)}, ${asJson(sql, turns)})`,
      );
    },
    /** The account has changed: what it could not be asked before, it may be asked now. */
    async resumeLookups(accountId: string): Promise<void> {
      await bounded(sql`select resume_lookups(${accountId})`);
    },
  };
}
