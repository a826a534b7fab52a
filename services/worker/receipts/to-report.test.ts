import { expect, test } from 'vitest';
import { createMessageIds } from '#core/domain/storage/message-id.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt } from '#providers/receipt.ts';
import { createRedactor } from '#providers/redact.ts';
import { placeOf, toReport } from './to-report.ts';

const statusOf = (providerStatus: string, hidden: readonly string[] = []): string | null | undefined =>
  toReport({ providerStatus, reference: 'r' }, undefined, {
    accountId: 'a',
    receivedMs: 0,
    redact: createRedactor(hidden),
    verified: false,
  }).provider_status;

test('a redacted provider status stays within its maximum length and is well-formed', () => {
  expect(statusOf('delivered')).toBe('delivered');
  for (const word of ['a@b '.repeat(16), 'key '.repeat(16), `${'x'.repeat(63)}😀`]) {
    const shown = statusOf(word, ['key']) ?? '';
    expect(shown.length).toBeLessThanOrEqual(PROVIDER_STATUS_MAX);
    expect(shown).not.toMatch(/a@b|key/);
    expect(shown.isWellFormed()).toBe(true);
  }
});

const RECEIVED_MS = 1_000_000;
const reportOf = (one: Partial<ParsedReceipt>, accountId = 'a') =>
  toReport({ providerStatus: 'x', ...one }, undefined, {
    accountId,
    receivedMs: RECEIVED_MS,
    redact: createRedactor(['secret']),
    verified: true,
  });

test.each([
  ['before the report came', 999_999.6, 1_000_000],
  ['when the report came', RECEIVED_MS, RECEIVED_MS],
  ['in the future', RECEIVED_MS + 1, RECEIVED_MS],
  ['at the beginning of time', 0, RECEIVED_MS],
  ['just after it', 1, 1],
  ['before it', -1, RECEIVED_MS],
  ['at no time', Number.NaN, RECEIVED_MS],
])('a report on something %s (%s) is dated %s', (_, at, happenedMs) => {
  expect(reportOf({ at }).happened_ms).toBe(happenedMs);
  expect(reportOf({}).happened_ms).toBe(RECEIVED_MS);
});

test('repetitions of a report have one key, and other reports and those of other accounts another', () => {
  const key = reportOf({ eventId: 'one' }).report_key;
  expect(key).toMatch(/^[\w-]{22}$/);
  expect(reportOf({ eventId: 'one', providerStatus: 'again' }).report_key).toBe(key);
  const others = [
    reportOf({ eventId: 'two' }),
    reportOf({ eventId: 'one' }, 'b'),
    reportOf({ segment: '1' }),
    reportOf({ segment: '2' }),
  ];
  expect(new Set([key, ...others.map(({ report_key }) => report_key)]).size).toBe(5);
  expect(reportOf({ segment: '1' }).report_key).toBe(others[2]?.report_key);
});

test("a report's failure and segment are stored without a secret and without what no column takes", () => {
  const failure = {
    class: 'content_rejected',
    code: 'spam\u0000',
    providerCode: '30\u0000007',
    providerMessage: 'refused: secret',
  } as const;
  const stored = reportOf({ failure, segment: '1\u0000' });
  expect(stored.failure).toMatchObject({ class: 'content_rejected' });
  expect(JSON.stringify(stored)).not.toMatch(/secret|\\u0000/);
  expect(reportOf({ failure: { class: 'content_rejected', code: 'spam' } }).failure).toStrictEqual({
    class: 'content_rejected',
    code: 'spam',
  });
  expect(reportOf({})).toMatchObject({ failure: undefined, segment: undefined });
});

test('a reference leads to a message if it has the form of our ids, in letters of any case', () => {
  const ids = createMessageIds(Buffer.alloc(16));
  const id = ids.encode({ seq: 7, purgeOn: '2026-01-05' });
  expect(placeOf(id.toUpperCase(), ids)).toEqual({ id, seq: 7, purgeOn: '2026-01-05' });
  for (const reference of [undefined, '', 'order 7', `${id}0`, '1f0c7b52-1111-1222-8333-444455556666'])
    expect(placeOf(reference, ids)).toBeUndefined();
});
