import { expect, test } from 'vitest';
import { CONTESTANT_NAMES } from './contestants.ts';
import { parseOptions } from './options.ts';

test('a quick run is one short round, and each part of it can still be chosen', () => {
  expect(parseOptions(['--quick'])).toMatchObject({
    rounds: 1,
    measureMs: 3_000,
    warmMs: 1_000,
    backlog: 5_000,
    keyring: 'local',
    only: CONTESTANT_NAMES,
    writesPage: false,
  });
  expect(
    parseOptions(['--quick', '--rounds', '2', '--seconds', '1', '--only', 'accept,drain']),
  ).toMatchObject({
    rounds: 2,
    measureMs: 1_000,
    only: ['accept', 'drain'],
  });
});

test.each(['0', '-1', '1.5', 'many', '101'])('--rounds %s is refused with its bounds', (value) => {
  expect(() => parseOptions([`--rounds=${value}`])).toThrow('--rounds must be a whole number from 1 to 100');
});

test('an unknown contestant is refused by name', () => {
  expect(() => parseOptions(['--only', 'accept,nobody'])).toThrow(/--only takes .*; not nobody/);
});

test('help is help whatever stands beside it', () => {
  expect(parseOptions(['--help', '--quick'])).toBe('help');
});

test('a result that is resumed is measured again only where it is said', () => {
  expect(parseOptions(['--resume', '--full'])).toMatchObject({
    resumes: true,
    measuresGrowth: true,
    only: [],
  });
  expect(parseOptions(['--resume', '--only', 'fairness'])).toMatchObject({ only: ['fairness'] });
  expect(() => parseOptions(['--resume'])).toThrow('--resume needs --only or --full');
});
