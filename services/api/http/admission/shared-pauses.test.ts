import { expect, test } from 'vitest';
import { createSharedPauses } from './shared-pauses.ts';

test('of many requests with long work one works in each turn of the event loop, the owners in turn', async () => {
  const clock = { now: 0 };
  const turns: (() => void)[] = [];
  const pauses = createSharedPauses({ monotonicMs: () => clock.now, next: (work) => turns.push(work) });
  const worked: string[] = [];
  async function request(owner: string, name: string): Promise<void> {
    const pause = pauses.of(owner);
    for (let unit = 0; unit < 3; unit += 1) {
      await pause();
      clock.now += 4;
      worked.push(name);
    }
  }
  const all = [request('noisy', 'n1'), request('noisy', 'n2'), request('noisy', 'n3'), request('quiet', 'q')];
  expect(worked).toEqual([]);
  const byTurn: string[][] = [];
  while (turns.length > 0) {
    turns.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
    byTurn.push(worked.splice(0));
  }
  await Promise.all(all);
  expect(byTurn).toEqual([
    ['n1', 'n1'],
    ['q', 'q'],
    ['n2', 'n2'],
    ['q'],
    ['n3', 'n3'],
    ['n1'],
    ['n2'],
    ['n3'],
  ]);
});
