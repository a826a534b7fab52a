import { runVitest } from '../support/run-vitest.ts';
import type { Tally } from '../support/tally.ts';
import { installVendorPackages } from './support/vendor-package.ts';

/** Compares what our adapters send and verify with what the vendors' own SDKs do. */
export async function runTwins(): Promise<Tally> {
  try {
    await installVendorPackages();
  } catch (error) {
    process.stdout.write(`FAILED  wire twins: ${(error as Error).message}\n`);
    return { passed: 0, failed: 1 };
  }
  return (await runVitest('twins')).tally;
}
