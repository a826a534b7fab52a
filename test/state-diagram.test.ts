import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { MESSAGE_MOVES } from '#core/domain/message-state.ts';
import { projectRoot } from './support/command.ts';

test('the drawn states of a message and the table of its moves are the same', () => {
  const drawn = drawnMoves(readFileSync(join(projectRoot, 'services/ARCHITECTURE.md'), 'utf8'));
  const tabled = Object.entries(MESSAGE_MOVES).flatMap(([from, moves]) =>
    moves.map((to) => `${from} --> ${to}`),
  );
  expect(drawn.toSorted()).toEqual(tabled.toSorted());
});

test('a drawing that lacks, adds or repeats a move is seen', () => {
  const document = [
    'text',
    '```mermaid',
    'stateDiagram-v2',
    '  [*] --> a',
    '  a --> b',
    '  a-->c : why',
    '```',
    'x --> y',
  ];
  expect(drawnMoves(document.join('\n'))).toEqual(['a --> b', 'a --> c']);
  expect(() => drawnMoves('no drawing')).toThrow('no state diagram');
});

/** The moves of the first mermaid state diagram; those from and to `[*]` only mark begin and end. */
function drawnMoves(markdown: string): string[] {
  const diagram = /```mermaid\s+stateDiagram-v2\n(.*?)```/s.exec(markdown)?.[1];
  if (diagram === undefined) throw new Error('there is no state diagram');
  return [...diagram.matchAll(/^\s*([a-z]+)\s*-->\s*([a-z]+)/gm)].map(([, from, to]) => `${from} --> ${to}`);
}
