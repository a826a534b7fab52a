import { expect, test } from 'vitest';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { ReportRow } from '#core/store/receipts/receipt-reports.ts';
import { failureOf } from '#providers/classify-error.ts';
import { createRedactor } from '#providers/redact.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { toReport } from '../receipts/to-report.ts';
import { withoutVendorWords } from './completion.ts';

const MESSAGE = {
  seq: 1,
  purgeOn: '2026-01-05',
  attempt: 1,
  provider: 'webhook-sms',
  sender: null,
  expiresAt: new Date(Date.now() + 60_000),
} as unknown as ClaimedMessage;

const completed = (outcome: AttemptOutcome) => completionOf(MESSAGE, outcome);

function reported(providerMessageId: string): ReportRow {
  const origin = { accountId: 'a', receivedMs: 0, redact: createRedactor([]), verified: true };
  return toReport({ providerStatus: 'delivered', providerMessageId }, undefined, origin);
}

test.each(['SM1', 'a\0b', 'a\ud800', '😀'.repeat(256), '😀'.repeat(257), '\0'])(
  'an id of a vendor (%j) is stored in one form with the attempt and with the report',
  (id) => {
    const { provider_message_id: stored, sent_from: sender } = completed({
      kind: 'accepted',
      providerMessageId: id,
      sender: id,
    });
    expect([stored, sender]).toEqual([reported(id).provider_message_id, stored]);
    expect(stored ?? '').not.toContain('\0');
    expect(stored?.isWellFormed() ?? true).toBe(true);
  },
);

test("a provider's code that is cut within a pair can be stored", () => {
  const response = { kind: 'response', status: 400, headers: {}, text: '' } as const;
  const meaning = { class: 'unknown', code: 'refused', retry: false } as const;
  const vendorError = { providerCode: `${'x'.repeat(63)}😀` };
  const failure = failureOf(response, { meaning, vendorError }, []);
  const row = completed({ kind: 'rejected_permanent', failure });
  expect(row).toMatchObject({ failure: { providerCode: 'x'.repeat(63) } });
});

test('a row without the words of a vendor has neither its id, its sender nor its texts', () => {
  const accepted = completed({ kind: 'accepted', providerMessageId: 'an id', sender: 'a sender' });
  const failure = {
    class: 'unknown',
    code: 'refused',
    providerCode: 'a code',
    providerMessage: 'a text',
  } as const;
  const refused = completed({ kind: 'rejected_permanent', failure });
  expect(JSON.stringify([accepted, refused].map(withoutVendorWords))).not.toMatch(
    /an id|a sender|a code|a text/,
  );
});
