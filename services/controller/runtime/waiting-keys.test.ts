import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createWaitingKeys, type Lane } from './waiting-keys.ts';

/** Returns all keys in the order in which they are taken. */
function takeAll(waiting: ReturnType<typeof createWaitingKeys>): string[] {
  const taken: string[] = [];
  for (let key = waiting.take(); key !== undefined; key = waiting.take()) taken.push(key);
  return taken;
}

test('keys of one lane and one namespace are taken in the order of their adds', () => {
  const waiting = createWaitingKeys();
  for (const key of ['n/c', 'n/a', 'n/b', 'n/a']) waiting.add(key, 'change');
  expect(waiting.size()).toBe(3);
  expect(takeAll(waiting)).toEqual(['n/c', 'n/a', 'n/b']);
});

test('changes go first, and every fourth key is a routine one', () => {
  const waiting = createWaitingKeys();
  for (let i = 0; i < 6; i += 1) {
    waiting.add(`r${i}`, 'routine');
    waiting.add(`c${i}`, 'change');
  }
  expect(takeAll(waiting)).toEqual('c0 c1 c2 r0 c3 c4 c5 r1 r2 r3 r4 r5'.split(' '));
});

test('a change does not wait because other changes were taken while nothing else waited', () => {
  const waiting = createWaitingKeys();
  for (let i = 0; i < 10; i += 1) {
    waiting.add(`c${i}`, 'change');
    waiting.take();
  }
  waiting.add('r', 'routine');
  waiting.add('c', 'change');
  expect(waiting.take()).toBe('c');
});

test('a change of a key that waits for a routine pass moves it forward, and not back again', () => {
  const waiting = createWaitingKeys();
  for (const key of ['n/a', 'n/b', 'n/c']) waiting.add(key, 'routine');
  waiting.add('n/c', 'change');
  waiting.add('n/c', 'routine');
  expect(waiting.size()).toBe(3);
  expect(takeAll(waiting)).toEqual(['n/c', 'n/a', 'n/b']);
});

test('namespaces take turns, so that thousands of changes in one hold up no other', () => {
  const waiting = createWaitingKeys();
  for (let i = 0; i < 1_000; i += 1) waiting.add(`crowd/${i}`, 'change');
  waiting.add('quiet/a', 'change');
  waiting.add('quiet/b', 'change');
  expect([1, 2, 3, 4].map(() => waiting.take())).toEqual(['crowd/0', 'quiet/a', 'crowd/1', 'quiet/b']);
});

test('property: every key is taken once', () => {
  const adds = fc.array(
    fc.tuple(fc.constantFrom('m', 'n'), fc.nat(9), fc.constantFrom<Lane>('change', 'routine')),
  );
  fc.assert(
    fc.property(adds, (given) => {
      const waiting = createWaitingKeys();
      for (const [namespace, name, lane] of given) waiting.add(`${namespace}/${name}`, lane);
      const keys = new Set(given.map(([namespace, name]) => `${namespace}/${name}`));
      expect(waiting.size()).toBe(keys.size);
      expect(takeAll(waiting).toSorted()).toEqual([...keys].toSorted());
      expect(waiting.size()).toBe(0);
    }),
  );
});
