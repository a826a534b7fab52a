import type { Repeating } from './repeat.ts';
import type { StartTask, TaskWork } from './start-task.ts';

export type Task = { readonly everyMs: number; readonly work: TaskWork };

export type Tasks<Name extends string> = {
  /**
   * Runs a task after `delayMs` instead of at its next interval. Before the start it has no effect, because each task begins with a
   * run.
   */
  wake(name: Name, delayMs?: number): void;
  start(table: Readonly<Record<Name, Task>>): void;
  /** Stops all tasks, and waits for the runs under way. */
  stop(): Promise<void>;
};

/** Creates a set of tasks that can be woken by parts of the worker that the tasks themselves need. */
export function createTasks<Name extends string>(startTask: StartTask): Tasks<Name> {
  const started = new Map<string, Repeating>();
  return {
    wake: (name, delayMs) => started.get(name)?.wake(delayMs),
    start(table) {
      for (const [name, { everyMs, work }] of Object.entries<Task>(table))
        started.set(name, startTask(name, everyMs, work));
    },
    async stop() {
      await Promise.all(started.values().map((task) => task.stop()));
    },
  };
}
