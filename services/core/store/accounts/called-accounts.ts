import type { Sql } from '#core/platform/postgres/postgres.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';

/** A provider account as a worker calls it. */
export type ProviderAccountRow = {
  readonly id: string;
  readonly tenantId: string;
  readonly provider: string;
  readonly configPublic: unknown;
  readonly ciphertext: string | null;
  readonly secretVersion: number;
  /** The secret before: valid for what arrives before `previousUntil`. */
  readonly previousCiphertext: string | null;
  readonly previousUntil: Date | null;
  readonly version: number;
  readonly status: string;
  /** Of the token in its receipt URL. */
  readonly receiptVersion: number;
  /** A genuine receipt has come. */
  readonly hasReported: boolean;
};

/** The worker's side of provider accounts. */
export function accountStore(sql: Sql, bounded: Bounded) {
  const { rowsOf, value } = boundedQueries(bounded);
  return {
    /** By id; without those that are deleted. */
    async loadAccounts(ids: readonly string[]): Promise<Map<string, ProviderAccountRow>> {
      const rows = await rowsOf<ProviderAccountRow>(sql`select * from load_accounts(${[...ids]}::uuid[])`);
      return new Map(rows.map((row) => [row.id, row]));
    },
    /**
     * @param version the version of the account that the provider was called with.
     * @param refusal null for a success, else why the credential was refused.
     * @returns the status that the account moved to, null where it did not move.
     */
    noteAccountResult: async (id: string, version: number, refusal: string | null) =>
      (await value<string | null>(
        sql`select note_account_result(${id}, ${version}, ${refusal === null}, ${refusal}) as n`,
      )) ?? null,
    async noteAccountHealth(id: string, health: 'healthy' | 'open' | 'probing'): Promise<void> {
      await bounded(sql`select note_account_health(${id}, ${health})`);
    },
    /** The ids of accounts whose check somebody waits for. */
    takeVerifications: async (most: number) =>
      (await rowsOf<{ id: string }>(sql`select id from take_verifications(${most})`)).map(({ id }) => id),
    /** @param version the version of the account that was checked. Returns the status that the account moved to. */
    noteVerification: async (
      id: string,
      version: number,
      result: 'valid' | 'invalid' | 'unknown',
      reason: string | null,
    ) =>
      (await value<string | null>(
        sql`select note_verification(${id}, ${version}, ${result}, ${reason}) as n`,
      )) ?? null,
  };
}
