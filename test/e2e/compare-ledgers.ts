import { DAY_MS } from '#core/domain/text/duration.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { createChecker, type Checked } from '../fault/check.ts';
import { drain } from '../fault/drain.ts';
import { readLedger, type Acknowledgement, type ProviderCall } from '../fault/ledger.ts';
import { countRest, eachRecord, feedHoles } from '../fault/records.ts';
import { miscounts } from '../support/usage-recount.ts';

export type AccountsInput = {
  readonly ask: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;
  /** Ledger with the acknowledgements of all loads of this run. */
  readonly ledger: string;
  readonly providerLedger: string;
  /** Tokens of messages that were sent outside of the load. */
  readonly aside: ReadonlySet<string>;
  /** The tenant with a daily message limit, and the limit. */
  readonly daily: { readonly tenantId: string; readonly max: number };
  readonly perMinute: { readonly tenantId: string; readonly max: number };
  readonly begunAt: number;
};

/** Waits until no work is left, and compares acknowledged, sent and stored messages of all loads so far. */
export async function compareAccounts(input: AccountsInput): Promise<Checked> {
  const { ask, ledger, providerLedger, aside, daily, perMinute, begunAt } = input;
  await drain(ask);
  await ask(countRest);
  const checker = createChecker({
    acknowledgements: await readLedger<Acknowledgement>(ledger),
    calls: (await readLedger<ProviderCall>(providerLedger)).filter(({ token }) => !aside.has(token)),
    // Providers cannot send receipts into this cluster, which has no ingress for them.
    receipts: [],
    cancels: [],
    suppressions: [],
    limits: {
      daily,
      perMinute,
      days: Math.floor(Date.now() / DAY_MS) - Math.floor(begunAt / DAY_MS) + 1,
    },
    waits: null,
    feedHoles: await ask(feedHoles),
    miscounts: await ask(miscounts),
    shown: new Map(),
    revocations: [],
    suspensions: [],
  });
  await ask((sql) => eachRecord(sql, checker.visit));
  return checker.conclude();
}

/** Returns the violations of the guarantees: lost messages, duplicates, exceeded limits. */
export function violationsOf({ violations }: Checked): string[] {
  return violations.slice(0, 10).map(({ name, detail }) => `${name}: ${detail}`);
}
