import { describe, expect, test } from 'vitest';
import {
  BREAKER_CALLS_MIN,
  BREAKER_WINDOW_MS,
  CLOSED_BREAKER,
  forceOpen,
  admission,
  note,
  startProbe,
  type Breaker,
} from './breaker.ts';

const NOW = 1_800_000_000_000;
const after = (calls: readonly boolean[], start = NOW): Breaker =>
  calls.reduce((breaker, fault, i) => note(breaker, { fault, isProbe: false }, start + i), CLOSED_BREAKER);

describe('breaker', () => {
  test('lets every call pass while it is closed', () => {
    expect(admission(CLOSED_BREAKER, NOW)).toBe('pass');
    expect(admission(after([true]), NOW)).toBe('pass');
  });

  test('stays closed after one or nineteen faults', () => {
    expect(after([true]).health).toBe('healthy');
    expect(after(Array.from({ length: BREAKER_CALLS_MIN - 1 }, () => true)).health).toBe('healthy');
  });

  test('opens at twenty calls of which half are provider faults', () => {
    const half = Array.from({ length: BREAKER_CALLS_MIN }, (_, i) => i % 2 === 0);
    expect(after(half).health).toBe('open');
    const less = Array.from({ length: BREAKER_CALLS_MIN }, (_, i) => i % 2 === 0 && i > 0);
    expect(after(less).health).toBe('healthy');
  });

  test('faults older than the window do not count', () => {
    const old = after(Array.from({ length: 19 }, () => true));
    const isOpen = (at: number) => note(old, { fault: true, isProbe: false }, at).health === 'open';
    expect([isOpen(NOW + BREAKER_WINDOW_MS - 1), isOpen(NOW + BREAKER_WINDOW_MS)]).toEqual([true, false]);
  });

  test('faults spread over the window open it, and few numbers are kept however many calls are made', () => {
    let breaker = CLOSED_BREAKER;
    for (let n = 0; n < BREAKER_CALLS_MIN; n += 1) {
      expect(breaker.health).toBe('healthy');
      breaker = note(breaker, { fault: true, isProbe: false }, NOW + n * 2_900);
    }
    expect(breaker.health).toBe('open');
    const { buckets } = after(Array.from({ length: 100_000 }, () => false));
    expect(buckets.length).toBeLessThanOrEqual(11);
  });

  test('the cool-down grows with consecutive openings up to a minute', () => {
    const coolDowns: number[] = [];
    let breaker = forceOpen(CLOSED_BREAKER, NOW);
    for (let n = 0; n < 6; n += 1) {
      coolDowns.push(breaker.probeAt - NOW);
      breaker = note(startProbe(breaker, NOW), { fault: true, isProbe: true }, NOW);
    }
    expect(coolDowns).toEqual([5_000, 15_000, 30_000, 60_000, 60_000, 60_000]);
  });

  test('while open it blocks, then lets one probe through at a time', () => {
    const open = forceOpen(CLOSED_BREAKER, NOW);
    expect(admission(open, NOW)).toBe('blocked');
    expect(admission(open, open.probeAt)).toBe('probe');
    expect(admission(startProbe(open, open.probeAt), open.probeAt + 1)).toBe('blocked');
  });

  test('a probe that succeeds closes it; one that fails opens it for longer', () => {
    const open = forceOpen(CLOSED_BREAKER, NOW);
    const probing = startProbe(open, open.probeAt);
    expect(note(probing, { fault: false, isProbe: true }, open.probeAt)).toBe(CLOSED_BREAKER);
    const again = note(probing, { fault: true, isProbe: true }, open.probeAt);
    expect(again.health).toBe('open');
    expect(again.probeAt - open.probeAt).toBeGreaterThan(open.probeAt - NOW);
  });

  test('results of calls that began before it opened change nothing', () => {
    const open = after(Array.from({ length: 50 }, () => true));
    expect(open).toMatchObject({ health: 'open', openings: 1 });
    expect(open.probeAt).toBe(NOW + BREAKER_CALLS_MIN - 1 + 5_000);
    for (const breaker of [open, startProbe(open, open.probeAt)])
      for (const fault of [true, false])
        expect(note(breaker, { fault, isProbe: false }, open.probeAt)).toBe(breaker);
    expect(forceOpen(open, open.probeAt)).toBe(open);
  });

  test('a probe that never reports does not block for ever', () => {
    const probing = startProbe(forceOpen(CLOSED_BREAKER, NOW), NOW);
    expect(admission(probing, NOW + 61_000)).toBe('probe');
  });
});
