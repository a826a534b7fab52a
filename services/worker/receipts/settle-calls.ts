import { databaseFaultOf } from '#core/domain/database-fault.ts';
import { storeByHalves } from '#core/platform/process/by-halves.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { ReportRow, StoredReceiptCall } from '#core/store/receipt-reports.ts';
import type { CallReading } from './read-call.ts';

/** A call, and what it came to. `againMs`: it is looked at again after so long. */
export type ReadCall = {
  readonly call: StoredReceiptCall;
  readonly provider: string;
  readonly reading: CallReading;
  readonly againMs: number | undefined;
};

export type SettleCallsDeps = {
  readonly store: Pick<DeliveryStore, 'settleReceiptCalls'>;
  /** The database does not take what the call says. */
  readonly onUnstorable: (provider: string, error: unknown) => void;
};

/** Reports of one commit, unless one call alone has more: a statement ends well within its deadline. */
const REPORTS_AT_ONCE = 2_000;

/**
 * Puts what the calls say in their place, in few commits. Where the database refuses one, only that one is given up.
 * @returns the calls as they were settled.
 */
export async function settleCalls(calls: readonly ReadCall[], deps: SettleCallsDeps): Promise<ReadCall[]> {
  const settled: ReadCall[] = [];
  for (const part of partsOf(calls)) settled.push(...(await settlePart(part, deps)));
  return settled;
}

function partsOf(calls: readonly ReadCall[]): ReadCall[][] {
  const parts: ReadCall[][] = [];
  let reports = Infinity;
  for (const one of calls) {
    reports += reportsOf(one).length;
    if (reports > REPORTS_AT_ONCE) {
      parts.push([]);
      reports = reportsOf(one).length;
    }
    parts.at(-1)?.push(one);
  }
  return parts;
}

function settlePart(calls: readonly ReadCall[], deps: SettleCallsDeps): Promise<readonly ReadCall[]> {
  return storeByHalves(
    calls,
    async (some) => {
      await store(some, deps);
      return some;
    },
    (some, error) => {
      const [first] = some;
      if (databaseFaultOf(error) !== 'row' || first?.reading.kind !== 'read') throw error;
      deps.onUnstorable(first.provider, error);
      return settlePart([{ ...first, reading: { kind: 'unreadable' } }], deps);
    },
  );
}

async function store(calls: readonly ReadCall[], deps: SettleCallsDeps): Promise<void> {
  await deps.store.settleReceiptCalls({
    reports: calls.flatMap(reportsOf),
    done: calls.flatMap(({ call, againMs }) => (againMs === undefined ? [call.id] : [])),
    again: calls.flatMap(({ call, againMs }) =>
      againMs === undefined ? [] : [{ id: call.id, ms: againMs }],
    ),
    genuine: [
      ...new Set(calls.flatMap(({ reading, call }) => (reading.kind === 'read' ? [call.accountId] : []))),
    ],
    refused: calls.flatMap(({ reading, call }) =>
      reading.kind === 'forged' ? [{ account_id: call.accountId, reason: reading.reason }] : [],
    ),
  });
}

function reportsOf({ reading }: ReadCall): readonly ReportRow[] {
  return reading.kind === 'read' ? reading.reports : [];
}
