import { assert, property, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { heapGrowth } from '#test/support/heap-growth.ts';
import { createRedactor, redact, secretStrings } from './redact.ts';

describe('a provider text', () => {
  test.each([
    ['a secret', 'key s3cr3t/+= is wrong', 'key [redacted] is wrong'],
    ['a secret in a URL', 'at /x?k=s3cr3t%2F%2B%3D', 'at /x?k=[redacted]'],
    ['a secret in Base64', `Basic ${btoa('s3cr3t/+=')}`, 'Basic [redacted]'],
    ['an address', "The 'To' number +15551230001 is wrong", "The 'To' number [redacted] is wrong"],
    ['a mailbox', 'ada@example.com does not exist', '[redacted] does not exist'],
    ['control characters', 'a\u0000b\r\nc\u001b[31m', 'a b c [31m'],
  ])('is redacted of %s', (_, text, clean) => {
    expect(redact(text, ['s3cr3t/+='])).toBe(clean);
  });

  test.each([
    ['in a form', 'pass word&', 'k=pass+word%26', 'k=[redacted]'],
    ['in JSON', 'pass"word', '{"k":"pass\\"word"}', '{"k":"[redacted]"}'],
    ['in Base64', 'abcd', 'Basic YWJjZA== is wrong', 'Basic [redacted] is wrong'],
    ['in Base64 without padding', 'abcd', 'Basic YWJjZA is wrong', 'Basic [redacted] is wrong'],
    ['with its line breaks as spaces', 'pass\r\nword', 'x pass word y', 'x [redacted] y'],
    ['as a number without its plus', '+15551230001', 'To 15551230001 is wrong', 'To [redacted] is wrong'],
    ['that is not well-formed', 'pass\ud800', 'x pass\ud800 y', 'x [redacted] y'],
  ])('is redacted of a secret %s', (_, secret, text, clean) => {
    expect(redact(text, [secret])).toBe(clean);
  });

  test.each([
    ['a short line of a secret', 'one\ntwo', 'one is missing'],
    ['the frame of a PEM key', '-----BEGIN PRIVATE KEY-----\nx', 'No -----BEGIN PRIVATE KEY-----'],
    ['the Base64 of a short secret', 'ab', 'YWI is missing'],
  ])('keeps %s, which anyone may use', (_, secret, text) => {
    expect(redact(text, [secret])).toBe(text);
  });

  test('is redacted of a PEM key as a whole, on one line and line by line', () => {
    const line = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7';
    const pem = `-----BEGIN PRIVATE KEY-----\n${line}\n${line}\n-----END PRIVATE KEY-----\n`;
    for (const text of [pem, pem.replaceAll('\n', ' '), line])
      expect(redact(`x ${text} y`, [pem])).not.toContain(line);
  });

  test('is cut at 300 characters, never inside a surrogate pair', () => {
    expect(redact('x'.repeat(1_000), [])).toHaveLength(300);
    expect(redact(`${'x'.repeat(299)}😀`, [])).toBe('x'.repeat(299));
  });

  test('of 32 KiB and more is redacted in less than a second of CPU time', () => {
    const before = process.cpuUsage();
    for (const text of ['x', '@', '+1', 'a@'].map((one) => one.repeat(32_768))) redact(text, ['secret']);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
  });

  test('is processed only up to a limit, and shows no part of a secret at that cut', () => {
    const secret = 'k3y-0123456789';
    // White space at the start is what brings the text around the cut into the result.
    for (const before of [4_096, 4_096 - 4, 4_096 + 4, 4_096 + secret.length - 1])
      for (const gap of ['\n', '\u0000'])
        expect(redact(`a${gap.repeat(before - 1)}${secret}${'x'.repeat(99)}`, [secret])).not.toContain('k3');
    expect(redact(`${'\n'.repeat(40_000)}end`, [])).toBe('');
  });

  test('is redacted of secrets that overlap', () => {
    expect(redact('x ababa y', ['aba'])).toBe('x [redacted] y');
    expect(redact('x secretive y', ['secret', 'cretive'])).toBe('x [redacted] y');
    expect(redact('x secretsecret y', ['secret'])).toBe('x [redacted][redacted] y');
  });

  test.each<[what: string, make: (i: string) => string, text: string]>([
    ['end like the text', (i) => `${'a'.repeat(300)}+"${i}${'a'.repeat(720)}`, 'a'.repeat(65_536)],
    ['are in the text almost whole', (i) => `${'ab'.repeat(300)}${i}`, 'ab'.repeat(32_768)],
    ['are long in every spelling', (i) => `"é${i}`.repeat(100), '%22%C3%A9'.repeat(8_000)],
  ])('whose secrets %s is redacted in less than 500 ms of CPU time', (_, make, text) => {
    const hidden = Array.from({ length: 120 }, (_, i) => make(String(i).padStart(3, '0')));
    const before = process.cpuUsage();
    for (let i = 0; i < 2; i += 1) redact(`x ${text}`, hidden);
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(500);
  });

  test('is redacted as a whole if a search for its secrets takes too many comparisons', () => {
    const hidden = Array.from({ length: 40 }, (_, i) => `${'a'.repeat(300)}${i}${'a'.repeat(700)}`);
    expect(redact('a'.repeat(30_000), hidden)).toBe('[redacted]');
    const links = Array.from({ length: 200 }, (_, i) => `https://shop.example/a/long/path/${i}?of=a-link`);
    const text = `${links[7]} and ${links[150]} are wrong. `;
    expect(redact(text.repeat(40), links)).toMatch(/^\[redacted\] and \[redacted\] are wrong\. \[/);
  });

  test.each([
    ['in one word', 'a@b@c and d@e', '[redacted] and [redacted]'],
    ['with long parts', `x ${'a'.repeat(100)}@${'b'.repeat(300)} y`, 'x [redacted] y'],
    ['that begin with a phone number', '+15551230001@example.com', '[redacted]'],
    ['next to an unrelated @', '@ada@example.com @ +15551230001', '@[redacted] @ [redacted]'],
  ])('is redacted of addresses %s', (_, text, clean) => {
    expect(redact(text, [])).toBe(clean);
  });

  test('with a long local part is redacted from the start of the word', () => {
    // An attempt from inside the word would leave the word's first characters.
    expect(redact(`${'a'.repeat(70)}@example.com`, [])).toBe('[redacted]');
  });

  test('never shows a secret, whatever the surrounding text (property)', () => {
    const secret = string({ minLength: 4, maxLength: 40 }).filter(
      (text) => !'[redacted]'.includes(text.trim()),
    );
    assert(
      property(secret, string(), string(), (hidden, before, after) => {
        const shown = redact(`${before}${hidden}${after}`, [hidden]).replaceAll('[redacted]', '\n');
        expect(shown).not.toContain(hidden);
      }),
    );
  });
});

test('a text is redacted as a whole if there are too many secrets to search for', () => {
  const hidden = Array.from({ length: 30_000 }, (_, i) => `variable ${i}`);
  const text = `variable 7 is wrong, ${'x'.repeat(16_000)}`;
  const before = process.cpuUsage();
  for (let i = 0; i < 20; i++) expect(redact(text, hidden)).toBe('[redacted]');
  expect(redact(' ', hidden)).toBe('');
  expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
  expect(redact('short', ['x'.repeat(70_000)])).toBe('[redacted]');
  expect(redact(text, [...hidden.slice(0, 200), ...hidden.slice(0, 200)])).toMatch(/^\[redacted\] is wrong/);
});

test('every nested string of an account counts as a secret', () => {
  expect(secretStrings({ a: 'x', b: { c: ['y', 1, null] }, d: undefined })).toEqual(['x', 'y']);
});

test('a redacted text does not retain the memory of the original', () => {
  const shorten = createRedactor(['s3cr3t'], 1_024);
  const kept: string[] = [];
  const grown = heapGrowth(() => {
    for (let i = 0; i < 500; i += 1) kept.push(shorten(`${i} ${'a word '.repeat(9_000)}`));
  });
  // Half a megabyte of texts; with what they were cut from they take thirty.
  expect(grown).toBeLessThan(5_000_000);
  expect(kept).toHaveLength(500);
});
