import { expect, test } from 'vitest';
import { numberEvents } from './number-events.ts';

/** Numbers `waiting` commits of this many events each. @returns how many commits each pass was to take. */
async function passesOver(waiting: number, eventsOf: (pass: number) => number): Promise<number[]> {
  const passes: number[] = [];
  let left = waiting;
  await numberEvents({
    store: {
      numberChanges(most) {
        const taken = Math.min(most, left);
        left -= taken;
        passes.push(most);
        const outcome = taken === most ? 'more' : 'numbered';
        return Promise.resolve({ outcome, numbered: taken * eventsOf(passes.length), endpointTenants: [] });
      },
    },
    onNumbered: () => undefined,
    onToMatch: () => undefined,
    onBatch: () => undefined,
    isStopping: () => false,
  });
  return passes;
}

test('passes over many small commits grow, up to a limit', async () => {
  expect(await passesOver(6_000, () => 2)).toEqual([200, 400, 800, 1_600, 2_000, 2_000]);
});

test('passes over large commits stay small', async () => {
  expect(await passesOver(700, () => 100)).toEqual([200, 200, 200, 200]);
});

test('passes take about ten thousand events', async () => {
  expect(await passesOver(3_000, () => 10)).toEqual([200, 400, 800, 1_000, 1_000]);
  // The commits of the second pass are larger.
  expect(await passesOver(1_000, (pass) => (pass === 1 ? 1 : 40))).toEqual([200, 400, 250, 250]);
});

test('passes after commits without events grow too', async () => {
  expect(await passesOver(700, () => 0)).toEqual([200, 400, 800]);
});

test.each([
  ['is told', 'numbered', 'done'],
  ['is told, and a later call must go on after a pass of another worker', 'early', 'early'],
] as const)('what a pass has numbered %s', async (_, outcome, ended) => {
  const told: unknown[] = [];
  expect(
    await numberEvents({
      store: { numberChanges: () => Promise.resolve({ outcome, numbered: 3, endpointTenants: ['a'] }) },
      onNumbered: (events) => void told.push(events),
      onToMatch: (tenantIds) => void told.push(tenantIds),
      onBatch: () => void told.push('batch'),
      isStopping: () => false,
    }),
  ).toBe(ended);
  expect(told).toEqual([3, ['a']]);
});

test('a stopping worker leaves the other commits to the next one', async () => {
  let batches = 0;
  let passes = 0;
  const ended = await numberEvents({
    store: {
      numberChanges() {
        passes += 1;
        return Promise.resolve({ outcome: 'more', numbered: 1, endpointTenants: [] });
      },
    },
    onNumbered: () => undefined,
    onToMatch: () => undefined,
    onBatch: () => void (batches += 1),
    isStopping: () => passes === 2,
  });
  expect({ ended, passes, batches }).toEqual({ ended: 'done', passes: 2, batches: 1 });
});
