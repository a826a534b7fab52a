import { expect, test } from 'vitest';
import { asciiDomain } from './ascii-domain.ts';

test.each([
  ['Bücher.Example', 'xn--bcher-kva.example'],
  ['example.ORG', 'example.org'],
  ['a_b.é.example', 'a_b.xn--9ca.example'],
  ['ａcme。example', 'acme.example'],
])('the domain %s is %s in ASCII', (domain, ascii) => {
  expect(asciiDomain(domain)).toBe(ascii);
});

test.each([
  '',
  'acme.example#é.example',
  'acme.example/é.example',
  'acme.example?é.example',
  'acme.example:é.example',
  'acme.example\\é.example',
  'é@acme.example',
  'acme%2Eexample.é',
  // The same signs in full width.
  'acme.example＃é',
  'acme.example／é',
  'acme％2Eexample.é',
  // Not the form of any name.
  'xn--é.example',
])('no domain can be %j', (domain) => {
  expect(asciiDomain(domain)).toBeUndefined();
});
