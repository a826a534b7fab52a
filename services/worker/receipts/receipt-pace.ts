import { NOBODY, type ExpectedWork, type TenantsWithSurplus } from '#core/domain/queue/expected-work.ts';
import { extendRest } from '#core/domain/queue/rest-beside-sends.ts';

/** The extent of a piece of work on receipts. */
export type ReceiptWork = {
  /** Number of receipts by tenant. */
  readonly receipts: ReadonlyMap<string, number>;
  /** The longest time that one of the receipts had waited, in milliseconds. */
  readonly waitedMs: number;
  /** How long the work had taken before its turn, in milliseconds. */
  readonly readMs?: number;
};

export type ReceiptPaceDeps = {
  readonly expected: ExpectedWork;
  readonly isSending: () => boolean;
  /** Ends the rests when aborted. */
  readonly signal: AbortSignal;
};

/**
 * Paces work on receipts. While messages are sent, one piece of work runs at a time. Expected receipts are handled at once. After
 * work on surplus receipts a rest is left to messages, and the tenants of the surplus wait until the rest is over.
 */
export type ReceiptPace = {
  /** Runs work in its turn. */
  readonly run: <Result>(
    kind: ReceiptWorkKind,
    work: () => Promise<Result>,
    workOf: (result: Result) => ReceiptWork,
  ) => Promise<Result>;
  /** Returns the tenants whose receipts must wait for the rests; none while no messages are sent. */
  readonly withSurplus: () => TenantsWithSurplus;
};

/** `surplus`: work on receipts of tenants with surplus, or of everyone, which waits for the rests. */
export type ReceiptWorkKind = 'expected' | 'surplus';

type Job = { readonly kind: ReceiptWorkKind; readonly start: () => Promise<void> };

export function createReceiptPace({ expected, isSending, signal }: ReceiptPaceDeps): ReceiptPace {
  const jobs: Job[] = [];
  let running = 0;
  let restUntil = 0;
  let timer: NodeJS.Timeout | undefined;
  signal.addEventListener('abort', pump, { once: true });

  function pump(): void {
    clearTimeout(timer);
    while (jobs.length > 0 && (running === 0 || !isSending())) {
      const restMs = isSending() && !signal.aborted ? restUntil - performance.now() : 0;
      const next = jobs.findIndex(({ kind }) => restMs <= 0 || kind === 'expected');
      if (next === -1) {
        timer = setTimeout(pump, restMs);
        return;
      }
      const [job] = jobs.splice(next, 1);
      running++;
      void job?.start().finally(() => {
        running--;
        pump();
      });
    }
  }

  function note({ receipts, waitedMs, readMs = 0 }: ReceiptWork, tookMs: number): void {
    const now = performance.now();
    const surplus = expected.use(receipts, now);
    if (surplus === 0) return;
    const all = [...receipts.values()].reduce((sum, some) => sum + some, 0);
    restUntil = extendRest(restUntil, now, {
      kind: 'receipts',
      tookMs: ((readMs + tookMs) * surplus) / all,
      isSending: isSending(),
      waitedMs,
    });
  }

  return {
    run: (kind, work, workOf) =>
      new Promise((resolve, reject) => {
        async function start(): Promise<void> {
          const startedAt = performance.now();
          try {
            const result = await work();
            note(workOf(result), performance.now() - startedAt);
            resolve(result);
          } catch (error) {
            reject(error);
          }
        }
        jobs.push({ kind, start });
        pump();
      }),
    withSurplus: () => (isSending() ? expected.withSurplus(performance.now()) : NOBODY),
  };
}
