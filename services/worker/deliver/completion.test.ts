import { expect, test } from 'vitest';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { Settlement } from '#core/domain/sending/settlement.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { ReportRow } from '#core/store/receipts/receipt-reports.ts';
import { failureOf } from '#providers/classify-error.ts';
import { createRedactor } from '#providers/redact.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { toReport } from '../receipts/to-report.ts';
import { toCompletion, withoutVendorWords } from './completion.ts';

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

const NOW = 1_800_000_000_000;
const FAILURE = { class: 'invalid_recipient', code: 'unknown_recipient', httpStatus: 400 } as const;
const REFUSED: AttemptOutcome = { kind: 'rejected_permanent', failure: FAILURE };
const WAITING: Settlement = {
  status: 'deferred',
  reason: null,
  failure: null,
  nextAttemptAt: NOW + 5_000,
  retries: 1,
  ambiguous: 0,
  providerWaits: 0,
  duplicateRisk: false,
  final: false,
  awaitUntil: null,
  failoverMs: null,
  receipts: [],
  rerouted: null,
  stayed: null,
  returned: false,
};
const rowOf = (outcome: AttemptOutcome, next: Partial<Settlement>, of: Partial<ClaimedMessage> = {}) =>
  toCompletion(
    { ...MESSAGE, ...of },
    { outcome, provider: undefined, callMs: 12.6 },
    { ...WAITING, ...next },
    NOW,
  );

test('instants are stored as delays from the end of the attempt, and one that has passed as none', () => {
  expect(rowOf(REFUSED, {})).toMatchObject({ next_attempt_ms: 5_000, await_ms: undefined });
  expect(rowOf(REFUSED, { nextAttemptAt: NOW - 1 })).toMatchObject({ next_attempt_ms: 0 });
  expect(rowOf(REFUSED, { nextAttemptAt: null, awaitUntil: NOW + 9_000 })).toMatchObject({
    next_attempt_ms: undefined,
    await_ms: 9_000,
  });
});

test('a message that returns to sent is stored as waiting first', () => {
  expect(rowOf(REFUSED, { returned: true, status: 'sent' })).toMatchObject({
    status: 'deferred',
    reason: 'failed_over',
    returns: true,
  });
  expect(rowOf(REFUSED, { status: 'unknown', reason: 'ambiguous_attempt' })).toMatchObject({
    status: 'unknown',
    reason: 'ambiguous_attempt',
    returns: undefined,
  });
});

test("a refusal of the recipient suppresses it, but not if a simulator's", () => {
  expect(rowOf(REFUSED, {}).suppress).toBeDefined();
  expect(rowOf(REFUSED, {}, { provider: 'simulator-sms' }).suppress).toBeUndefined();
});

test('the duration of a call is stored, unless no call was begun', () => {
  expect(rowOf(REFUSED, {})).toMatchObject({ call_ms: 13, http_status: 400 });
  const notBegun = rowOf({ kind: 'not_started', reason: 'shutdown' }, {});
  expect([notBegun.call_ms, notBegun.http_status, notBegun.outcome_reason]).toEqual([
    undefined,
    undefined,
    'shutdown',
  ]);
});
