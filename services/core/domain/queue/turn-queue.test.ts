import { describe, expect, test } from 'vitest';
import { array, assert, nat, property, tuple } from 'fast-check';
import { createTurnQueue } from './turn-queue.ts';

describe('turn queue', () => {
  test('serves the owners in turn, and the items of each in order', () => {
    const queue = createTurnQueue<string>();
    for (const item of ['a1', 'a2', 'a3', 'b1', 'c1', 'c2']) queue.push(item.charAt(0), item);
    expect(queue.take(4)).toEqual(['a1', 'b1', 'c1', 'a2']);
    expect(queue.take(10)).toEqual(['c2', 'a3']);
    expect(queue.size).toBe(0);
  });

  test('serves all owners in turn if there are more than a batch holds', () => {
    const queue = createTurnQueue<string>();
    for (const round of [1, 2]) for (const owner of 'abcde') queue.push(owner, `${owner}${round}`);
    expect([queue.take(3), queue.take(3), queue.take(3)]).toEqual([
      ['a1', 'b1', 'c1'],
      ['d1', 'e1', 'a2'],
      ['b2', 'c2', 'd2'],
    ]);
  });

  test('a flood of one owner delays another owner by at most one turn', () => {
    const queue = createTurnQueue<string>();
    for (let n = 0; n < 10_000; n++) queue.push('noisy', `noisy ${n}`);
    queue.push('quiet', 'quiet');
    expect(queue.take(2)).toContain('quiet');
  });

  test('skips an owner that may not be served, and serves it first once it may', () => {
    const queue = createTurnQueue<string>();
    for (const [owner, item] of ['a1', 'a2', 'b1', 'b2'].map((item) => [item.slice(0, 1), item] as const))
      queue.push(owner, item);
    expect(queue.take(3, (owner) => owner !== 'a')).toEqual(['b1', 'b2']);
    expect(queue.size).toBe(2);
    queue.push('c', 'c1');
    expect(queue.take(2)).toEqual(['a1', 'c1']);
  });

  test('skips an owner whose next item does not fit, and serves others first', () => {
    const queue = createTurnQueue<number>();
    for (const [owner, size] of [
      ['a', 1],
      ['a', 9],
      ['b', 1],
      ['b', 2],
    ] as const)
      queue.push(owner, size);
    let room = 5;
    const fits = (_owner: string, size: number): boolean => {
      if (size > room) return false;
      room -= size;
      return true;
    };
    expect(queue.take(10, fits)).toEqual([1, 1, 2]);
    expect(queue.take(10)).toEqual([9]);
  });

  test('every item comes out once, in the order of its owner', () => {
    assert(
      property(array(tuple(nat(5), nat(4))), (steps) => {
        const queue = createTurnQueue<[owner: number, n: number]>();
        const out: [number, number][] = [];
        for (const [n, [owner, most]] of steps.entries()) {
          queue.push(`owner ${owner}`, [owner, n]);
          out.push(...queue.take(most));
        }
        expect(queue.size).toBe(steps.length - out.length);
        out.push(...queue.take(steps.length));
        expect(out.length).toBe(steps.length);
        for (const owner of new Set(out.map(([one]) => one))) {
          const order = out.filter(([one]) => one === owner).map(([, n]) => n);
          expect(order).toEqual(order.toSorted((a, b) => a - b));
          expect(new Set(order).size).toBe(order.length);
        }
      }),
    );
  });
});
