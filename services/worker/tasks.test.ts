import { expect, test } from 'vitest';
import { createTasks } from './tasks.ts';

function setup() {
  const noted: string[] = [];
  const tasks = createTasks<'a' | 'b'>((name, everyMs) => {
    noted.push(`start ${name} ${everyMs}`);
    return {
      wake: (delayMs) => void noted.push(`wake ${name} ${delayMs}`),
      stop: async () => void noted.push(`stop ${name}`),
    };
  });
  const work = async () => undefined;
  return { noted, tasks, table: { a: { everyMs: 1, work }, b: { everyMs: 2, work } } };
}

test('tasks are started, woken and stopped by their names', async () => {
  const { noted, tasks, table } = setup();
  tasks.start(table);
  tasks.wake('b', 5);
  tasks.wake('a');
  await tasks.stop();
  expect(noted).toEqual(['start a 1', 'start b 2', 'wake b 5', 'wake a undefined', 'stop a', 'stop b']);
});

test('a wake-up before the start has no effect', async () => {
  const { noted, tasks } = setup();
  tasks.wake('a');
  await tasks.stop();
  expect(noted).toEqual([]);
});
