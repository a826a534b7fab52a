import { expect, test } from 'vitest';
import type { ImportRow } from './import-rows.ts';
import { importSlices, SLICE_ROWS, type ImportSlice } from './import-slices.ts';

const valid = (line: number, isOver = false): ImportRow =>
  ({ line, entry: { address: String(line) }, isOver }) as ImportRow;
const faulty = (line: number): ImportRow => ({ line, faults: [] });

async function slicesOf(rows: readonly ImportRow[], pause = (): undefined => undefined) {
  const slices: ImportSlice[] = [];
  for await (const slice of importSlices(rows, pause)) slices.push(slice);
  return slices.map(({ entries, lines }) => ({ rows: entries.length, lines }));
}

test('rows are stored a thousand at a time, the last ones with the rest', async () => {
  const rows = Array.from({ length: SLICE_ROWS + 2 }, (_, n) => valid(n + 1));
  expect(await slicesOf(rows)).toEqual([
    { rows: SLICE_ROWS, lines: { from: 1, to: SLICE_ROWS } },
    { rows: 2, lines: { from: SLICE_ROWS + 1, to: SLICE_ROWS + 2 } },
  ]);
  expect(await slicesOf(rows.slice(0, SLICE_ROWS))).toHaveLength(1);
});

test('faulty rows and those whose expiry has passed are left out', async () => {
  expect(await slicesOf([faulty(1), valid(2), faulty(3), valid(4, true), valid(5), faulty(6)])).toEqual([
    { rows: 2, lines: { from: 2, to: 5 } },
  ]);
  expect(await slicesOf([faulty(1), valid(2, true)])).toEqual([]);
});

test('it may pause after each row', async () => {
  let pauses = 0;
  await slicesOf([valid(1), valid(2)], () => void pauses++);
  expect(pauses).toBe(2);
});
