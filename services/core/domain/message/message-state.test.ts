import { expect, test } from 'vitest';
import { assertMove, canMove, isWaiting, MESSAGE_STATES } from './message-state.ts';

test('a message waits in every live state but while a call is under way', () => {
  expect(MESSAGE_STATES.filter(isWaiting)).toEqual(['scheduled', 'queued', 'held', 'deferred']);
});

test('exactly the moves of the table are permitted', () => {
  for (const from of MESSAGE_STATES)
    for (const to of MESSAGE_STATES) {
      const move = () => assertMove(from, to);
      if (canMove(from, to)) expect(move).not.toThrow();
      else expect(move).toThrow(`from ${from} to ${to}`);
    }
});
