import { repeat, type Repeating } from './repeat.ts';
import type { WorkerEvents } from './events.ts';

/**
 * The work of a task.
 * @param onBatch called after each full batch: a task that has much to do for hours does not count as failed.
 * @returns `unfinished` if the run does not count as a success.
 */
export type TaskWork = (onBatch: () => void) => Promise<void | 'unfinished'>;

/** Starts a repeating task that reports its successes and failures under its name. */
export type StartTask = (name: string, everyMs: number, work: TaskWork) => Repeating;

export function startTaskWith(
  events: Pick<WorkerEvents, 'taskBegun' | 'taskSucceeded' | 'taskFailed'>,
): StartTask {
  return (name, everyMs, work) => {
    events.taskBegun(name);
    const succeeded = (): void => events.taskSucceeded(name);
    const run = async (): Promise<void> => {
      if ((await work(succeeded)) !== 'unfinished') succeeded();
    };
    return repeat(run, { everyMs, onError: (error) => events.taskFailed(name, error) });
  };
}
