import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { answerWithin, Deadline, within } from './deadline.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = new Promise<never>(() => {});
const failed = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

test('work that ends in time keeps its result or error, and leaves no timer', async () => {
  const fault = new Error('broken');
  expect(await within(Promise.resolve('done'), 50, () => 'late')).toBe('done');
  expect(await failed(within(Promise.reject(fault), 50, () => 'late'))).toBe(fault);
  expect(vi.getTimerCount()).toBe(0);
});

test('work that takes too long yields the fallback, and its later rejection is handled', async () => {
  const work = Promise.withResolvers<string>();
  const ended = within(work.promise, 50, () => 'late');
  await vi.advanceTimersByTimeAsync(49);
  expect(vi.getTimerCount()).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(await ended).toBe('late');
  // If it were unhandled, this rejection would end the process.
  work.reject(new Error('afterwards'));
  await vi.advanceTimersByTimeAsync(1);
});

test('a dependency that does not answer in time gives an error with its name and deadline', async () => {
  const answer = failed(answerWithin('postgres', never, 5_000));
  await vi.advanceTimersByTimeAsync(5_000);
  const error = (await answer) as DependencyError;
  expect(error).toBeInstanceOf(DependencyError);
  expect([error.dependency, error.fault, error.message]).toEqual([
    'postgres',
    'deadline',
    'postgres gave no answer within 5000 ms',
  ]);
});

test('answerWithin starts a lazy query exactly once', async () => {
  // A query of the database driver begins when its `then` is called.
  const query = Promise.resolve('row');
  const begun = vi.spyOn(query, 'then');
  expect(await answerWithin('postgres', query, 50)).toBe('row');
  expect(begun).toHaveBeenCalledTimes(1);
});

test('a deadline aborts its signal after its time, with the given reason', () => {
  const reason = new Error('too long');
  using deadline = new Deadline(50, { reason: () => reason });
  vi.advanceTimersByTime(49);
  expect(deadline.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(deadline.signal.reason).toBe(reason);
});

test('restart() restarts the time, and lift() disables the deadline', () => {
  using silence = new Deadline(50);
  using lifted = new Deadline(50);
  lifted.lift();
  vi.advanceTimersByTime(40);
  silence.restart();
  vi.advanceTimersByTime(49);
  expect([silence.signal.aborted, lifted.signal.aborted]).toEqual([false, false]);
  vi.advanceTimersByTime(1);
  expect([silence.signal.aborted, lifted.signal.aborted]).toEqual([true, false]);
});

test.each(['before', 'after'])(
  'a parent that is aborted %s the start aborts the deadline with its own reason',
  (when) => {
    const parent = new AbortController();
    const end = (): void => parent.abort('enough');
    if (when === 'before') end();
    using deadline = new Deadline(50, { parent: parent.signal });
    deadline.lift();
    if (when === 'after') end();
    expect(deadline.signal.reason).toBe('enough');
  },
);

test('a disposed deadline leaves no timer or listener', () => {
  const parent = new AbortController();
  const { signal } = parent;
  {
    using deadline = new Deadline(50, { parent: signal });
    expect([deadline.signal.aborted, vi.getTimerCount(), getEventListeners(signal, 'abort').length]).toEqual([
      false,
      1,
      1,
    ]);
  }
  expect([vi.getTimerCount(), getEventListeners(signal, 'abort').length]).toEqual([0, 0]);
});
