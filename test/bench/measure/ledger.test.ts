import { expect, test } from 'vitest';
import { eventLedger, ledgerOf, storedLedger, sumLedgers } from './ledger.ts';

test('an accepted message that never reached the provider is lost, and one that came twice is repeated', () => {
  expect(
    ledgerOf(3, [
      [0, 1],
      [1, 2],
      [1, 3],
    ]),
  ).toEqual({ lost: 1, repeated: 1 });
  expect(
    ledgerOf(2, [
      [0, 1],
      [1, 2],
    ]),
  ).toEqual({ lost: 0, repeated: 0 });
});

test('missing rows count as lost and surplus rows as repeated, less one per broken connection', () => {
  expect(storedLedger(10, 9, 0)).toEqual({ lost: 1, repeated: 0 });
  expect(storedLedger(10, 12, 1)).toEqual({ lost: 0, repeated: 1 });
  expect(storedLedger(10, 11, 1)).toEqual({ lost: 0, repeated: 0 });
});

test('events are counted per endpoint: the same sequence number at another one is no repetition', () => {
  const arrival = { messageId: 'm', happenedAt: 0, at: 1 };
  const told = [
    { ...arrival, path: '/a', seq: 1 },
    { ...arrival, path: '/b', seq: 1 },
  ];
  expect(eventLedger(2, told)).toEqual({ lost: 0, repeated: 0 });
  expect(eventLedger(4, [...told, { ...arrival, path: '/b', seq: 1 }])).toEqual({ lost: 2, repeated: 1 });
});

test('ledgers are summed', () => {
  expect(
    sumLedgers([
      { lost: 1, repeated: 0 },
      { lost: 1, repeated: 2 },
    ]),
  ).toEqual({ lost: 2, repeated: 2 });
});
