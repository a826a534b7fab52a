import { encodeWake } from '#core/domain/wake.ts';
import { LANES, type Nats } from '#core/platform/broker.ts';
import { createMicroBatch, QueueFullError } from '#core/platform/micro-batch.ts';
import type { AcceptRow, Verdict } from '#core/store/acceptance.ts';

export type AcceptBatcher = {
  /**
   * Resolves after the commit that holds the message.
   * @param bytes Size of the request, which bounds the memory that waiting requests take.
   * @throws QueueFullError under overload; the database's error where the row itself is at fault or no answer came.
   */
  readonly accept: (row: AcceptRow, bytes: number) => Promise<Verdict>;
  /** Resolves when everything taken so far is settled. */
  readonly drain: () => Promise<void>;
};

export type AcceptBatcherOptions = {
  readonly acceptMessages: (rows: readonly AcceptRow[], sweepAfterMs: number) => Promise<Verdict[]>;
  readonly isRowFault: (error: unknown) => boolean;
  readonly wakes: Pick<Nats, 'isConnected' | 'publishWakes'>;
  readonly rowsMax?: number;
  readonly flushesMax?: number;
  readonly queuedMax?: number;
  readonly queuedBytesMax?: number;
};

type Settled = { readonly verdict: Verdict } | { readonly error: unknown };

/** Where the wake-up has a chance to come first. */
const SWEEP_AFTER_MS = 5_000;

/** Gathers the requests of all connections into few commits, and wakes the workers after each. */
export function createAcceptBatcher(options: AcceptBatcherOptions): AcceptBatcher {
  const { acceptMessages, isRowFault, wakes } = options;
  const { rowsMax = 128, flushesMax = 2, queuedMax = 2_000, queuedBytesMax = 64 * 1024 * 1024 } = options;
  let bytesInside = 0;

  /** One row that the database chokes on must not fail its neighbours: halves are tried apart. */
  async function settle(rows: readonly AcceptRow[]): Promise<Settled[]> {
    try {
      const verdicts = await acceptMessages(rows, wakes.isConnected() ? SWEEP_AFTER_MS : 0);
      return verdicts.map((verdict) => ({ verdict }));
    } catch (error) {
      if (!isRowFault(error) || rows.length === 1) return rows.map(() => ({ error }));
      const middle = Math.ceil(rows.length / 2);
      return [...(await settle(rows.slice(0, middle))), ...(await settle(rows.slice(middle)))];
    }
  }

  const batch = createMicroBatch<AcceptRow, Settled>({
    itemsMax: rowsMax,
    flushesMax,
    queuedMax,
    async flush(rows) {
      const settled = await settle(rows);
      wake(rows, settled);
      return settled;
    },
  });

  /** Not awaited: what is lost here, the sweep finds. */
  function wake(rows: readonly AcceptRow[], settled: readonly Settled[]): void {
    const publications = rows.flatMap((row, i) => {
      const verdict = verdictOf(settled[i]);
      if (verdict?.verdict !== 'accepted') return [];
      const payload = encodeWake({ id: row.id, purgeOn: verdict.purgeOn, tenantId: row.tenant_id });
      const traceparent = row.traceparent ?? undefined;
      return [{ lane: LANES[row.priority], id: row.id, payload, traceparent }];
    });
    if (publications.length > 0) void wakes.publishWakes(publications);
  }

  return {
    async accept(row, bytes) {
      if (bytesInside + bytes > queuedBytesMax)
        throw new QueueFullError('requests that wait take too much memory');
      bytesInside += bytes;
      try {
        const settled = await batch.add(row);
        if ('error' in settled) throw settled.error;
        return settled.verdict;
      } finally {
        bytesInside -= bytes;
      }
    },
    drain: () => batch.drain(),
  };
}

function verdictOf(settled: Settled | undefined): Verdict | undefined {
  return settled !== undefined && 'verdict' in settled ? settled.verdict : undefined;
}
