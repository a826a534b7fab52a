import { expect, test } from 'vitest';
import { HOUR_MS } from '#core/domain/text/duration.ts';
import { createTenantLabels } from './tenant-labels.ts';

function setup(most: number) {
  const clock = { now: 0 };
  const moves: string[] = [];
  const labelOf = createTenantLabels({
    most,
    epochMs: () => clock.now,
    onSeated: (tenantId) => void moves.push(`+${tenantId}`),
    onLeft: (tenantId) => void moves.push(`-${tenantId}`),
  });
  return { clock, moves, labelOf };
}

test('the first tenants have a label of their own, all others share one', () => {
  const { labelOf, moves } = setup(2);
  expect(['a', 'b', 'c', 'a', 'd'].map(labelOf)).toEqual(['a', 'b', 'other', 'a', 'other']);
  expect(moves).toEqual(['+a', '+b']);
});

test('a new tenant takes the label of a tenant that was idle for an hour, and of no other', () => {
  const { clock, labelOf, moves } = setup(2);
  ['a', 'b'].map(labelOf);
  clock.now = HOUR_MS / 2;
  labelOf('a');
  clock.now = HOUR_MS - 1;
  expect(labelOf('c')).toBe('other');
  clock.now = HOUR_MS;
  expect(['c', 'b', 'a'].map(labelOf)).toEqual(['c', 'other', 'a']);
  expect(moves).toEqual(['+a', '+b', '-b', '+c']);
});

test('the number of tenants with a label never exceeds the maximum', () => {
  const { clock, labelOf, moves } = setup(3);
  const held = new Set<string>();
  for (let i = 0; i < 1_000; i++) {
    clock.now += HOUR_MS / 10;
    labelOf(`t${i % 50}`);
    for (const move of moves.splice(0)) {
      if (move.startsWith('+')) held.add(move.slice(1));
      else held.delete(move.slice(1));
    }
    expect(held.size).toBeLessThanOrEqual(3);
  }
});
