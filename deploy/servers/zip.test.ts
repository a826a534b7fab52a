import { expect, test } from 'vitest';
import { zipOf } from '#test/support/zip-of.ts';
import { readZipMember } from './zip.ts';

const archive = zipOf([
  { name: 'LICENSE.txt', content: 'terms', method: 0 },
  { name: 'vault', content: 'program '.repeat(100), method: 8 },
]);

test('a member is found by its name, compressed or stored', () => {
  expect(readZipMember(archive, 'vault').toString()).toBe('program '.repeat(100));
  expect(readZipMember(archive, 'LICENSE.txt').toString()).toBe('terms');
});

test('an absent member and a file that is no archive are errors', () => {
  expect(() => readZipMember(archive, 'nomad')).toThrow('the zip archive has no nomad');
  expect(() => readZipMember(Buffer.from('<html>not found</html>'), 'vault')).toThrow('not a zip archive');
});
