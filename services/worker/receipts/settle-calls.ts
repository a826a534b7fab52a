import { chunks } from '#core/domain/chunks.ts';
import { databaseFaultOf } from '#core/domain/database-fault.ts';
import { storeByHalves } from '#core/platform/process/by-halves.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { CallReportRow, SettledReceiptCalls, StoredReceiptCall } from '#core/store/receipt-reports.ts';
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
  /** Runs each commit when it is its turn. @param calls what is in it. */
  readonly pace: <Stored>(store: () => Promise<Stored>, calls: readonly SettledPart[]) => Promise<Stored>;
};

/** What a commit has of a call. */
export type SettledPart = { readonly call: StoredReceiptCall; readonly reports: number };

/** Reports of one commit: a message that meets them in the database, or in this process, waits for some milliseconds only. */
const REPORTS_AT_ONCE = 256;

/** Reports of a call, all of them or as many as one commit takes. With the last of them the call is settled. */
type Piece = { readonly of: ReadCall; readonly reports: readonly CallReportRow[]; readonly isLast: boolean };

/**
 * Puts what the calls say in their place, in few commits, of small calls first. A call that says much takes several: should
 * the worker be lost between them, the call is read again, and what it says twice counts once. Where the database refuses
 * one, only that one is given up.
 * @returns the calls as they were settled, and what kept others from it.
 */
export async function settleCalls(
  calls: readonly ReadCall[],
  deps: SettleCallsDeps,
): Promise<{ readonly settled: readonly ReadCall[]; readonly faults: readonly unknown[] }> {
  const settled: ReadCall[] = [];
  const faults: unknown[] = [];
  /** Calls of which a piece was refused. */
  const refused = new Set<ReadCall>();

  async function storeAll(pieces: readonly Piece[]): Promise<readonly Piece[]> {
    await deps.store.settleReceiptCalls(rowsOf(pieces));
    for (const piece of pieces) if (piece.isLast) settled.push(piece.of);
    return pieces;
  }

  async function refuse(pieces: readonly Piece[], error: unknown): Promise<readonly Piece[]> {
    const [piece] = pieces;
    // Where the database is away, the leases run out, and the calls come again.
    if (databaseFaultOf(error) !== 'row' || piece === undefined) throw error;
    if (piece.of.reading.kind !== 'read') {
      faults.push(error);
      return pieces;
    }
    refused.add(piece.of);
    deps.onUnstorable(piece.of.provider, error);
    return settlePart([{ of: { ...piece.of, reading: { kind: 'unreadable' } }, reports: [], isLast: true }]);
  }

  function settlePart(pieces: readonly Piece[]): Promise<readonly Piece[]> {
    return storeByHalves(pieces, storeAll, refuse);
  }

  try {
    for (const part of partsOf(calls)) {
      const left = part.filter((piece) => !refused.has(piece.of));
      if (left.length === 0) continue;
      await deps.pace(
        () => settlePart(left),
        left.map(({ of, reports }) => ({ call: of.call, reports: reports.length })),
      );
    }
  } catch (error) {
    faults.push(error);
  }
  return { settled, faults };
}

/** Whether a call says more than one commit takes. */
export function takesSeveral(call: Pick<ReadCall, 'reading'>): boolean {
  return reportsOf(call).length > REPORTS_AT_ONCE;
}

function partsOf(calls: readonly ReadCall[]): Piece[][] {
  const parts: Piece[][] = [];
  let reports = Infinity;
  for (const piece of calls.toSorted((a, b) => reportsOf(a).length - reportsOf(b).length).flatMap(piecesOf)) {
    reports += piece.reports.length;
    if (reports > REPORTS_AT_ONCE) {
      parts.push([]);
      reports = piece.reports.length;
    }
    parts.at(-1)?.push(piece);
  }
  return parts;
}

function piecesOf(of: ReadCall): Piece[] {
  const pieces = chunks(reportsOf(of), REPORTS_AT_ONCE);
  if (pieces.length === 0) return [{ of, reports: [], isLast: true }];
  return pieces.map((reports, n) => ({ of, reports, isLast: n === pieces.length - 1 }));
}

function rowsOf(pieces: readonly Piece[]): SettledReceiptCalls {
  const ended = pieces.flatMap(({ of, isLast }) => (isLast ? [of] : []));
  const isRead = ({ of: { reading } }: Piece): boolean => reading.kind === 'read';
  return {
    reports: pieces.flatMap(({ reports }) => reports),
    begun: pieces.flatMap(({ of, isLast }) => (isLast ? [] : [of.call.id])),
    done: ended.flatMap(({ call, againMs }) => (againMs === undefined ? [call.id] : [])),
    again: ended.flatMap(({ call, againMs }) =>
      againMs === undefined ? [] : [{ id: call.id, ms: againMs }],
    ),
    genuine: [...new Set(pieces.filter(isRead).map(({ of }) => of.call.accountId))],
    refused: ended.flatMap(({ reading, call }) => {
      const reason = reasonOf(reading);
      return reason === undefined ? [] : [{ account_id: call.accountId, reason }];
    }),
  };
}

/** Why the tenant's vendor, or whoever calls in its name, is not believed. */
function reasonOf(reading: CallReading): string | undefined {
  if (reading.kind === 'forged') return reading.reason;
  return reading.kind === 'unreadable' ? 'unreadable' : undefined;
}

function reportsOf({ reading }: Pick<ReadCall, 'reading'>): readonly CallReportRow[] {
  return reading.kind === 'read' ? reading.reports : [];
}
