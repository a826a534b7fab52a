import type { MessageFilter } from '#core/store/messages.ts';

/**
 * Returns whether the filter rejects many of the messages that a list reads. Time, reference and batch do not count because
 * they select the rows that are read, and live or test does not because nearly all rows read match it.
 */
export function leavesOut({
  since: _since,
  until: _until,
  externalId: _externalId,
  batchId: _batchId,
  test: _test,
  ...looked
}: MessageFilter): boolean {
  return Object.values(looked).some((value) => value !== undefined);
}
