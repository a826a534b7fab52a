import { expect, test } from 'vitest';
import { camelRows } from './camel-rows.ts';

const values = (columns: string[], ...rows: unknown[][]) =>
  Object.assign(rows, { columns: columns.map((name) => ({ name })) });

test('columns become camelCase fields of each row', () => {
  const at = new Date(0);
  const rows = camelRows(values(['id', 'purge_on', 'a_b_c'], [1, at, null], [2, null, 'x']));
  expect(rows).toEqual([
    { id: 1, purgeOn: at, aBC: null },
    { id: 2, purgeOn: null, aBC: 'x' },
  ]);
  expect(camelRows(values(['id']))).toEqual([]);
});
