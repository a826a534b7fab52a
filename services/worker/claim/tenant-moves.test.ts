import { expect, test } from 'vitest';
import { createTenantMoves } from './tenant-moves.ts';

type Left = Record<string, { hold?: number; release?: number }>;

function setup(left: Left) {
  const done: string[] = [];
  let stopping = false;
  const move = (kind: 'hold' | 'release') => (tenantId: string, most: number) => {
    const of = left[tenantId];
    if (of === undefined) return Promise.reject(new Error(tenantId));
    const moved = Math.min(most, of[kind] ?? 0);
    of[kind] = (of[kind] ?? 0) - moved;
    if (moved > 0) done.push(`${kind} ${tenantId} ${moved}`);
    return Promise.resolve(moved);
  };
  const moves = createTenantMoves({
    store: { holdTenant: move('hold'), releaseTenant: move('release') },
    onReleased: () => done.push('due'),
    isStopping: () => stopping,
  });
  return { moves, done, stop: () => (stopping = true) };
}

test('messages of suspended and resumed tenants are moved in batches, and tenants take turns', async () => {
  const { moves, done } = setup({ large: { hold: 1_200 }, small: { release: 10 }, none: {} });
  for (const tenantId of ['large', 'small', 'none']) moves.add(tenantId);
  await moves.run();
  expect(done).toEqual(['hold large 500', 'release small 10', 'due', 'hold large 500', 'hold large 200']);
});

test('a tenant whose move fails does not block others, and its error is thrown', async () => {
  const { moves, done } = setup({ b: { release: 1 } });
  moves.add('unknown');
  moves.add('b');
  await expect(moves.run()).rejects.toThrow('unknown');
  expect(done).toEqual(['release b 1', 'due']);
  // A failed tenant is not tried again before it is added.
  await moves.run();
});

test('a stopping worker begins no further batch', async () => {
  const { moves, done, stop } = setup({ a: { hold: 1_000 } });
  moves.add('a');
  stop();
  await moves.run();
  expect(done).toEqual([]);
});
