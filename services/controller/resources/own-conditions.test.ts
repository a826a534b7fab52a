import { expect, test } from 'vitest';
import { conditionsOf, wholeSeconds, type Finding } from './own-conditions.ts';

const EARLY = new Date('2026-01-01T00:00:00.789Z');
const LATE = new Date('2026-01-02T00:00:00.123Z');

const finding = (status: Finding['status'], message = ''): Finding => ({
  type: 'Ready',
  status,
  reason: 'Because',
  message,
});

test('a condition keeps its transition time while its status is unchanged', () => {
  const before = conditionsOf([finding('True')], undefined, 1, EARLY);
  expect(before[0]?.lastTransitionTime).toBe('2026-01-01T00:00:00Z');
  expect(conditionsOf([finding('True', 'new words')], before, 2, LATE)).toEqual([
    { ...before[0], observedGeneration: 2, message: 'new words' },
  ]);
  expect(conditionsOf([finding('False')], before, 2, LATE)[0]?.lastTransitionTime).toBe(
    '2026-01-02T00:00:00Z',
  );
});

test('a condition that is no longer found is dropped', () => {
  const before = conditionsOf([finding('True'), { ...finding('True'), type: 'Old' }], undefined, 1, EARLY);
  expect(conditionsOf([finding('True')], before, 1, LATE)).toEqual([before[0]]);
});

test('times are whole seconds, as the API server keeps them', () => {
  expect(wholeSeconds(EARLY)).toBe('2026-01-01T00:00:00Z');
});
