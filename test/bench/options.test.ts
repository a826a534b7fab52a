import { expect, test } from 'vitest';
import { parseOptions } from './options.ts';

test('a quick run is one short round, and each part of it can still be chosen', () => {
  expect(parseOptions(['--quick'])).toMatchObject({
    rounds: 1,
    measureMs: 3_000,
    warmMs: 2_000,
    backlog: 10_000,
  });
  expect(parseOptions(['--quick', '--rounds', '2', '--seconds', '1'])).toMatchObject({
    rounds: 2,
    measureMs: 1_000,
  });
});

test.each(['0', '-1', '1.5', 'many', '101'])('--rounds %s is refused with its bounds', (value) => {
  expect(() => parseOptions([`--rounds=${value}`])).toThrow('--rounds must be a whole number from 1 to 100');
});

test('help is help whatever stands beside it', () => {
  expect(parseOptions(['--help', '--quick'])).toBe('help');
});
