import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decideLookup,
  decidePause,
  FIRST_LOOKUP_MS,
  LAST_LOOKUP_MS,
  type LookupResult,
} from './decide-lookup.ts';
import { RECEIPT_TIMEOUT_MS } from '../sending/settle.ts';

const HOUR = 3_600_000;
const FINAL: LookupResult = { kind: 'answered', isFinal: true };
const NOT_FOUND: LookupResult = { kind: 'not_found' };
const UNANSWERED: LookupResult = { kind: 'unanswered' };
const UNANSWERABLE: LookupResult = { kind: 'unanswerable' };
const FORBIDDEN: LookupResult = { kind: 'forbidden' };
const GOES_ON = { failures: 0, pauseMs: 0, reason: null };
const results: fc.Arbitrary<LookupResult> = fc.oneof(
  fc.record({ kind: fc.constant('answered' as const), isFinal: fc.boolean() }),
  fc.constant({ kind: 'not_found' } as const),
  fc.constant(UNANSWERABLE),
  fc.constant(FORBIDDEN),
  fc.constant({ kind: 'unanswered' } as const),
  fc.record({
    kind: fc.constant('unanswered' as const),
    retryAfterMs: fc.integer({ min: 0, max: HOUR }),
    isThrottled: fc.boolean(),
  }),
);

/** Returns the ages at which a message is looked up, in milliseconds, if each lookup ends with the next result. */
function agesAsked(next: () => LookupResult, fromMs: number): number[] {
  const ages: number[] = [];
  for (let ageMs = fromMs; ageMs < RECEIPT_TIMEOUT_MS;) {
    ages.push(ageMs);
    const decided = decideLookup(next(), { ageMs, asks: ages.length });
    if (decided.kind !== 'again') break;
    ageMs += decided.ms;
  }
  return ages;
}

describe('a lookup', () => {
  test('with a final answer is the last one', () => {
    expect(decideLookup(FINAL, { ageMs: HOUR, asks: 3 })).toEqual({ kind: 'done' });
  });

  test.each<LookupResult>([NOT_FOUND, { kind: 'answered', isFinal: false }])(
    'with %o is repeated at three times the age, and a last time before the receipt timeout',
    (one) => {
      const hours = agesAsked(() => one, FIRST_LOOKUP_MS).map((ms) => ms / HOUR);
      expect(hours).toEqual([1, 3, 9, 27, 71]);
      expect(LAST_LOOKUP_MS).toBeLessThan(RECEIPT_TIMEOUT_MS);
    },
  );

  test('that can never be answered is not repeated', () => {
    expect(decideLookup({ kind: 'unanswerable' }, { ageMs: HOUR, asks: 1 })).toEqual({ kind: 'wait' });
  });

  test('without an answer is repeated with backoff from one minute, and not before retryAfterMs', () => {
    const waits = [1, 2, 3, 9, 10, 32_000].map((asks) => decideLookup(UNANSWERED, { ageMs: HOUR, asks }));
    expect(waits.map((one) => (one.kind === 'again' ? one.ms / 60_000 : one.kind))).toEqual([
      1, 2, 4, 256, 360, 360,
    ]);
    const wish = { kind: 'unanswered', retryAfterMs: 600_000 } as const;
    expect(decideLookup(wish, { ageMs: HOUR, asks: 1 })).toEqual({ kind: 'again', ms: 600_000 });
  });

  test('that is forbidden is repeated with backoff from one to twelve hours', () => {
    const waits = [1, 2, 3, 4, 5, 32_000].map((asks) => decideLookup(FORBIDDEN, { ageMs: HOUR, asks }));
    expect(waits.map((one) => (one.kind === 'again' ? one.ms / HOUR : one.kind))).toEqual([
      1, 2, 4, 8, 12, 12,
    ]);
  });

  test('is made at most 30 times and once a minute, whatever the results', () => {
    fc.assert(
      fc.property(fc.infiniteStream(results), fc.integer({ min: 0, max: 100 * HOUR }), (stream, from) => {
        const ages = agesAsked(() => stream.next().value as LookupResult, from);
        expect(ages.length).toBeLessThanOrEqual(30);
        for (const [n, age] of ages.slice(1).entries())
          expect(age - (ages[n] ?? 0)).toBeGreaterThanOrEqual(60_000);
      }),
    );
  });
});

