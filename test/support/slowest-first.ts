import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take longer than a minute on two cores, the longest first. Vitest begins with the largest files where it knows no
 * durations, as in a fresh clone, and these would run alone at the end.
 */
export const SLOWEST = [
  'test/security/mutants.test.ts',
  'test/integration/services/quickstart.test.ts',
  'test/integration/controller/controller-process.test.ts',
  'test/integration/worker/worker.test.ts',
  'test/integration/chart/chart-cluster.test.ts',
  'test/security/tenant-isolation.test.ts',
  'test/integration/services/service-crash.test.ts',
];

/** Begins a run with the slowest files. */
export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- This is the method of the class, not that of arrays.
    return slowestFirst(await super.sort(files), ({ moduleId }) => moduleId);
  }
}

export function slowestFirst<File>(files: readonly File[], pathOf: (file: File) => string): File[] {
  const rankOf = (file: File): number => {
    const rank = SLOWEST.findIndex((slow) => pathOf(file).endsWith(slow));
    return rank === -1 ? SLOWEST.length : rank;
  };
  return files.toSorted((one, other) => rankOf(one) - rankOf(other));
}
