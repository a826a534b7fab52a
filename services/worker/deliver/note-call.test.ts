import { expect, test } from 'vitest';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { Breakers } from '../accounts/breakers.ts';
import { noteCall } from './note-call.ts';

function faultOf(outcome: Outcome, isProbe = false): boolean | undefined {
  let noted: { fault: boolean } | undefined;
  const breakers = {
    note: (_account: string, _provider: string, call: { fault: boolean }) => void (noted = call),
  } as unknown as Breakers;
  noteCall({ accountId: 'a', isProbe }, 'twilio', outcome, breakers);
  return noted?.fault;
}

test.each<[what: string, outcome: Outcome, isFault: boolean]>([
  ['no answer', { kind: 'ambiguous', failure: { class: 'provider_unavailable', code: 'timeout' } }, true],
  [
    'an adapter that threw',
    { kind: 'ambiguous', failure: { class: 'unknown', code: 'adapter_fault' } },
    true,
  ],
  [
    'an answer that leaves open whether the provider has the message',
    { kind: 'ambiguous', failure: { class: 'unknown', code: 'not_in_log' } },
    false,
  ],
  [
    'a refusal to say whether the provider has the message',
    { kind: 'ambiguous', failure: { class: 'auth_or_config', code: 'forbidden' } },
    false,
  ],
  [
    'an overloaded provider',
    { kind: 'rejected_transient', failure: { class: 'provider_unavailable', code: 'provider_error' } },
    true,
  ],
  [
    'a wrong recipient',
    { kind: 'rejected_permanent', failure: { class: 'invalid_recipient', code: 'invalid_recipient' } },
    false,
  ],
  ['an acceptance', { kind: 'accepted', providerMessageId: '1' }, false],
])('breaker fault or not: %s', (_, outcome, isFault) => {
  expect(faultOf(outcome)).toBe(isFault);
});

test('a refused credential counts as a fault of a probe, but not of another call', () => {
  const refused: Outcome = {
    kind: 'rejected_transient',
    failure: { class: 'auth_or_config', code: 'authentication_failed' },
  };
  expect(faultOf(refused, true)).toBe(true);
  expect(faultOf(refused)).toBe(false);
});
