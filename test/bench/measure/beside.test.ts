import { expect, test } from 'vitest';
import { parseOptions } from '../options.ts';
import { besideArguments, isOtherFirst } from './beside.ts';

test('the other checkout measures the same contestants with the same options and rates', () => {
  const given = [
    '--seconds',
    '4',
    '--tenants',
    '20',
    '--seed',
    '7',
    '--only',
    'floor,accept,running',
    '--idempotent',
  ];
  const ours = parseOptions([...given, '--beside', '../old']);
  if (ours === 'help') throw new Error('the options are wrong');
  const theirs = parseOptions(besideArguments(ours, 2, 1_799.6));
  expect(theirs).toEqual({
    ...ours,
    rounds: 1,
    seed: 9,
    only: ['accept', 'running'],
    maximum: 1_800,
    beside: undefined,
    printsJson: true,
  });
});

test('the other checkout is measured first in every second round, where the maximum is given', () => {
  const orders = (maximum?: number) => [1, 2, 3, 4].map((number) => isOtherFirst({ maximum }, number));
  expect(orders(1_800)).toEqual([false, true, false, true]);
  expect(orders()).toEqual([false, false, false, false]);
});
