import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY_MS } from '../text/duration.ts';
import { purgeDay } from '../storage/purge-day.ts';
import { MESSAGE_STATES } from './message-state.ts';
import { decideReschedule, keptFrom, scheduleOf, type Scheduled } from './schedule.ts';

const now = fc.integer({ min: Date.UTC(2026, 0, 1), max: Date.UTC(2030, 0, 1) });
const horizonDays = fc.integer({ min: 0, max: 365 });
const ahead = fc.oneof(
  fc.integer({ min: -2 * DAY_MS, max: 400 * DAY_MS }),
  fc.constantFrom(-1, 0, 1, 7 * DAY_MS),
);

const always = (holds: (sendAt: number, now: number, horizonDays: number) => void): void =>
  fc.assert(
    fc.property(now, ahead, horizonDays, (at, by, days) => holds(at + by, at, days)),
    { numRuns: 2_000 },
  );

test('a past send time means now, one within the horizon is kept exactly, and a later one is refused', () => {
  always((sendAt, at, days) => {
    const schedule = scheduleOf(sendAt, at, days);
    if (sendAt <= at) expect(schedule.kind).toBe('now');
    else if (sendAt <= at + days * DAY_MS) expect(schedule).toEqual({ kind: 'scheduled', at: sendAt });
    else expect(schedule).toEqual({ kind: 'too_far', latest: at + days * DAY_MS });
  });
});

test('only a send time more than a minute in the past is marked as past', () => {
  const at = Date.UTC(2026, 0, 1);
  expect(scheduleOf(undefined, at, 7)).toEqual({ kind: 'now', isPast: false });
  expect(scheduleOf(at - 60_000, at, 7)).toEqual({ kind: 'now', isPast: false });
  expect(scheduleOf(at - 60_001, at, 7)).toEqual({ kind: 'now', isPast: true });
});

test('a record is kept for its retention after the send time, with a week for rescheduling', () => {
  always((sendAt, at, days) => {
    const from = keptFrom(sendAt, at, days);
    if (sendAt <= at) {
      expect(from).toBeUndefined();
      return;
    }
    const day = purgeDay(from as number, 30);
    expect(Date.parse(day)).toBeLessThan(at + (days + 30 + 14) * DAY_MS);
    if (scheduleOf(sendAt, at, days).kind === 'scheduled') {
      expect(Date.parse(day)).toBeGreaterThanOrEqual(sendAt + 37 * DAY_MS);
    }
  });
});

const limits = fc.record({
  scheduleHorizonDays: fc.integer({ min: 1, max: 365 }),
  retentionDays: fc.integer({ min: 1, max: 365 }),
});
/**
 * A message that was accepted some time ago under other limits, in the place that it was given then, and has been moved since.
 * `of`: the limits in force; `first`: the send time at its acceptance.
 */
const moved = fc
  .record({
    now,
    limits,
    before: limits,
    age: fc.integer({ min: 0, max: DAY_MS }),
    first: ahead,
    moves: fc.array(ahead, { maxLength: 3 }),
    next: fc.oneof(ahead, fc.integer({ min: 0, max: 20 * DAY_MS })),
    lifetimePart: fc.double({ min: 0.001, max: 1, noNaN: true }),
  })
  .map(({ now: at, limits: of, before, age, first: ahead, moves, next, lifetimePart }) => {
    const acceptedAt = at - age;
    const first = Math.min(at + Math.abs(ahead) + 1, acceptedAt + before.scheduleHorizonDays * DAY_MS);
    const from = keptFrom(first, acceptedAt, before.scheduleHorizonDays) ?? acceptedAt;
    const lifetime = Math.ceil(before.retentionDays * DAY_MS * lifetimePart);
    let message: Scheduled = {
      status: 'scheduled',
      sendAt: first,
      expiresAt: first + lifetime,
      isDue: first <= at,
      purgeOn: purgeDay(from, before.retentionDays),
      retentionDays: before.retentionDays,
      moves: 0,
    };
    for (const move of moves) {
      const decision = decideReschedule(message, at + move, at, of);
      if (decision.kind !== 'move' || decision.sendAt === at) continue;
      message = { ...message, sendAt: decision.sendAt, expiresAt: decision.expiresAt };
    }
    return { message, first, lifetime, at, of, wish: at + next };
  });

