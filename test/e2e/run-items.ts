import type { Tally } from '../support/tally.ts';

/** Runs one step and counts it as one test. A failed step ends its item. */
export type Step = <T>(guarantee: string, work: () => Promise<T>) => Promise<T>;

export type Item<Stage> = {
  readonly number: number;
  readonly title: string;
  readonly run: (stage: Stage, step: Step) => Promise<void>;
};

export type ItemsOptions<Stage> = {
  readonly stage: Stage;
  readonly print: (line: string) => void;
  /** Collects data that may explain a failure, and returns where they are and the notable lines. */
  readonly diagnose: (what: string) => Promise<readonly string[]>;
};

class StepFailed extends Error {
  override readonly name = 'StepFailed';
}

/** Runs the items one after the other; a failed item does not prevent the next. */
export async function runItems<Stage>(
  items: readonly Item<Stage>[],
  { stage, print, diagnose }: ItemsOptions<Stage>,
): Promise<Tally> {
  let passed = 0;
  let failed = 0;
  for (const item of items) {
    print(`\n${item.number}. ${item.title}`);
    const fail = async (what: string, startedAt: number, error: unknown): Promise<void> => {
      failed += 1;
      print(`FAILED  ${what} (${seconds(startedAt)})`);
      for (const line of [...describe(error), ...(await diagnose(`${item.number} ${what}`))]) {
        print(`        ${line}`);
      }
    };
    const step: Step = async (guarantee, work) => {
      const startedAt = Date.now();
      try {
        const result = await work();
        passed += 1;
        print(`passed  ${guarantee} (${seconds(startedAt)})`);
        return result;
      } catch (error) {
        await fail(guarantee, startedAt, error);
        throw new StepFailed(guarantee, { cause: error });
      }
    };
    const startedAt = Date.now();
    try {
      await item.run(stage, step);
    } catch (error) {
      // An error between two steps is a failure too.
      if (!(error instanceof StepFailed)) await fail(`item ${item.number} to its end`, startedAt, error);
    }
  }
  return { passed, failed };
}

function seconds(startedAt: number): string {
  return `${((Date.now() - startedAt) / 1_000).toFixed(1)} s`;
}

/** Returns the error and its causes, a line each. */
function describe(error: unknown): string[] {
  if (!(error instanceof Error)) return [String(error)];
  const where = (error.stack ?? '').split('\n').find((line) => line.includes('/test/e2e/items/'));
  const lines = error.message.split('\n').slice(0, 30);
  const cause = error.cause === undefined ? [] : describe(error.cause).map((line) => `because: ${line}`);
  return [...lines, ...(where === undefined ? [] : [where.trim()]), ...cause];
}
