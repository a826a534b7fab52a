import { chunks } from '#core/domain/chunks.ts';
import { databaseFaultOf, isDamage } from '#core/domain/storage/database-fault.ts';
import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type {
  CallReportRow,
  SettledReceiptCalls,
  StoredReceiptCall,
} from '#core/store/receipts/receipt-reports.ts';
import type { Refusals } from '../refusals.ts';
import type { CallReading } from './read-call.ts';

/**
 * A call, the result of reading it, and how long that kept the event loop. `againMs`: the time after which the call is read again.
 */
export type ReadCall = {
  readonly call: StoredReceiptCall;
  readonly provider: string;
  readonly reading: CallReading;
  readonly readMs: number;
  readonly againMs: number | undefined;
};

export type SettleCallsDeps = {
  readonly store: Pick<WorkerStore, 'settleReceiptCalls'>;
  readonly refusals: Refusals;
  /** Returns when a call whose contents the database refuses is read again, in milliseconds; undefined after many tries. */
  readonly againAfter: (call: StoredReceiptCall) => number | undefined;
  /** Called when the database refuses the contents of the call. */
  readonly onUnstorable: (provider: string, error: unknown) => void;
  /**
   * Runs each commit when it is its turn.
   * @param calls the calls, or parts of calls, that the commit contains.
   */
  readonly pace: <Stored>(store: () => Promise<Stored>, calls: readonly SettledPart[]) => Promise<Stored>;
  /** Maximum reports per commit, see {@link REPORTS_AT_ONCE}. */
  readonly reportsMax: number;
};

/** The part of a call that one commit contains. `readMs`: how long the call took to read, in its last part. */
export type SettledPart = {
  readonly call: StoredReceiptCall;
  readonly reports: number;
  readonly readMs: number;
};

/** Reports per commit: a message that meets them in the database, or in this process, waits only some milliseconds. */
export const REPORTS_AT_ONCE = 256;

/** The reports of a call, all of them or as many as one commit takes. The last piece settles the call. */
type Piece = { readonly of: ReadCall; readonly reports: readonly CallReportRow[]; readonly isLast: boolean };

/**
 * Replaces the calls by their reports in few commits, small calls first. A call with many reports takes several commits; if the
 * worker dies between them, the call is read again and repeated reports count once. If the database refuses a call, only that
 * call is given up; a fault that refuses every call gives up none.
 * @returns the calls as they were settled, and the errors that kept others from being settled.
 */
export async function settleCalls(
  calls: readonly ReadCall[],
  deps: SettleCallsDeps,
): Promise<{ readonly settled: readonly ReadCall[]; readonly faults: readonly unknown[] }> {
  const settled: ReadCall[] = [];
  const faults: unknown[] = [];
  /** Calls of which the database refused a piece. */
  const refused = new Set<ReadCall>();

  async function storeAll(pieces: readonly Piece[]): Promise<readonly Piece[]> {
    await deps.store.settleReceiptCalls(rowsOf(pieces));
    if (pieces.some(({ reports }) => reports.length > 0)) deps.refusals.noteTaken();
    for (const piece of pieces) if (piece.isLast) settled.push(piece.of);
    return pieces;
  }

  async function refuse(pieces: readonly Piece[], error: unknown): Promise<readonly Piece[]> {
    const [piece] = pieces;
    // If the database is unavailable, the leases run out and the calls are taken again.
    if (databaseFaultOf(error) !== 'row' || piece === undefined) throw error;
    if (piece.of.reading.kind !== 'read') {
      faults.push(error);
      return pieces;
    }
    refused.add(piece.of);
    deps.onUnstorable(piece.of.provider, error);
    return settlePart([{ of: withoutReports(piece.of, error), reports: [], isLast: true }]);
  }

  /** Damage is the operator's to repair: the call may be intact. */
  function withoutReports(one: ReadCall, refusal: unknown): ReadCall {
    const isAtFault = deps.refusals.isConfirmed(one.call.id) && !isDamage(refusal);
    const againMs = isAtFault ? undefined : deps.againAfter(one.call);
    return { ...one, reading: { kind: againMs === undefined ? 'unreadable' : 'undecided' }, againMs };
  }

  function settlePart(pieces: readonly Piece[]): Promise<readonly Piece[]> {
    return bisectFaults(pieces, storeAll, refuse);
  }

  try {
    for (const part of partsOf(calls, deps.reportsMax)) {
      const left = part.filter((piece) => !refused.has(piece.of));
      if (left.length === 0) continue;
      await deps.pace(
        () => settlePart(left),
        left.map(({ of, reports, isLast }) => ({
          call: of.call,
          reports: reports.length,
          readMs: isLast ? of.readMs : 0,
        })),
      );
    }
  } catch (error) {
    faults.push(error);
  }
  return { settled, faults };
}

/** Whether a call has more reports than one commit takes. */
export function needsSeveralCommits(call: Pick<ReadCall, 'reading'>): boolean {
  return reportsOf(call).length > REPORTS_AT_ONCE;
}

function partsOf(calls: readonly ReadCall[], reportsMax: number): Piece[][] {
  const parts: Piece[][] = [];
  let reports = Infinity;
  const smallFirst = calls.toSorted((a, b) => reportsOf(a).length - reportsOf(b).length);
  for (const piece of smallFirst.flatMap((of) => piecesOf(of, reportsMax))) {
    reports += piece.reports.length;
    if (reports > reportsMax) {
      parts.push([]);
      reports = piece.reports.length;
    }
    parts.at(-1)?.push(piece);
  }
  return parts;
}

function piecesOf(of: ReadCall, reportsMax: number): Piece[] {
  const pieces = chunks(reportsOf(of), reportsMax);
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
    again: ended.flatMap(({ call, reading, againMs: ms }) =>
      ms === undefined
        ? []
        : [{ id: call.id, ms, misconfigured: isMisconfigured(reading), refused: isRefused(reading) }],
    ),
    genuine: [...new Set(pieces.filter(isRead).map(({ of }) => of.call.accountId))],
    refused: ended.flatMap((one) => {
      const reason = reasonOf(one);
      return reason === undefined ? [] : [{ account_id: one.call.accountId, reason }];
    }),
  };
}

/** Undefined is not sent. */
function isRefused({ kind }: CallReading): true | undefined {
  return kind === 'forged' ? true : undefined;
}

function isMisconfigured(reading: CallReading): boolean {
  return reading.kind === 'undecided' && reading.isMisconfigured === true;
}

/**
 * Returns why nothing of the call, of the tenant's vendor or a forger, is believed; undefined if it is, if it is not settled yet,
 * or if an earlier reading has told it.
 */
function reasonOf({ call, reading, againMs }: ReadCall): string | undefined {
  if (call.wasRefused) return undefined;
  if (reading.kind === 'forged') return reading.reason;
  // No try could read it, and there will be no other.
  if (reading.kind === 'undecided' && againMs === undefined) return 'unreadable';
  return reading.kind === 'unreadable' ? 'unreadable' : undefined;
}

function reportsOf({ reading }: Pick<ReadCall, 'reading'>): readonly CallReportRow[] {
  return reading.kind === 'read' ? reading.reports : [];
}
