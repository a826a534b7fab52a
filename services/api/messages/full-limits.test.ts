import { expect, test } from 'vitest';
import type { KeyCaller } from '../auth/auth.ts';
import { createFullLimits } from './full-limits.ts';

const caller = (mode: 'live' | 'test', messagesPerDay = 10, id = 'a tenant') =>
  ({ tenant: { id, limits: { messagesPerDay, backlogMax: 5 } }, key: { mode } }) as unknown as KeyCaller;

test('a full day is remembered for its tenant, mode and limit, until a message may be accepted again', () => {
  const clock = { now: 0 };
  const { note, find } = createFullLimits(() => clock.now);
  note(caller('live'), 'daily_limit_reached', 60);
  expect(find(caller('live'))).toEqual({ verdict: 'daily_limit_reached', retryAfter: 60 });
  expect([find(caller('test')), find(caller('live', 11)), find(caller('live', 10, 'other'))]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  clock.now = 59_000;
  expect(find(caller('live'))).toBeUndefined();
});

test('the database is asked again after a minute, however long the day lasts', () => {
  const clock = { now: 1_000 };
  const { note, find } = createFullLimits(() => clock.now);
  note(caller('live'), 'daily_limit_reached', 7_200);
  clock.now = 61_000;
  expect(find(caller('live'))).toEqual({ verdict: 'daily_limit_reached', retryAfter: 7_140 });
  clock.now = 61_001;
  expect(find(caller('live'))).toBeUndefined();
});

test('a full backlog is remembered too, and nothing else', () => {
  const { note, find } = createFullLimits(() => 0);
  for (const verdict of ['rate_limited', 'suspended', 'mismatch', 'accepted'])
    note(caller('live'), verdict, 60);
  expect(find(caller('live'))).toBeUndefined();
  note(caller('live'), 'backlog_full', 5);
  expect(find(caller('live'))).toEqual({ verdict: 'backlog_full', retryAfter: 5 });
});
