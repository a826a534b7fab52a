import { expect, test } from 'vitest';
import { PROVIDER_STATUS_MAX } from '#providers/receipt.ts';
import { createRedactor } from '#providers/redact.ts';
import { toReport } from './to-report.ts';

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
