import { z } from 'zod';
import { exactNumbers } from '../../http/input/exact-numbers.ts';

/** Many times more than any provider needs: a page of accounts is written value by value. */
export const CONFIG_VALUES_MAX = 100;
/** Far more than any provider needs; limits the size of a page of accounts. */
const CONFIG_BYTES_MAX = 32_768;

/** Returns a map of settings or secrets. Its number of values is checked first and on its own. */
export const configField = () =>
  z
    .record(z.string(), z.unknown())
    .refine((value) => countValues(value, CONFIG_VALUES_MAX) <= CONFIG_VALUES_MAX, {
      abort: true,
      params: { rule: 'max' },
      error: `Must have at most ${CONFIG_VALUES_MAX} values, nested ones counted`,
    })
    .check(exactNumbers)
    .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= CONFIG_BYTES_MAX, {
      params: { rule: 'max' },
      error: `Must have at most ${CONFIG_BYTES_MAX} bytes as JSON`,
    });

/** Counts the values below this one, of all levels, until there are more than `most`. */
function countValues(value: unknown, most: number): number {
  if (typeof value !== 'object' || value === null) return 0;
  let count = 0;
  for (const item of Object.values(value)) {
    count += 1 + countValues(item, most - count);
    if (count > most) break;
  }
  return count;
}