test('a message can be rescheduled at most a hundred times, and may stay unchanged after that', () => {
  fc.assert(
    fc.property(moved, fc.nat(200), ({ message, at, of, wish }, moves) => {
      const decision = decideReschedule({ ...message, moves }, wish, at, of);
      if (moves < 100) expect(decision).toEqual(decideReschedule(message, wish, at, of));
      else expect(['worn', 'unchanged', 'not_scheduled']).toContain(decision.kind);
    }),
  );
});

test('a message that was moved a hundred times stays where it is', () => {
  const at = Date.UTC(2026, 0, 1);
  const worn: Scheduled = {
    status: 'scheduled',
    sendAt: at + DAY_MS,
    expiresAt: at + 2 * DAY_MS,
    isDue: false,
    purgeOn: '2026-03-02',
    retentionDays: 30,
    moves: 100,
  };
  const kindOf = (moves: number) =>
    decideReschedule({ ...worn, moves }, at + 2 * DAY_MS, at, { scheduleHorizonDays: 7 }).kind;
  expect([kindOf(99), kindOf(100)]).toEqual(['move', 'worn']);
});

test('only a scheduled message that is not due can be rescheduled', () => {
  const others = MESSAGE_STATES.filter((state) => state !== 'scheduled');
  fc.assert(
    fc.property(moved, fc.constantFrom(...others), ({ message, at, of, wish }, status) => {
      const late = { ...message, isDue: true };
      expect(decideReschedule({ ...message, status }, wish, at, of)).toEqual({ kind: 'not_scheduled' });
      expect(decideReschedule(late, wish, at, of)).toEqual({ kind: 'not_scheduled' });
    }),
  );
});

test('a rescheduled message keeps its lifetime and retention, and is never due in the past', () => {
  fc.assert(
    fc.property(moved, ({ message, lifetime, at, of, wish }) => {
      const decision = decideReschedule(message, wish, at, of);
      if (decision.kind !== 'move') return;
      expect(decision.sendAt).toBe(Math.max(wish, at));
      expect(decision.sendAt).toBeLessThanOrEqual(at + of.scheduleHorizonDays * DAY_MS);
      expect(decision.expiresAt - decision.sendAt).toBe(lifetime);
      const purged = Date.parse(message.purgeOn);
      expect(purged).toBeGreaterThanOrEqual(decision.sendAt + message.retentionDays * DAY_MS);
      expect(purged).toBeGreaterThanOrEqual(decision.expiresAt);
    }),
    { numRuns: 2_000 },
  );
});

test('within the horizon, a message can be moved to any earlier time and up to a week after the first, whatever the plan is now', () => {
  fc.assert(
    fc.property(moved, ({ message, first, at, of, wish }) => {
      if (message.isDue || wish > Math.max(message.sendAt, first + 7 * DAY_MS)) return;
      if (wish > at + of.scheduleHorizonDays * DAY_MS) return;
      const { kind } = decideReschedule(message, wish, at, of);
      expect(kind).toBe(wish === message.sendAt ? 'unchanged' : 'move');
    }),
    { numRuns: 2_000 },
  );
});

test('a no_place refusal has the latest send time that is possible', () => {
  fc.assert(
    fc.property(moved, ({ message, at, of, wish }) => {
      const decision = decideReschedule(message, wish, at, of);
      if (decision.kind !== 'no_place') return;
      const { kind } = decideReschedule(message, decision.latest, at, of);
      expect(kind).toBe(decision.latest === message.sendAt ? 'unchanged' : 'move');
      expect(decideReschedule(message, decision.latest + 1, at, of).kind).toBe('no_place');
    }),
    { numRuns: 2_000 },
  );
});
