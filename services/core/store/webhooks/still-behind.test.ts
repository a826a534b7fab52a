import { expect, test } from 'vitest';
import type { Appended } from './append-matches.ts';
import { stillBehind } from './still-behind.ts';

const NOTHING: Appended = { claims: [], isLeftDue: false, advanced: [], missed: [], failed: new Map() };

test.each<[string, { unread?: boolean; cut?: boolean }, Partial<Appended>, boolean]>([
  ['all was read and matched', {}, { advanced: ['t'] }, false],
  ['there may be more events', { unread: true }, { advanced: ['t'] }, true],
  ['endpoints were left', { cut: true }, {}, true],
  ['another worker has its only endpoint', { unread: true }, { missed: ['t'] }, false],
  [
    'another worker has one of its endpoints, none was left',
    { unread: true },
    { missed: ['t'], advanced: ['t'] },
    false,
  ],
  [
    'another worker has one, others were left and some advanced',
    { cut: true },
    { missed: ['t'], advanced: ['t'] },
    true,
  ],
  ['another worker has all that had their turn', { cut: true }, { missed: ['t'] }, false],
  [
    'its matches could not be stored',
    { unread: true, cut: true },
    { failed: new Map([['t', 'why']]) },
    false,
  ],
])('whether a tenant is matched again at once, if %s', (_, left, appended, isBehind) => {
  const of = (is?: boolean): Set<string> => new Set(is === true ? ['t'] : []);
  const behind = stillBehind({ unread: of(left.unread), cut: of(left.cut) }, [
    NOTHING,
    { ...NOTHING, ...appended },
  ]);
  expect(behind).toEqual(isBehind ? ['t'] : []);
});
