import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decideLookup,
  decidePause,
  FIRST_LOOKUP_MS,
  LAST_LOOKUP_MS,
  type LookupResult,
} from './decide-lookup.ts';
import { RECEIPT_TIMEOUT_MS } from './settle.ts';

const HOUR = 3_600_000;
const results: fc.Arbitrary<LookupResult> = fc.oneof(
  fc.record({ kind: fc.constant('answered' as const), isFinal: fc.boolean() }),
  fc.constant({ kind: 'not_found' } as const),
  fc.constant({ kind: 'unanswerable' } as const),
  fc.constant({ kind: 'unanswered' } as const),
  fc.record({ kind: fc.constant('unanswered' as const), retryAfterMs: fc.integer({ min: 0, max: HOUR }) }),
);
const FINAL: LookupResult = { kind: 'answered', isFinal: true };
const NOT_FOUND: LookupResult = { kind: 'not_found' };
const UNANSWERED: LookupResult = { kind: 'unanswered' };

/** At which ages a message is asked about, in milliseconds, if each question ends with the next result. */
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

describe('a question', () => {
  test('that is answered for good is the last one', () => {
    expect(decideLookup(FINAL, { ageMs: HOUR, asks: 3 })).toEqual({ kind: 'done' });
  });

  test.each<LookupResult>([NOT_FOUND, { kind: 'answered', isFinal: false }])(
    '%o is asked again at three times the age, and a last time before the wait is over',
    (one) => {
      const hours = agesAsked(() => one, FIRST_LOOKUP_MS).map((ms) => ms / HOUR);
      expect(hours).toEqual([1, 3, 9, 27, 71]);
      expect(LAST_LOOKUP_MS).toBeLessThan(RECEIPT_TIMEOUT_MS);
    },
  );

  test('that can never be answered is not asked again', () => {
    expect(decideLookup({ kind: 'unanswerable' }, { ageMs: HOUR, asks: 1 })).toEqual({ kind: 'wait' });
  });

  test('without an answer is asked again after a minute, then ever later, and no sooner than is wished', () => {
    const waits = [1, 2, 3, 9, 10, 32_000].map((asks) => decideLookup(UNANSWERED, { ageMs: HOUR, asks }));
    expect(waits.map((one) => (one.kind === 'again' ? one.ms / 60_000 : one.kind))).toEqual([
      1, 2, 4, 256, 360, 360,
    ]);
    const wish = { kind: 'unanswered', retryAfterMs: 600_000 } as const;
    expect(decideLookup(wish, { ageMs: HOUR, asks: 1 })).toEqual({ kind: 'again', ms: 600_000 });
  });

  test('is asked a bounded number of times and once a minute at most, whatever is answered', () => {
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
  test('that does not answer pauses for a minute, then ever longer, and for an hour in the end', () => {
    const pauses = [0, 1, 2, 5, 6, 15].map((failures) => decidePause([UNANSWERED, UNANSWERED], failures));
    expect(pauses.map(({ pauseMs }) => pauseMs / 60_000)).toEqual([1, 2, 4, 32, 60, 60]);
    expect(pauses.map(({ failures }) => failures)).toEqual([1, 2, 3, 6, 7, 15]);
  });

  test('that answers anything is asked on, unless it wishes otherwise', () => {
    expect(decidePause([UNANSWERED, NOT_FOUND], 4)).toEqual({ failures: 0, pauseMs: 0 });
    const wish = { kind: 'unanswered', retryAfterMs: 5_000 } as const;
    expect(decidePause([FINAL, wish], 4)).toEqual({ failures: 0, pauseMs: 5_000 });
  });

  test('is not judged by what it cannot be asked about', () => {
    expect(decidePause([{ kind: 'unanswerable' }], 2)).toEqual({ failures: 2, pauseMs: 0 });
    expect(decidePause([], 2)).toEqual({ failures: 2, pauseMs: 0 });
  });

  test('never pauses for less than it wishes, and for an hour at most without a wish', () => {
    fc.assert(
      fc.property(fc.array(results, { maxLength: 5 }), fc.integer({ min: 0, max: 15 }), (all, before) => {
        const { failures, pauseMs } = decidePause(all, before);
        const wishes = all.map((one) => (one.kind === 'unanswered' ? (one.retryAfterMs ?? 0) : 0));
        expect(pauseMs).toBeGreaterThanOrEqual(Math.max(0, ...wishes));
        expect(pauseMs).toBeLessThanOrEqual(HOUR);
        expect(failures).toBeLessThanOrEqual(15);
      }),
    );
  });
});
