import { expect, test } from 'vitest';
import { CONTESTANT_NAMES } from './contestants.ts';
import { HELP } from './help.ts';
import { parseOptions } from './options.ts';

test('--quick runs one short round, and further options override its parts', () => {
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

test('--only receipts selects all contestants of receipts and what they are compared with', () => {
  expect(parseOptions(['--only', 'accept,receipts,drain'])).toMatchObject({
    only: ['accept', 'receiptFloor', 'receiptIntake', 'receiptApply', 'receiptStorm', 'drain'],
  });
});

test('--only events selects all contestants of events and running, which they need', () => {
  expect(parseOptions(['--only', 'events'])).toMatchObject({
    only: ['running', 'eventFloor', 'eventTell', 'eventSends', 'eventReceipts', 'eventDead'],
  });
  expect(() => parseOptions(['--only', 'eventSends'])).toThrow('eventSends needs running beside it');
});

test('an unknown contestant is refused by name', () => {
  expect(() => parseOptions(['--only', 'accept,nobody'])).toThrow(/--only takes .*; not nobody/);
});

test('--help takes precedence over other options', () => {
  expect(parseOptions(['--help', '--quick'])).toBe('help');
});

test('--resume needs --only', () => {
  expect(parseOptions(['--resume', '--only', 'fairness'])).toMatchObject({
    resumes: true,
    only: ['fairness'],
  });
  expect(() => parseOptions(['--resume'])).toThrow('--resume needs --only');
});

test('--only takes parts with --growth and contestants without it, and --plant needs --growth', () => {
  expect(parseOptions(['--growth', '--only', 'suppressions', '--plant', '5'])).toMatchObject({
    parts: ['suppressions'],
    plant: 5,
  });
  expect(() => parseOptions(['--growth', '--only', 'accept'])).toThrow(
    /--only takes messages, .*; not accept/,
  );
  expect(() => parseOptions(['--only', 'suppressions'])).toThrow('not suppressions');
  expect(() => parseOptions(['--plant', '5'])).toThrow('--plant is for growth alone');
});

test('--growth and --soak are separate commands with options of their own', () => {
  expect(parseOptions([])).toMatchObject({ measures: 'rounds', maximum: undefined, keptIn: undefined });
  expect(parseOptions(['--growth', '--dir', '/data', '--grow-to', '1000'])).toMatchObject({
    measures: 'growth',
    keptIn: '/data',
    growTo: 1_000,
  });
  expect(parseOptions(['--soak', '60', '--maximum', '1800'])).toMatchObject({
    measures: 'soak',
    soakMinutes: 60,
    sharePercent: 70,
    maximum: 1_800,
  });
});

test.each([
  [['--growth', '--soak', '5'], '--growth and --soak are two commands'],
  [['--dir', '/data'], '--dir is for growth and soak alone'],
  [['--soak', '5', '--beside', '../old'], '--beside is for rounds alone'],
  [['--beside', '../old', '--only', 'accept'], '--beside needs running, or --maximum'],
  [['--growth', '--share', '50'], '--share is for soak alone'],
  [['--soak', '5', '--only', 'accept'], '--only is for rounds and growth alone'],
  [['--soak', '5', '--share', '101'], '--share must be a whole number from 1 to 100'],
  [['--soak', '0.5'], '--soak must be a whole number from 1 to 10000'],
] as const)('%j is refused with an explanation', (args, sentence) => {
  expect(() => parseOptions(args)).toThrow(sentence);
});

test('contestants paced by the maximum need running, --maximum or --resume', () => {
  expect(() => parseOptions(['--only', 'floor,bare'])).toThrow('bare needs running beside it, or --maximum');
  expect(parseOptions(['--only', 'bare,running'])).toMatchObject({ only: ['bare', 'running'] });
  expect(parseOptions(['--only', 'bare', '--maximum', '900'])).toMatchObject({ maximum: 900 });
  // The maximum of the resumed round is used.
  expect(parseOptions(['--only', 'bare', '--resume'])).toMatchObject({ resumes: true });
});

test('the help names the options of growth and soak and every contestant', () => {
  for (const word of [
    '--growth',
    '--soak',
    '--share',
    '--dir',
    '--maximum',
    '--grow-to',
    ...CONTESTANT_NAMES,
  ])
    expect(HELP).toContain(word);
});
