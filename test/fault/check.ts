import { MINUTE_MS } from '#core/domain/text/duration.ts';
import type { ReceiptWait, ShownMessage } from './case.ts';
import { checkRecord, repeatsOf, type Repeats } from './check-record.ts';
import type { Acknowledgement, Cancellation, ProviderCall, Suppression, TakenReceipt } from './ledger.ts';
import type { Miscount } from '../support/usage-recount.ts';
import type { MessageRecord } from './records.ts';
import type { Violation } from './violations.ts';

export type CheckInput = {
  readonly acknowledgements: readonly Acknowledgement[];
  readonly cancels: readonly Cancellation[];
  readonly suppressions: readonly Suppression[];
  readonly calls: readonly ProviderCall[];
  readonly receipts: readonly TakenReceipt[];
  readonly limits: {
    readonly daily: { readonly tenantId: string; readonly max: number };
    /** UTC days that the run touched; the daily limit applies to each. */
    readonly days: number;
    readonly perMinute: { readonly tenantId: string; readonly max: number };
  };
  /** The tenants whose routes have a receipt timeout; null where there are none. */
  readonly waits: (ReceiptWait & { readonly tenantIds: ReadonlySet<string> }) | null;
  /** Gaps in the numbering of tenants' feeds. */
  readonly feedHoles: readonly { readonly tenantId: string; readonly after: number }[];
  /** Tenants whose usage differs from a recount of their messages. */
  readonly miscounts: readonly Miscount[];
  /** A sample of messages by id, as the public API showed them at the end of the run. */
  readonly shown: ReadonlyMap<string, ShownMessage>;
  readonly revocations: readonly { readonly credential: string; readonly at: number }[];
  readonly suspensions: readonly { readonly tenantId: string; readonly from: number; readonly to: number }[];
};

export type Checked = {
  readonly violations: readonly Violation[];
  readonly acknowledged: number;
  readonly stored: number;
  readonly calls: number;
  /** Receipts that the api answered with a 2xx. */
  readonly receipts: number;
  readonly states: Readonly<Record<string, number>>;
  readonly repeats: Repeats;
  /** Messages that failed over after a receipt timeout. */
  readonly silent: number;
};

export type Checker = {
  readonly visit: (record: MessageRecord) => void;
  readonly conclude: () => Checked;
};

/** How long a process may cache a key or a tenant, and a margin. */
const MEMORY_MS = 5_500;
/** A call that began before the suspension of its tenant may still finish. */
const UNDER_WAY_MS = 2_000;
/** Only a run of at least this many receipt timeouts must contain a failover after one. */
const TIMEOUTS_SEEN = 2;

/** Compares the acknowledgements, the calls and the database records. */
export function createChecker(input: CheckInput): Checker {
  const violations: Violation[] = [];
  const promised = Map.groupBy(input.acknowledgements, ({ token }) => token);
  const canceled = Map.groupBy(input.cancels, ({ token }) => token);
  const suppressed = Map.groupBy(input.suppressions, ({ token }) => token);
  const called = Map.groupBy(input.calls, ({ token }) => token);
  const reported = Map.groupBy(input.receipts, ({ token }) => token);
  /** Tenant ids of the stored messages, by the token in their text. */
  const stored = new Map<string, string>();
  const states: Record<string, number> = {};
  let repeats: Repeats = { duplicateRisk: 0, silent: 0, askedFor: 0, unexplained: 0 };
  let silent = 0;

  return {
    visit(record) {
      const { id, token, tenantId, status } = record;
      if (stored.has(token)) violations.push({ name: 'idempotency', detail: `${token} is stored twice` });
      stored.set(token, tenantId);
      states[status] = (states[status] ?? 0) + 1;
      const promises = promised.get(token) ?? [];
      const one = {
        record,
        promises,
        cancels: canceled.get(token) ?? [],
        suppressions: suppressed.get(token) ?? [],
        calls: called.get(token) ?? [],
        receipts: reported.get(token) ?? [],
        wait: input.waits?.tenantIds.has(tenantId) === true ? input.waits : null,
        shown: input.shown.get(id),
      };
      violations.push(...checkRecord(one));
      repeats = sum(repeats, repeatsOf(one));
      if (record.silences.length > 0) silent += 1;
    },
    conclude() {
      violations.push(
        ...lost(promised, stored),
        ...ghosts(called, stored),
        ...overDaily(input, stored),
        ...overMinute(input),
        ...afterRevocation(input),
        ...whileSuspended(input, stored),
        ...unproven(input, repeats),
        ...input.feedHoles.map(({ tenantId, after }): Violation => ({
          name: 'feed',
          detail: `the feed of ${tenantId} does not go on after ${after}`,
        })),
        ...input.miscounts.map((miscount): Violation => ({
          name: 'usage',
          detail: JSON.stringify(miscount),
        })),
      );
      const counts = {
        acknowledged: promised.size,
        stored: stored.size,
        calls: input.calls.length,
        receipts: input.receipts.length,
      };
      return { ...counts, violations, states, repeats, silent };
    },
  };
}

