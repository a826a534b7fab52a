import { describe, expect, test } from 'vitest';
import { MUTANTS } from './fault/mutants.ts';
import { GROUPS } from './security/mutants.ts';
import { findMarks } from './support/marked-code.ts';
import { plantChanges, readSources } from './support/mutant.ts';

const mutants = [...MUTANTS, ...GROUPS.flat()];
const sources = await readSources();

test('each mark occurs once in the source and has a mutant', () => {
  const marks = sources.flatMap(findMarks).map(({ name }) => name);
  const broken = mutants.flatMap(({ changes }) => Object.keys(changes));
  expect(marks.toSorted()).toEqual([...new Set(broken)].toSorted());
});

test.each(mutants)('$name: the marked code exists, and the mutated source still parses', (mutant) => {
  expect(plantChanges(sources, [mutant]).length).toBeGreaterThan(0);
});

describe('a mutant is rejected', () => {
  const path = 'services/x.ts';
  const text = '// Tests break this (mutant: x): all.\nvoid 1;\n';
  const mutant = { changes: { x: [/1/, '2'] as const } };

  test.each([
    ['whose mark is missing', [{ path, text: 'void 1;\n' }], 'no code is marked x'],
    ['whose mark occurs twice', [{ path, text: text + text }], 'services/x.ts are both marked x'],
    [
      'whose pattern does not match the marked code',
      [{ path, text: text.replace('1', '3') }],
      'is found 0 times',
    ],
  ])('%s', (_case, files, message) => {
    expect(() => plantChanges(files, [mutant])).toThrow(message);
  });
});

test('two mutants may be planted in one file', () => {
  const text = ['x', 'y'].map((name) => `// Tests break this (mutant: ${name}): all.\nvoid 1;\n`).join('');
  const changed = plantChanges(
    [{ path: 'x.ts', text }],
    [{ changes: { x: [/1/, 'anything'] } }, { changes: { y: 'delete' } }],
  );
  expect(changed).toEqual([
    { path: 'x.ts', text: text.replace('void 1;', 'void anything;').replace('void 1;', '') },
  ]);
});
