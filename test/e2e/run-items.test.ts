import { expect, test } from 'vitest';
import { runItems, type Item } from './run-items.ts';

function recorder(): {
  readonly lines: string[];
  readonly options: Parameters<typeof runItems<string[]>>[1];
} {
  const lines: string[] = [];
  return {
    lines,
    options: { stage: [], print: (line) => void lines.push(line), diagnose: async (what) => [`see ${what}`] },
  };
}

test('a failed step ends its item and is diagnosed, and the next item runs', async () => {
  const { lines, options } = recorder();
  const items: Item<string[]>[] = [
    {
      number: 1,
      title: 'first',
      async run(stage, step) {
        await step('holds', async () => stage.push('a'));
        await step('does not hold', () => Promise.reject(new Error('for a reason')));
        await step('never comes', async () => stage.push('b'));
      },
    },
    { number: 2, title: 'second', run: (stage, step) => step('holds too', async () => void stage.push('c')) },
  ];
  expect(await runItems(items, options)).toEqual({ passed: 2, failed: 1 });
  expect(options.stage).toEqual(['a', 'c']);
  expect(lines.join('\n')).toMatch(
    /FAILED {2}does not hold[^]*for a reason[^]*see 1 does not hold[^]*2\. second/,
  );
});

test('an error outside of any step counts as a failure', async () => {
  const { options } = recorder();
  const item: Item<string[]> = { number: 1, title: 'first', run: () => Promise.reject(new Error('early')) };
  expect(await runItems([item], options)).toEqual({ passed: 0, failed: 1 });
});
