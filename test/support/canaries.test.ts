import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { searchForCanaries } from './canaries.ts';

const secret = randomBytes(24).toString('base64url');
const hex = Buffer.from(secret).toString('hex');

test.each([
  ['plain', 'plain', `{"token":"${secret}"}`],
  ['in hexadecimal', 'hex', `\\x00${hex}`],
  ['in the base64 of a pair whose first part has an odd length', 'base64', basic('AC1')],
  ['in the base64 of a pair whose first part has another length', 'base64', basic('AC12')],
  ['in the base64 of a pair whose first part has a third length', 'base64', basic('AC123')],
])('a secret is found %s', (_form, form, text) => {
  const search = searchForCanaries([{ name: 'the secret', secret }]);
  search.inText('log', text);
  expect(search.hits()).toEqual([{ canary: 'the secret', place: 'log', form }]);
});

test.each([
  ['a URL', `https://x.example/?a=${encodeURIComponent('+/secret with = signs+/')}`],
  ['a form', new URLSearchParams({ a: '+/secret with = signs+/' }).toString()],
])('a secret is found in %s', (_place, text) => {
  const search = searchForCanaries([{ name: 'the secret', secret: '+/secret with = signs+/' }]);
  search.inText('log', text);
  expect(search.hits()).toEqual([{ canary: 'the secret', place: 'log', form: 'url' }]);
});

function basic(user: string): string {
  return `Basic ${Buffer.from(`${user}:${secret}`).toString('base64')}`;
}

test('a secret is not reported where it is absent or allowed', () => {
  const search = searchForCanaries([{ name: 'the secret', secret, legal: ['table messages.content'] }]);
  search.inText('log', secret.slice(1));
  search.inText('table messages.content', secret);
  expect(search.hits()).toEqual([]);
  expect(search.bytesSeen()).toBe(2 * secret.length - 1);
});

test('a secret across two pieces of a large file is found', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'despatch-canary-'));
  const path = join(folder, 'large.log');
  const piece = 4 * 1024 * 1024;
  await writeFile(path, `${'x'.repeat(piece - 10)}${secret}${'x'.repeat(100)}`);
  const search = searchForCanaries([{ name: 'the secret', secret }]);
  await search.inFile('log', path);
  await rm(folder, { recursive: true });
  expect(search.hits()).toEqual([{ canary: 'the secret', place: 'log', form: 'plain' }]);
});

test('a secret that is too short for a reliable search is an error', () => {
  expect(() => searchForCanaries([{ name: 'the secret', secret: 'short' }])).toThrow('too short');
});
