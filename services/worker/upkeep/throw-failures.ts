import type { UpkeepFailure } from '#core/store/upkeep/partitions.ts';

/** Throws an error that names all that failed, if anything did. */
export function throwFailures(failures: readonly UpkeepFailure[]): void {
  if (failures.length === 0) return;
  const names = failures.map(({ what }) => what).join(', ');
  throw new AggregateError(
    failures.map(({ error }) => error),
    `Upkeep failed for: ${names}`,
  );
}
