import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { readValueTree, type ChartValue } from './value-tree.ts';

test('every value of the chart is described', async () => {
  const text = await readFile(new URL('../../charts/despatch/values.yaml', import.meta.url), 'utf8');
  expect(readValueTree(text).flatMap((value) => undescribed(value, ''))).toEqual([]);
});

/** A map's description may cover all of its values. */
function undescribed({ path, description, children }: ChartValue, inherited: string): string[] {
  const own = description === '' ? inherited : description;
  if (children === undefined) return own === '' ? [path] : [];
  const isSaidOnce = children.every((child) => child.description === '');
  return children.flatMap((child) => undescribed(child, isSaidOnce ? own : ''));
}
