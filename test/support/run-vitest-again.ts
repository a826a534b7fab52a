import { runVitest, type VitestOptions, type VitestProject, type VitestRun } from './run-vitest.ts';
import { sum, type Tally } from './tally.ts';

/** More failed files than a busy machine causes: a second run would fail too, so there is none. */
const FILES_MAX = 8;

/**
 * Runs tests as {@link runVitest} does, and runs failed files once more, alone: among ten thousand tests, a wait can be too short
 * on a busy machine. A test that passes then counts as passed and is listed at the end of the output with its failure; a broken
 * one fails again.
 */
export async function runVitestAgain(
  project: VitestProject,
  options: VitestOptions = {},
): Promise<VitestRun> {
  const first = await runVitest(project, options);
  const paths = first.failedFiles.map(({ path }) => path);
  if (paths.length === 0 || paths.length > FILES_MAX) return first;
  process.stdout.write(`\nfailed, and run once more: ${paths.join(', ')}\n`);
  return combine(first, await runVitest(project, { ...options, filters: paths }));
}

const NOTHING_RUN: Tally = { passed: 0, failed: 1, failures: ['what failed was not found to be run again'] };

/** Combines two runs. @param again a run of the first one's failed files. */
export function combine(first: VitestRun, again: VitestRun): VitestRun {
  const failures = first.failedFiles.flatMap((file) => file.failures);
  const passedThere = first.failedFiles.reduce((total, { passed }) => total + passed, 0);
  // Failures outside of the tests of a file were not run again.
  const elsewhere = (first.tally.failures ?? []).filter((failure) => !failures.includes(failure));
  const isWhole = again.tally.failed > 0 || again.tally.passed > passedThere;
  const second = isWhole ? again.tally : NOTHING_RUN;
  const tally = sum([
    { passed: first.tally.passed - passedThere, failed: elsewhere.length, failures: elsewhere },
    { ...second, unsteady: second.failed === 0 ? failures : [] },
  ]);
  return { ...again, tally, output: `${first.output}\n${again.output}`, files: first.files };
}
