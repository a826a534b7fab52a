import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createWorkqueue, type Workqueue, type WorkqueueMetrics } from './workqueue.ts';

/** Returns the next key if one is available now. */
async function next(queue: Workqueue): Promise<string | undefined> {
  return queue.depth() === 0 ? undefined : queue.get();
}

describe('a key', () => {
  test('that is added repeatedly is queued once', async () => {
    const queue = createWorkqueue();
    for (const key of ['a', 'a', 'b', 'a']) queue.add(key);
    expect(queue.depth()).toBe(2);
    expect([await queue.get(), await queue.get()]).toEqual(['a', 'b']);
    expect(queue.depth()).toBe(0);
  });

  test('that is added while a worker has it is queued once more when the worker is done', async () => {
    const queue = createWorkqueue();
    queue.add('a');
    await queue.get();
    queue.add('a');
    queue.add('a');
    expect(queue.depth()).toBe(0);
    queue.done('a');
    expect(queue.depth()).toBe(1);
    expect(await queue.get()).toBe('a');
    queue.done('a');
    expect(queue.depth()).toBe(0);
  });

  test('that is added if idle is queued only if no worker has it and it has no delay', async () => {
    const queue = createWorkqueue();
    queue.addIfIdle('a');
    queue.addIfIdle('a');
    expect(queue.depth()).toBe(1);
    await queue.get();
    queue.addIfIdle('a');
    queue.done('a');
    expect(queue.depth()).toBe(0);
    queue.addAfter('a', 60_000);
    queue.addIfIdle('a');
    expect(queue.depth()).toBe(0);
    queue.add('a');
    expect(queue.depth()).toBe(1);
    queue.shutdown();
  });

  test('that changes is handed out before routine ones, also if it was one or a worker had it', async () => {
    const queue = createWorkqueue();
    for (const key of ['a', 'b', 'c', 'd']) queue.add(key, 'routine');
    queue.add('d');
    expect([await queue.get(), await queue.get()]).toEqual(['d', 'a']);
    queue.add('a', 'routine');
    queue.add('a');
    queue.done('a');
    expect([await queue.get(), await queue.get(), await queue.get()]).toEqual(['a', 'b', 'c']);
  });

  test('goes to the worker that has waited longest', async () => {
    const queue = createWorkqueue();
    const workers = [queue.get(), queue.get()];
    queue.add('a');
    queue.add('b');
    expect(await Promise.all(workers)).toEqual(['a', 'b']);
  });
});

test('a shutdown releases waiting workers, drops queued keys and accepts no more', async () => {
  const queue = createWorkqueue();
  const worker = queue.get();
  queue.add('a');
  expect(await worker).toBe('a');
  queue.add('b');
  const freed = [queue.get(), queue.get()];
  queue.shutdown();
  expect(await freed[1]).toBeUndefined();
  queue.add('c');
  queue.addAfter('d', 0);
  queue.done('a');
  expect(await queue.get()).toBeUndefined();
});

