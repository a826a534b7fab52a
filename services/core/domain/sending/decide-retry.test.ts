import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { decideRetry, RETRYABLE_STATES } from './decide-retry.ts';
import { LIVE_STATES, MESSAGE_STATES, type MessageState } from '../message/message-state.ts';

const state = fc.constantFrom(...MESSAGE_STATES);

test.each(['failed', 'undelivered', 'unknown', 'expired'] as const)(
  'a message that is %s can be retried if its content is kept',
  (one) => {
    expect(decideRetry(one, true)).toBe('retry');
    expect(decideRetry(one, false)).toBe('content');
  },
);

test('a message in any other state cannot be retried, with or without its content', () => {
  fc.assert(
    fc.property(state, fc.boolean(), (one, hasContent) => {
      const isRetryable = (RETRYABLE_STATES as readonly MessageState[]).includes(one);
      expect(decideRetry(one, hasContent) === 'state').toBe(!isRetryable);
    }),
  );
});

test('a live message cannot be retried', () => {
  for (const one of LIVE_STATES) expect(decideRetry(one, true)).toBe('state');
});
