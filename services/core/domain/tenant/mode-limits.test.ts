import { expect, test } from 'vitest';
import { backlogLimit, dailyLimit } from './mode-limits.ts';

test.each([
  [0, 100_000],
  [10_000, 100_000],
  [10_001, 100_010],
  [1_000_000_000, 2_147_483_647],
])('a plan of %d messages per day allows %d test messages per day', (messagesPerDay, value) => {
  expect(dailyLimit({ messagesPerDay }, true)).toEqual({ name: 'testMessagesPerDay', value });
  expect(dailyLimit({ messagesPerDay }, false)).toEqual({ name: 'messagesPerDay', value: messagesPerDay });
});

test.each([
  [100_000, 50_000],
  [5, 3],
  [1, 1],
  [0, 0],
])('a backlog limit of %d messages allows %d test messages', (backlogMax, value) => {
  expect(backlogLimit({ backlogMax }, true)).toEqual({ name: 'backlogMax', value });
  expect(backlogLimit({ backlogMax }, false)).toEqual({ name: 'backlogMax', value: backlogMax });
});
