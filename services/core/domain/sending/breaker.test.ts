import { describe, expect, test } from 'vitest';
import {
  BREAKER_CALLS_MIN,
  BREAKER_WINDOW_MS,
  CLOSED,
  forceOpen,
  admission,
  note,
  startProbe,
  type Breaker,
} from './breaker.ts';

const NOW = 1_800_000_000_000;
const after = (calls: readonly boolean[], start = NOW): Breaker =>
  calls.reduce((breaker, fault, i) => note(breaker, { fault, isProbe: false }, start + i), CLOSED);

describe('breaker', () => {
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
    expect(note(old, { fault: true, isProbe: false }, NOW + BREAKER_WINDOW_MS + 6_000).health).toBe(
      'healthy',
    );
  });

  test('while open it blocks, then lets one probe through at a time', () => {
    const open = forceOpen(CLOSED, NOW);
    expect(admission(open, NOW)).toBe('blocked');
    expect(admission(open, open.probeAt)).toBe('probe');
    expect(admission(startProbe(open, open.probeAt), open.probeAt + 1)).toBe('blocked');
  });

  test('a probe that succeeds closes it; one that fails opens it for longer', () => {
    const open = forceOpen(CLOSED, NOW);
    const probing = startProbe(open, open.probeAt);
    expect(note(probing, { fault: false, isProbe: true }, open.probeAt)).toBe(CLOSED);
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
    const probing = startProbe(forceOpen(CLOSED, NOW), NOW);
    expect(admission(probing, NOW + 61_000)).toBe('probe');
  });
});
