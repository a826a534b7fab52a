import type { MessageFilter } from '#core/store/messages.ts';

/**
 * Whether of the messages that a list reads many may not be shown. Time, reference and batch choose what is read; and where live
 * and test messages are told apart, nearly all that are read are of the kind that is asked for.
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