function sum(a: Repeats, b: Repeats): Repeats {
  return {
    duplicateRisk: a.duplicateRisk + b.duplicateRisk,
    silent: a.silent + b.silent,
    askedFor: a.askedFor + b.askedFor,
    unexplained: a.unexplained + b.unexplained,
  };
}

type ByToken<T> = ReadonlyMap<string, T>;

function lost(promised: ByToken<readonly Acknowledgement[]>, stored: ByToken<string>): Violation[] {
  return [...promised]
    .filter(([token]) => !stored.has(token))
    .map(([token, [promise]]) => ({
      name: 'lost',
      detail: `${token} was acknowledged as ${promise?.id} and is not stored`,
    }));
}

function ghosts(called: ByToken<unknown>, stored: ByToken<string>): Violation[] {
  return [...called.keys()]
    .filter((token) => !stored.has(token))
    .map((token) => ({ name: 'ghost', detail: `${token} was sent and is not stored` }));
}

function overDaily({ limits: { daily, days } }: CheckInput, stored: ByToken<string>): Violation[] {
  const max = daily.max * days;
  const count = [...stored.values()].filter((tenantId) => tenantId === daily.tenantId).length;
  return count > max ? [{ name: 'quota', detail: `${count} messages stored, ${max} allowed` }] : [];
}

/** Counts only requests that were both sent and answered within one minute. */
function overMinute({ acknowledgements, limits: { perMinute } }: CheckInput): Violation[] {
  const ofTenant = acknowledgements.filter(({ tenantId }) => tenantId === perMinute.tenantId);
  return ofTenant.flatMap(({ firstAskedAt: from }): Violation[] => {
    const within = ofTenant.filter(({ firstAskedAt, at }) => firstAskedAt >= from && at <= from + MINUTE_MS);
    const { size } = new Set(within.map(({ token }) => token));
    if (size <= perMinute.max) return [];
    return [{ name: 'rate', detail: `${size} in a minute, ${perMinute.max} allowed` }];
  });
}

function afterRevocation({ acknowledgements, revocations }: CheckInput): Violation[] {
  return revocations.flatMap(({ credential, at }): Violation[] => {
    const late = acknowledgements.find(
      (one) => one.credential === credential && one.firstAskedAt > at + MEMORY_MS,
    );
    if (late === undefined) return [];
    return [{ name: 'revocation', detail: `${credential} was good ${late.firstAskedAt - at} ms later` }];
  });
}

function whileSuspended(input: CheckInput, stored: ByToken<string>): Violation[] {
  return input.suspensions.flatMap(({ tenantId, from, to }): Violation[] => {
    const known = from + MEMORY_MS;
    const accepted = input.acknowledgements.filter(
      (one) => one.tenantId === tenantId && one.firstAskedAt > known && one.at < to,
    ).length;
    const sent = input.calls.filter(
      ({ token, at }) => stored.get(token) === tenantId && at > known + UNDER_WAY_MS && at < to,
    ).length;
    if (accepted + sent === 0) return [];
    return [{ name: 'suspension', detail: `${accepted} accepted and ${sent} sent while suspended` }];
  });
}

/** Fails a run in which no message failed over after a receipt timeout, because it proves nothing about such failovers. */
function unproven({ waits, acknowledgements }: CheckInput, { silent }: Repeats): Violation[] {
  if (waits === null || silent > 0) return [];
  const from = Math.min(...acknowledgements.map(({ at }) => at));
  if (waits.decidedBy - from < TIMEOUTS_SEEN * waits.timeoutMs) return [];
  return [
    { name: 'silence', detail: `none of ${acknowledgements.length} messages went on to another account` },
  ];
}
