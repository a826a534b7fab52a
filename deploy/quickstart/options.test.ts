import { expect, test } from 'vitest';
import { parseOptions } from './options.ts';

const root = '/checkout';

test('without arguments it stays up and keeps its data in .despatch', () => {
  expect(parseOptions([], {}, root)).toEqual({
    kind: 'run',
    options: { once: false, vault: false, fresh: false, anyPorts: false, stateDir: '/checkout/.despatch' },
  });
});

test('--state takes precedence over DESPATCH_STATE_DIR', () => {
  const env = { DESPATCH_STATE_DIR: '/elsewhere' };
  expect(parseOptions([], env, root)).toMatchObject({ options: { stateDir: '/elsewhere' } });
  expect(parseOptions(['--state', 'play'], env, root)).toMatchObject({
    options: { stateDir: '/checkout/play' },
  });
});

test('an unknown option is a fault that names it', () => {
  expect(parseOptions(['--onec'], {}, root)).toEqual({
    kind: 'fault',
    message: expect.stringContaining('--onec'),
  });
});

test('-h takes precedence over other options', () => {
  expect(parseOptions(['--once', '-h'], {}, root)).toEqual({ kind: 'help' });
});
