import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { SlowestFirst } from './support/slowest-first.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

/** A limit for busy machines: expected effects come earlier on an idle one, and no test depends on when. */
const EFFECT_MS_MAX = 45_000;

const COMMON = {
  // Reloading the modules for each file took two thirds of the processor time. Files share a process one after the other, so they
  // must leave nothing behind and mock no modules.
  isolate: false,
  setupFiles: 'test/support/fast-check-sizes.ts',
  // A test about a duration sets its own timeout; all others wait for the effect.
  expect: { poll: { timeout: EFFECT_MS_MAX } },
  testTimeout: 90_000,
  hookTimeout: 120_000,
} as const;

export default defineConfig({
  root,
  test: {
    // The servers of the integration tests share the machine with the workers.
    maxWorkers: 2,
    passWithNoTests: true,
    sequence: { sequencer: SlowestFirst },
    projects: [
      {
        root,
        test: {
          name: 'unit',
          include: [
            'services/**/*.test.ts',
            'deploy/**/*.test.ts',
            'test/*.test.ts',
            'test/support/**/*.test.ts',
            'test/bench/**/*.test.ts',
            'test/fault/**/*.test.ts',
            'test/e2e/**/*.test.ts',
          ],
          ...COMMON,
        },
      },
      {
        root,
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts', 'test/security/**/*.test.ts'],
          ...COMMON,
          globalSetup: ['test/support/global-setup.ts'],
          // These tests wait for servers half of the time.
          maxWorkers: 3,
          testTimeout: 120_000,
        },
      },
      {
        root,
        test: {
          name: 'clients',
          include: ['test/clients/**/*.test.ts'],
          ...COMMON,
          globalSetup: ['test/support/global-setup.ts'],
        },
      },
      {
        root,
        test: {
          name: 'twins',
          include: ['test/wire-twins/**/*.test.ts'],
          ...COMMON,
          // Loading an SDK takes a while, and the first file waits for the installation of all SDKs.
          hookTimeout: 600_000,
        },
      },
    ],
  },
});
