import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { addCancels, countCancels, decideCancel, NO_CANCELS } from './decide-cancel.ts';
import {
  canMove,
  isWaiting,
  LIVE_STATES,
  MESSAGE_STATES,
  type MessageState,
} from '../message/message-state.ts';

const state = fc.constantFrom(...MESSAGE_STATES);
const isLive = (one: MessageState) => (LIVE_STATES as readonly MessageState[]).includes(one);

test.each([
  ...(['scheduled', 'queued', 'held', 'deferred'] as const).map((one) => [one, 'cancel'] as const),
  ['sending', 'sending'],
  ['canceled', 'canceled'],
  ...(['sent', 'unknown', 'delivered', 'undelivered', 'failed', 'expired', 'suppressed'] as const).map(
    (one) => [one, 'final'] as const,
  ),
] as const)('canceling a message that is %s gives: %s', (one, verdict) => {
  expect(decideCancel(one)).toBe(verdict);
});

test('only waiting messages can be canceled, as the state table allows', () => {
  fc.assert(
    fc.property(state, (one) => {
      expect(decideCancel(one) === 'cancel').toBe(isWaiting(one));
      expect(decideCancel(one) === 'cancel').toBe(canMove(one, 'canceled'));
    }),
  );
});

test('in any history, a canceled message stays canceled and an ended one is never canceled', () => {
  const moves = fc.array(fc.nat(), { maxLength: 12 });
  fc.assert(
    fc.property(state, moves, (from, steps) => {
      let at: MessageState = from;
      let wasSent = false;
      // A message that was accepted once counts as sent while it waits for another account, and is never canceled
      // (`cancel_messages`).
      const found = (): MessageState => (wasSent && isLive(at) ? 'sent' : at);
      for (const step of steps) {
        const before = decideCancel(found());
        const next = MESSAGE_STATES.filter((to) => canMove(at, to) && !(wasSent && to === 'canceled'));
        wasSent ||= at === 'sent';
        at = next[step % Math.max(1, next.length)] ?? at;
        const after = decideCancel(found());
        expect(before === 'canceled' || before === 'final' ? after : before).toBe(before);
        expect(isLive(found())).toBe(after === 'cancel' || after === 'sending');
      }
    }),
  );
});

test('each message is counted once, however the messages are split into parts', () => {
  const parts = fc.array(fc.record({ found: fc.array(state), gone: fc.nat(9) }));
  fc.assert(
    fc.property(parts, (some) => {
      const wished = some.map(({ found, gone }) => found.length + gone);
      const all = some.flatMap(({ found }) => found);
      const sum = wished.reduce((a, b) => a + b, 0);
      const counts = some
        .map(({ found }, i) => countCancels(wished[i] ?? 0, found))
        .reduce(addCancels, NO_CANCELS);
      expect(counts).toEqual(countCancels(sum, all));
      expect(counts.canceled + counts.alreadySending + counts.final).toBe(sum);
      expect(counts.canceled).toBe(all.filter(isWaiting).length);
      expect(Math.min(...Object.values(counts))).toBeGreaterThanOrEqual(0);
    }),
  );
});
