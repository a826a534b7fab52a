import type { MessageFilter } from '#core/store/messages/messages.ts';

/**
 * Returns whether the filter may reject many of the messages that a list reads. Time, reference, batch and `test: true` do not
 * count because an index selects the rows that are read. None selects live messages: all of the newest ones may be tests.
 */
export function leavesOut({
  since: _since,
  until: _until,
  externalId: _externalId,
  batchId: _batchId,
  test,
  ...looked
}: MessageFilter): boolean {
  return test === false || Object.values(looked).some((value) => value !== undefined);
}
