import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const root = fileURLToPath(new URL('..', import.meta.url));

export default defineConfig({
  root,
  test: {
    // The servers of the integration tests share the machine with the workers.
    maxWorkers: 2,
    passWithNoTests: true,
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
          // Loading the modules once for each file took two thirds of the time. Files share a process one after the other:
          // they leave nothing behind, and mock no modules.
          isolate: false,
          testTimeout: 10_000,
        },
      },
      {
        root,
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts', 'test/security/**/*.test.ts'],
          globalSetup: ['test/support/global-setup.ts'],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
