import { runVitestAgain } from '../support/run-vitest-again.ts';
import type { Tally } from '../support/tally.ts';
import { installVendorPackages } from './support/vendor-package.ts';

/** Compares the requests and verdicts of the adapters with those of the vendors' own SDKs. */
export async function runTwins(): Promise<Tally> {
  try {
    await installVendorPackages();
  } catch (error) {
    return { passed: 0, failed: 1, failures: [`wire twins: ${(error as Error).message}`] };
  }
  return (await runVitestAgain('twins')).tally;
}