describe('delays', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('a key with several delays is queued once, after the shortest', async () => {
    const queue = createWorkqueue();
    queue.addAfter('a', 5_000);
    queue.addAfter('a', 1_000);
    queue.addAfter('a', 9_000);
    await vi.advanceTimersByTimeAsync(999);
    expect(queue.depth()).toBe(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(await queue.get()).toBe('a');
    queue.done('a');
    await vi.advanceTimersByTimeAsync(20_000);
    expect(queue.depth()).toBe(0);
  });

  test('a delay beyond the maximum of a timer does not end early', async () => {
    const queue = createWorkqueue();
    queue.addAfter('a', 90 * 86_400_000);
    await vi.advanceTimersByTimeAsync(86_400_000);
    expect(queue.depth()).toBe(0);
  });

  test('a failing key backs off exponentially up to 30 s, and starts over after a success', () => {
    const queue = createWorkqueue({ random: () => 1 });
    const delays = Array.from({ length: 13 }, () => queue.addRateLimited('a'));
    expect(delays.slice(0, 4)).toEqual([200, 400, 800, 1_600]);
    expect(delays.slice(-2)).toEqual([30_000, 30_000]);
    expect(queue.addRateLimited('b')).toBe(200);
    queue.forget('a');
    expect(queue.addRateLimited('a')).toBe(200);
  });

  test('a retry is handed out before routine passes, a resync after changes', async () => {
    const queue = createWorkqueue();
    queue.addAfter('resynced', 100);
    queue.addRateLimited('failed');
    await vi.advanceTimersByTimeAsync(1_000);
    queue.add('changed');
    expect([await queue.get(), await queue.get(), await queue.get()]).toEqual([
      'failed',
      'changed',
      'resynced',
    ]);
  });

  test('retries of all keys share a rate limit that does not apply to other adds', () => {
    const queue = createWorkqueue({ retries: { burst: 2, perSecond: 1 }, random: () => 1 });
    const delays = ['a', 'b', 'c', 'd'].map((key) => queue.addRateLimited(key));
    expect(delays).toEqual([200, 200, 1_000, 2_000]);
    queue.add('e');
    expect(queue.depth()).toBe(1);
    vi.advanceTimersByTime(10_000);
    expect(queue.addRateLimited('f')).toBe(200);
  });

  test('no retry waits longer than 30 s, however many keys fail', () => {
    const queue = createWorkqueue({ random: () => 1 });
    for (let round = 0; round < 20; round += 1) {
      const delays = Array.from({ length: 5_000 }, (_, key) => queue.addRateLimited(String(key)));
      expect(Math.max(...delays)).toBe(30_000);
      vi.advanceTimersByTime(30_000);
    }
    vi.advanceTimersByTime(60_000);
    expect(queue.addRateLimited('another')).toBe(200);
  });

  test('a shutdown leaves no timer', () => {
    const queue = createWorkqueue();
    queue.addAfter('a', 1_000);
    queue.addRateLimited('b');
    queue.shutdown();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('metrics record depth, adds, waits, work, retries and unfinished work', async () => {
    const told: Record<string, number[]> = {};
    const note = (name: string) => (value?: number) => void (told[name] ??= []).push(value ?? 1);
    let running: (() => { unfinished: number; longest: number }) | undefined;
    const metrics: WorkqueueMetrics = {
      depth: note('depth'),
      added: note('added'),
      retried: note('retried'),
      waited: note('waited'),
      worked: note('worked'),
      running: (read) => {
        running = read;
      },
    };
    const queue = createWorkqueue({ metrics, random: () => 1 });
    queue.add('a');
    queue.add('a');
    vi.advanceTimersByTime(2_000);
    await queue.get();
    queue.add('b');
    vi.advanceTimersByTime(1_000);
    await queue.get();
    vi.advanceTimersByTime(3_000);
    expect(running?.()).toEqual({ unfinished: 7, longest: 4 });
    queue.done('a');
    queue.addRateLimited('a');
    expect(told).toEqual({ depth: [1, 0, 1, 0], added: [1, 1], retried: [1], waited: [2, 1], worked: [4] });
  });
});

type Step = { readonly kind: 'add' | 'get' | 'done'; readonly key: string };

test('property: no key is processed twice at once, and no add is lost', async () => {
  const steps = fc.array(
    fc.record<Step>({ kind: fc.constantFrom('add', 'get', 'done'), key: fc.constantFrom('a', 'b', 'c') }),
    { maxLength: 60 },
  );
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      const queue = createWorkqueue();
      const working = new Set<string>();
      /** Keys that no worker has started since their last add. */
      const owed = new Set<string>();
      const take = async (): Promise<void> => {
        const key = await next(queue);
        if (key === undefined) return;
        expect(working.has(key)).toBe(false);
        expect(owed.has(key)).toBe(true);
        working.add(key);
        owed.delete(key);
      };
      const finish = (key: string): void => {
        if (working.delete(key)) queue.done(key);
      };
      for (const { kind, key } of script) {
        if (kind === 'add') {
          queue.add(key);
          owed.add(key);
        } else if (kind === 'get') await take();
        else finish(key);
      }
      for (let left = 10; left > 0; left -= 1) {
        for (const key of working) finish(key);
        await take();
      }
      expect([...owed]).toEqual([]);
      expect(queue.depth()).toBe(0);
    }),
    { numRuns: 500 },
  );
});
