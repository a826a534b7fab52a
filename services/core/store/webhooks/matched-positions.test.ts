import { expect, test } from 'vitest';
import { createMatchedPositions } from './matched-positions.ts';

const ENDPOINT = { id: 'e', version: 1, matchedTo: 100, server: 1 };

test('keeps a matched position in memory until it is time to store it', () => {
  let clock = 0;
  const positions = createMatchedPositions(() => clock);
  expect(positions.of(ENDPOINT)).toBe(100);
  expect(positions.note(ENDPOINT, 600)).toBe(false);
  expect(positions.of(ENDPOINT)).toBe(600);
  expect(positions.note(ENDPOINT, 1_099)).toBe(false);
  expect(positions.note(ENDPOINT, 1_100)).toBe(true);
  positions.forget('e');
  expect(positions.of(ENDPOINT)).toBe(100);
  expect(positions.note(ENDPOINT, 101)).toBe(false);
  clock = 29_999;
  expect(positions.note(ENDPOINT, 101)).toBe(false);
  clock = 30_000;
  expect(positions.note(ENDPOINT, 101)).toBe(true);
});

test('drops a position after a switch to another server, whose feed may be shorter', () => {
  const positions = createMatchedPositions(() => 0);
  positions.note(ENDPOINT, 600);
  expect(positions.of({ ...ENDPOINT, server: 2 })).toBe(100);
  expect(positions.note({ ...ENDPOINT, server: 2 }, 200)).toBe(false);
  expect(positions.of({ ...ENDPOINT, server: 2 })).toBe(200);
});

test('drops a position once the filters or the stored position have changed', () => {
  const positions = createMatchedPositions(() => 0);
  positions.note(ENDPOINT, 600);
  expect(positions.of({ ...ENDPOINT, version: 2 })).toBe(100);
  expect(positions.of({ ...ENDPOINT, matchedTo: 300 })).toBe(300);
  expect(positions.note({ ...ENDPOINT, matchedTo: 300 }, 300)).toBe(false);
});

test('drops all positions before there are too many', () => {
  const positions = createMatchedPositions(() => 0);
  for (let i = 0; i <= 20_000; i += 1) positions.note({ ...ENDPOINT, id: `e${i}` }, 101);
  expect(positions.of({ ...ENDPOINT, id: 'e0' })).toBe(100);
  expect(positions.of({ ...ENDPOINT, id: 'e20000' })).toBe(101);
});
