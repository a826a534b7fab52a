import { expect, test } from 'vitest';
import { callEndOf } from './call-end.ts';
import { FAILURE_CLASSES } from './failure.ts';

test('a rejection of the recipient or content counts as refused, other failures as failed', () => {
  expect(callEndOf({ kind: 'accepted', providerMessageId: null })).toBe('accepted');
  const refused = FAILURE_CLASSES.filter((one) =>
    (['rejected_permanent', 'rejected_transient'] as const).every(
      (kind) => callEndOf({ kind, failure: { class: one, code: 'x' } }) === 'refused',
    ),
  );
  expect(refused).toEqual(['invalid_recipient', 'recipient_unavailable', 'content_rejected']);
  for (const one of FAILURE_CLASSES)
    expect(callEndOf({ kind: 'ambiguous', failure: { class: one, code: 'x' } })).toBe('failed');
  expect(
    callEndOf({ kind: 'rejected_transient', failure: { class: 'provider_unavailable', code: 'x' } }),
  ).toBe('failed');
});
