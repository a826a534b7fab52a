import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { comparableAddress, normalAddress, parseMailbox } from './mailbox.ts';

describe('a mailbox', () => {
  test.each([
    ['ann@example.com', { address: 'ann@example.com' }],
    ['Ann <ann@example.com>', { name: 'Ann', address: 'ann@example.com' }],
    ['Acme Inc. <ann@example.com>', { name: 'Acme Inc.', address: 'ann@example.com' }],
    ['"Acme, Inc." <ann@example.com>', { name: 'Acme, Inc.', address: 'ann@example.com' }],
    ['<ann@example.com>', { address: 'ann@example.com' }],
    ['"john doe"@example.com', { address: '"john doe"@example.com' }],
    ['Jürgen <jürgen@exämple.de>', { name: 'Jürgen', address: 'jürgen@exämple.de' }],
    ['"" <ann@example.com>', { address: 'ann@example.com' }],
    ['ü@é.example', { address: 'ü@é.example' }],
    ['ü@[192.0.2.1]', { address: 'ü@[192.0.2.1]' }],
    ['ann@[IPv6:2001:db8::1]', { address: 'ann@[IPv6:2001:db8::1]' }],
  ])('%s is parsed', (text, mailbox) => {
    expect(parseMailbox(text)).toEqual(mailbox);
  });

  test.each([
    '',
    'ann',
    'ann@',
    '@example.com',
    'a@b@c',
    'a..b@example.com',
    'ann@-example.com',
    'ü@-b.example',
    'ü@b-.example',
    'ü@b.é-',
    'team: a@b.example;',
    'a@b.example, c@d.example',
    'Acme, Inc. <ann@example.com>',
  ])('%s is refused', (text) => {
    expect(parseMailbox(text)).toBeUndefined();
  });
});

test('a mailbox has at most 640 code units', () => {
  const [fits, tooLong] = [628, 629].map((length) => `${'a'.repeat(length)}@example.com`);
  expect(parseMailbox(fits as string)).toEqual({ address: fits });
  expect(parseMailbox(tooLong as string)).toBeUndefined();
});

test.each(['(', '(" (', '"', '<', 'a.', ' ', '\\'])(
  'any number of %j is refused without an error',
  (part) => {
    for (const length of [100, 600, 4_096, 100_000]) {
      const text = part.repeat(length / part.length);
      expect(parseMailbox(text)).toBeUndefined();
      expect(normalAddress(`${text}@example.com`)).toBeUndefined();
    }
  },
);

test('a normalized address is stable and parses to itself, for any text', () => {
  const unit = fc.constantFrom(
    '(',
    ')',
    '"',
    '\\',
    'a',
    '@',
    '.',
    '<',
    '>',
    ',',
    ':',
    '[',
    ']',
    ' ',
    '\t',
    '\r\n',
    'ä',
    '💥',
    // Become a semicolon, a backquote and a K in the normal form.
    '\u037e',
    '\u1fef',
    '\u212a',
  );
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 200 }), (text) => {
      const address = normalAddress(text);
      if (address === undefined) return;
      expect(normalAddress(address)).toBe(address);
      expect(parseMailbox(text)?.address).toBe(text);
    }),
    { examples: [['a\u037eb@example.com'], ['a@ex\u037eample.com'], ['a\u212ab@example.com']] },
  );
});

describe('a bare address', () => {
  test.each([
    ['Ann@Example.COM', 'Ann@example.com'],
    ['ann@Bücher.de', 'ann@xn--bcher-kva.de'],
    ['ann@bu\u0308cher.de', 'ann@xn--bcher-kva.de'],
    ['ann@XN--BCHER-KVA.de', 'ann@xn--bcher-kva.de'],
    ['jose\u0301@example.com', 'jos\u00e9@example.com'],
    ["o'neil+tag@example.com", "o'neil+tag@example.com"],
    ['"john doe"@Example.com', '"john doe"@example.com'],
    ['root@localhost', 'root@localhost'],
    // A URL's host would end before the sign, and "%2E" would be a dot.
    ['ann@acme.example#é.example', 'ann@acme.example#é.example'],
    ['ann@acme.example/é.example', 'ann@acme.example/é.example'],
    ['ann@acme.example?é.example', 'ann@acme.example?é.example'],
    ['ann@Acme%2Eexample.é', 'ann@acme%2eexample.é'],
  ])('%s is normalized', (text, normal) => {
    expect(normalAddress(text)).toBe(normal);
  });

  test.each([
    'Ann <ann@example.com>',
    '<ann@example.com>',
    ' ann@example.com',
    'ann@example.com (work)',
    'ann',
    // Its normal form would have a semicolon.
    'a\u037eb@example.com',
  ])('%s is refused', (text) => {
    expect(normalAddress(text)).toBeUndefined();
  });

  test('is refused if its normal form is too long: there each of these signs is three', () => {
    const of = (signs: number) => normalAddress(`${'\u{1d160}'.repeat(signs)}@example.com`);
    expect(of(100)).toBe(`${'\u{1d158}\u{1d165}\u{1d16e}'.repeat(100)}@example.com`);
    expect(of(188)).toBeUndefined();
  });
});

describe('comparableAddress', () => {
  test.each([
    ['Ann@Example.org', 'Ann@Example.org'],
    ['Ann@Exämple.org', 'Ann@xn--exmple-cua.org'],
    ['zoë@example.org'.normalize('NFD'), 'zoë@example.org'.normalize('NFC')],
    ['b\u0130ll@example.org', 'bi\u0307ll@example.org'],
    ['not an äddress', 'not an äddress'],
    ['ann@acme.example#é.example', 'ann@acme.example#é.example'],
    ['ann@acme.example\\é.example', 'ann@acme.example\\é.example'],
  ])('of %s is %s', (text, comparable) => {
    expect(comparableAddress(text)).toBe(comparable);
  });

  test('in lower case is in ASCII only if it is in ASCII as it is', () => {
    // Postgres takes the first character of a letter's lower case, as Unicode's simple mapping does.
    const lower = (text: string): string =>
      Array.from(text, (letter) => Array.from(letter.toLowerCase())[0]).join('');
    const isAscii = (text: string): boolean => /^\p{ASCII}*$/u.test(text);
    const letters = Array.from({ length: 0x110000 - 128 }, (_, i) => String.fromCodePoint(i + 128)).filter(
      (letter) => letter.isWellFormed() && isAscii(lower(letter.normalize('NFC'))),
    );
    expect(letters).toEqual(expect.arrayContaining(['\u0130', '\u212a']));
    for (const letter of letters) {
      const comparable = comparableAddress(`a${letter}b@example.org`);
      expect(isAscii(lower(comparable))).toBe(isAscii(comparable));
    }
  });
});
