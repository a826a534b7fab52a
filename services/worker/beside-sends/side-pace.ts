import { createSideRest, type SideRestDeps } from './side-rest.ts';

export type SidePaceDeps = Omit<SideRestDeps, 'onOver'> & {
  /** Ends the rests when aborted. */
  readonly signal: AbortSignal;
};

/** `surplus`: the work waits for the rests. */
export type SideTurn = 'expected' | 'surplus';

/** The facts about a piece of work that decide about the rest after it. */
export type DoneSideWork = {
  /** The surplus part of the work, from 0 to 1. */
  readonly surplus: number;
  /** For how long the batch counts as having waited, in milliseconds. */
  readonly waitedMs: number;
  /** How long the work had taken before its turn, in milliseconds. */
  readonly readMs?: number;
};

/**
 * Runs work beside sends. While messages are sent, one piece of work runs at a time, and what was surplus is followed by a rest
 * that is left to messages.
 */
export type SidePace = <Result>(
  turn: SideTurn,
  work: () => Promise<Result>,
  doneOf: (result: Result) => DoneSideWork,
) => Promise<Result>;

type Job = { readonly turn: SideTurn; readonly start: () => Promise<void> };

export function createSidePace({ signal, ...deps }: SidePaceDeps): SidePace {
  const jobs: Job[] = [];
  let running = 0;
  const rest = createSideRest({ ...deps, onOver: pump });
  signal.addEventListener('abort', pump, { once: true });

  function pump(): void {
    while (jobs.length > 0 && (running === 0 || !deps.isSending())) {
      const isResting = !signal.aborted && rest.leftMs() > 0;
      const next = jobs.findIndex(({ turn }) => !isResting || turn === 'expected');
      if (next === -1) {
        rest.callWhenOver();
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

  return (turn, work, doneOf) =>
    new Promise((resolve, reject) => {
      async function start(): Promise<void> {
        const startedAt = performance.now();
        try {
          const result = await work();
          const { surplus, waitedMs, readMs = 0 } = doneOf(result);
          const tookMs = (readMs + performance.now() - startedAt) * surplus;
          if (surplus > 0) rest.extend({ tookMs, waitedMs });
          resolve(result);
        } catch (error) {
          reject(error);
        }
      }
      jobs.push({ turn, start });
      pump();
    });
}
