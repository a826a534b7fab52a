import type { Behind, ExpectedWork } from '#core/domain/expected-work.ts';
import { REST_MS_MAX, restBesideSendsMs } from '#core/domain/rest-beside-sends.ts';

/** What some work on receipts was about. */
export type ReceiptWork = {
  /** By tenant, how many receipts it was. */
  readonly receipts: ReadonlyMap<string, number>;
  /** How long they had waited; the longest. */
  readonly waitedMs: number;
};

export type ReceiptPaceDeps = {
  readonly expected: ExpectedWork;
  readonly isSending: () => boolean;
  /** Ends the rests. */
  readonly signal: AbortSignal;
};

/**
 * While messages are sent, work on receipts is done one piece after the other. Expected receipts are worked on at once.
 * What is surplus is followed by a rest that is left to messages, and the tenants that it was of have their turn after it.
 */
export type ReceiptPace = {
  /** Runs what expected receipts need. */
  readonly run: Run;
  /** Runs what is of tenants that are behind, or of everyone, after the rests. */
  readonly runBehind: Run;
  /** Tenants whose receipts have their turn after the rests; nobody while nothing is sent. */
  readonly behind: () => Behind;
};

type Run = <Result>(work: () => Promise<Result>, workOf: (result: Result) => ReceiptWork) => Promise<Result>;

type Job = { readonly isBehind: boolean; readonly start: () => Promise<void> };

const NOBODY: ReadonlySet<string> = new Set();

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
      const next = jobs.findIndex(({ isBehind }) => restMs <= 0 || !isBehind);
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

  function note({ receipts, waitedMs }: ReceiptWork, tookMs: number): void {
    const now = performance.now();
    const surplus = expected.use(receipts, now);
    if (surplus === 0) return;
    const all = [...receipts.values()].reduce((sum, some) => sum + some, 0);
    const restMs = restBesideSendsMs({ tookMs: (tookMs * surplus) / all, isSending: isSending(), waitedMs });
    restUntil = Math.min(Math.max(restUntil, now) + restMs, now + REST_MS_MAX);
  }

  function runner(isBehind: boolean): Run {
    return (work, workOf) =>
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
        jobs.push({ isBehind, start });
        pump();
      });
  }

  return {
    run: runner(false),
    runBehind: runner(true),
    behind: () => (isSending() ? expected.behind(performance.now()) : NOBODY),
  };
}
