import { describe, expect, test } from 'vitest';
import { changeMarked, findMarks, type Change } from './marked-code.ts';

const mark = (name: string, of = '//'): string =>
  `${of} Tests break this (mutant: ${name}): all that it holds.`;

function change(path: string, text: string, how: Change): string {
  const [found] = findMarks({ path, text });
  if (found === undefined) throw new Error('no mark was found');
  return changeMarked({ path, text }, found, how);
}

describe('marked TypeScript', () => {
  const around = (below: string): string => `const a = 1;\n${mark('x')}\n${below}\nconst z = a;\n`;

  test.each<[string, string, Change, string]>([
    ['a whole statement is deleted', 'if (a === 1) {\n  void a;\n}', 'delete', ''],
    ['a property is deleted with its comma', 'const b = {\n  c: a,\n};', 'delete', ''],
    [
      'a part of a statement over several lines is replaced',
      'void [\n  a,\n  2,\n];',
      [/\d/, '3'],
      'void [\n  a,\n  3,\n];',
    ],
    ['the replacement can refer to the match', 'void f(a);', [/f\((.*)\)/, 'g(f($1))'], 'void g(f(a));'],
    [
      'further comments above the statement are skipped',
      '// More.\n/** And more. */\nvoid a;',
      [/a/, 'b'],
      '// More.\n/** And more. */\nvoid b;',
    ],
  ])('%s', (_case, code, how, expected) => {
    expect(change('x.ts', around(code), how)).toBe(around(expected));
  });

  test('can be a single property of an object', () => {
    const text = `f({\n  a,\n  ${mark('x')}\n  b: 2,\n  c: 2,\n});\n`;
    expect(change('x.ts', text, 'delete')).toBe(text.replace('b: 2,', ''));
    expect(change('x.ts', text, [/2/, '3'])).toBe(text.replace('b: 2', 'b: 3'));
  });

  test('a change that does not parse is rejected', () => {
    expect(() => change('x.ts', around('void a;'), [/a/, '('])).toThrow('x.ts does not parse');
  });
});

describe('marked SQL', () => {
  const text = `select 1\n${mark('x', '  --')}\n  -- More.\n  where a = 1\n  and b = 1`;

  test('is the next line that is not a comment', () => {
    expect(change('x.sql', text, [/ = 1/, ' = 2'])).toBe(text.replace('a = 1', 'a = 2'));
    expect(change('x.sql', text, 'delete')).toBe(text.replace('where a = 1', ''));
  });

  test.each([
    [/b/, 0],
    [/\w/, 7],
  ])('a pattern that does not match exactly once is rejected: %s', (find, times) => {
    expect(() => change('x.sql', text, [find, ''])).toThrow(
      `is found ${times} times below the mark x, not once`,
    );
  });
});

test.each([
  ['// mutant: x', 'not how a mutant is marked'],
  ['// Tests break this (mutant: x):', 'not how a mutant is marked'],
  ['// Tests break this (mutant: X y): something.', 'not how a mutant is marked'],
  [mark('x'), 'no code is below'],
])('%s alone is an error', (text, message) => {
  expect(() => findMarks({ path: 'x.ts', text })).toThrow(message);
  expect(() => findMarks({ path: 'x.sql', text: text.replace('//', '--') })).toThrow(message);
});