describe('an account', () => {
  test('that does not answer pauses with backoff from one minute to one hour', () => {
    const pauses = [0, 1, 2, 5, 6, 15].map((failures) => decidePause([UNANSWERED, UNANSWERED], failures));
    expect(pauses.map(({ pauseMs }) => pauseMs / 60_000)).toEqual([1, 2, 4, 32, 60, 60]);
    expect(pauses.map(({ failures }) => failures)).toEqual([1, 2, 3, 6, 7, 15]);
    expect(new Set(pauses.map(({ reason }) => reason))).toEqual(new Set(['unanswered']));
  });

  test('whose lookups are forbidden pauses with backoff from one to twelve hours', () => {
    const pauses = [0, 1, 2, 3, 4, 15].map((failures) => decidePause([FORBIDDEN, FORBIDDEN], failures));
    expect(pauses.map(({ pauseMs }) => pauseMs / HOUR)).toEqual([1, 2, 4, 8, 12, 12]);
    expect(new Set(pauses.map(({ reason }) => reason))).toEqual(new Set(['forbidden']));
  });

  test('fails if most of its results are faults, and a tie resets its failures', () => {
    expect(decidePause([UNANSWERED, NOT_FOUND, FINAL], 0)).toEqual(GOES_ON);
    expect(decidePause([UNANSWERED, NOT_FOUND], 4)).toEqual(GOES_ON);
    expect(decidePause([UNANSWERED, UNANSWERED, NOT_FOUND], 0)).toMatchObject({ failures: 1 });
    expect(decidePause([UNANSWERED, FORBIDDEN, NOT_FOUND], 0)).toEqual({
      failures: 1,
      pauseMs: 60_000,
      reason: 'unanswered',
    });
    const wish = { kind: 'unanswered', retryAfterMs: 5_000 } as const;
    expect(decidePause([FINAL, wish], 4)).toEqual({
      failures: 0,
      pauseMs: 5_000,
      reason: 'unanswered',
    });
  });

  test('that is throttled pauses for at least a minute, whatever the other results', () => {
    const throttled = { kind: 'unanswered', isThrottled: true } as const;
    expect(decidePause([FINAL, FINAL, FINAL, throttled], 0)).toMatchObject({
      failures: 0,
      pauseMs: 60_000,
      reason: 'throttled',
    });
  });

  test('is not judged by lookups that can never be answered', () => {
    expect(decidePause([UNANSWERABLE], 2)).toEqual({ failures: 2, pauseMs: 0, reason: null });
    expect(decidePause([], 2)).toEqual({ failures: 2, pauseMs: 0, reason: null });
    const all = [UNANSWERABLE, UNANSWERABLE, UNANSWERED];
    expect(decidePause(all, 0)).toMatchObject({ failures: 1, pauseMs: 60_000 });
  });

  const before = fc.integer({ min: 0, max: 15 });
  const isFault = ({ kind }: LookupResult): boolean => kind === 'unanswered' || kind === 'forbidden';
  const isAnswer = ({ kind }: LookupResult): boolean => kind === 'answered' || kind === 'not_found';

  test('pauses for at least any retryAfterMs, and for at most twelve hours', () => {
    fc.assert(
      fc.property(fc.array(results, { maxLength: 5 }), before, (all, failed) => {
        const { failures, pauseMs, reason } = decidePause(all, failed);
        const wishes = all.map((one) => (one.kind === 'unanswered' ? (one.retryAfterMs ?? 0) : 0));
        expect(pauseMs).toBeGreaterThanOrEqual(Math.max(0, ...wishes));
        expect(pauseMs).toBeLessThanOrEqual(all.includes(FORBIDDEN) ? 12 * HOUR : HOUR);
        expect(failures).toBeLessThanOrEqual(15);
        expect(reason === null).toBe(pauseMs === 0);
      }),
    );
  });

  test('counts a failure if most of its results are faults, regardless of their order', () => {
    fc.assert(
      fc.property(fc.array(results, { maxLength: 9 }), before, (all, failed) => {
        const faults = all.filter(isFault).length;
        const answers = all.filter(isAnswer).length;
        const { failures } = decidePause(all, failed);
        if (faults > answers) expect(failures).toBe(Math.min(failed + 1, 15));
        else expect(failures).toBe(answers > 0 ? 0 : failed);
        expect(decidePause(all.toReversed(), failed)).toEqual(decidePause(all, failed));
      }),
    );
  });

  test('keeps its failures after more faults, and does not pause longer after one more answer', () => {
    fc.assert(
      fc.property(fc.array(results, { maxLength: 9 }), before, (all, failed) => {
        const { pauseMs } = decidePause(all, failed);
        expect(decidePause([...all, UNANSWERED, UNANSWERED], failed).failures).toBeGreaterThanOrEqual(
          Math.min(decidePause(all, failed).failures, failed),
        );
        expect(decidePause([...all, FINAL], failed).pauseMs).toBeLessThanOrEqual(pauseMs);
      }),
    );
  });
});
