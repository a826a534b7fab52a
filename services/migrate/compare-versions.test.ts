import { expect, test } from 'vitest';
import { compareVersions } from './compare-versions.ts';

const ASCENDING = [
  '0.9.12',
  '0.10.0',
  '1.0.0-alpha',
  '1.0.0-alpha.1',
  '1.0.0-alpha.beta',
  '1.0.0-beta',
  '1.0.0-beta.2',
  '1.0.0-beta.11',
  '1.0.0-rc.1',
  '1.0.0',
  '1.0.1',
  '1.2.0-rc-1.4',
  '1.2.0',
  '1.11.0',
  '2.0.0',
];

test('orders versions by number, and a prerelease before its release', () => {
  for (const [index, version] of ASCENDING.entries()) {
    for (const [position, other] of ASCENDING.entries())
      expect([version, other, Math.sign(compareVersions(version, other))]).toEqual([
        version,
        other,
        Math.sign(index - position),
      ]);
  }
});

test('ignores build metadata', () => {
  expect(compareVersions('1.2.0+5-a', '1.2.0+6')).toBe(0);
  expect(Math.sign(compareVersions('1.2.0-rc.1+5', '1.2.0'))).toBe(-1);
});
