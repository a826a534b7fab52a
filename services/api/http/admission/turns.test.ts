import { afterEach, expect, test, vi } from 'vitest';
import { createTurns } from './turns.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** The test controls the clock: on a busy machine the turns, and the waits between them, would take longer. */
function setup() {
  let clock = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => clock);
  const pass = (ms: number): void => void (clock += ms);
  const turns = createTurns(100);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const take = (item: string, bytes: number): void => {
    void turns.take(item.slice(0, 1), bytes).then((end) => {
      begun.push(item);
      ends.set(item, end);
    });
  };
  const end = (item: string): void => ends.get(item)?.();
  const settled = () => new Promise(setImmediate);
  return { begun, take, end, settled, pass };
}

test('owners take turns, and items run at once only within the room in bytes', async () => {
  const { begun, take, end, settled } = setup();
  for (const item of ['a1', 'a2', 'a3', 'a4', 'b1']) take(item, 50);
  await settled();
  expect(begun).toEqual(['a1', 'a2']);
  end('a1');
  await settled();
  expect(begun.slice(2)).toEqual(['a3']);
  end('a2');
  await settled();
  expect(begun.slice(3)).toEqual(['b1']);
});

test('an item larger than the room runs alone, and smaller items do not overtake it', async () => {
  const { begun, take, end, settled } = setup();
  take('a1', 10);
  take('b1', 500);
  take('c1', 10);
  await settled();
  expect(begun).toEqual(['a1']);
  end('a1');
  await settled();
  expect(begun).toEqual(['a1', 'b1']);
  end('b1');
  await settled();
  expect(begun).toEqual(['a1', 'b1', 'c1']);
});

test('the next turn waits for as long as the previous one kept the process busy', async () => {
  const { begun, take, end, settled, pass } = setup();
  take('a1', 100);
  take('a2', 100);
  await Promise.resolve();
  pass(30);
  await settled();
  end('a1');
  pass(29);
  await settled();
  expect(begun).toEqual(['a1']);
  pass(1);
  await expect.poll(() => begun).toEqual(['a1', 'a2']);
});
