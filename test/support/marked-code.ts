import { parseSync } from 'oxc-parser';

/** A file with its path from the project's root. */
export type SourceFile = { readonly path: string; readonly text: string };

/** A comment that names the code below it, and the position of that code in the file's text. */
export type Mark = {
  readonly name: string;
  readonly path: string;
  readonly start: number;
  readonly end: number;
};

/** What happens to marked code: it is deleted, or the only match of an expression is replaced as `String.replace` does. */
export type Change = 'delete' | readonly [find: RegExp, replacement: string];

/** The text after the name states the guarantee that depends on the code below. */
const MARK = /^[ \t]*(?:\/\/|--) Tests break this \(mutant: (?<name>[a-z]+(?:-[a-z0-9]+)*)\): \S.*$/gm;
const WORD = 'mutant:';

/** Finds all marks of a file. @throws where a comment resembles a mark and is none, or has no code below it. */
export function findMarks(file: SourceFile): Mark[] {
  const { path, text } = file;
  if (!text.includes(WORD)) return [];
  const found = [...text.matchAll(MARK)];
  const lines = text.split('\n').filter((line) => line.includes(WORD));
  const stray = lines.find((line) => !found.some(([mark]) => mark === line));
  if (stray !== undefined) throw new Error(`${path}: this is not how a mutant is marked: ${stray.trim()}`);
  const rangeAfter = path.endsWith('.sql') ? lineAfter : nodeAfter;
  return found.map((match) => {
    const name = match.groups?.['name'] ?? '';
    const range = rangeAfter(file, match.index + match[0].length);
    if (range === undefined) throw new Error(`${path}: no code is below the mark ${name}`);
    return { name, path, ...range };
  });
}

/**
 * Returns the file's text with marked code changed. @throws where the change has no match or several, or leaves invalid
 * TypeScript.
 */
export function changeMarked({ path, text }: SourceFile, mark: Mark, change: Change): string {
  const before = text.slice(mark.start, mark.end);
  const changed = text.slice(0, mark.start) + changeCode(before, mark, change) + text.slice(mark.end);
  if (path.endsWith('.ts')) parse(path, changed);
  return changed;
}

function changeCode(code: string, { name, path }: Mark, change: Change): string {
  if (change === 'delete') return '';
  const [find, replacement] = change;
  const times = [...code.matchAll(new RegExp(find.source, `${find.flags}g`))].length;
  if (times !== 1)
    throw new Error(`${path}: ${find} is found ${times} times below the mark ${name}, not once`);
  return code.replace(find, replacement);
}

type Range = { readonly start: number; readonly end: number };

/** For SQL: returns the next line that is not a comment. */
function lineAfter({ text }: SourceFile, from: number): Range | undefined {
  const start = skip(text, from, /(?:\s|--.*)*/y);
  const [line = ''] = /^.*/.exec(text.slice(start)) ?? [];
  return line === '' ? undefined : { start, end: start + line.length };
}

/**
 * For TypeScript: returns the largest node that begins next, such as a statement or a property, with the comma that follows it.
 */
function nodeAfter({ path, text }: SourceFile, from: number): Range | undefined {
  const start = skip(text, from, /(?:\s|\/\/.*|\/\*[^]*?\*\/)*/y);
  const end = endOfNodeAt(parse(path, text).body, start);
  return end === undefined ? undefined : { start, end: skip(text, end, /,?/y) };
}

function endOfNodeAt(tree: unknown, start: number): number | undefined {
  if (typeof tree !== 'object' || tree === null) return undefined;
  const node = tree as { readonly start?: unknown; readonly end?: unknown };
  if (node.start === start && typeof node.end === 'number') return node.end;
  for (const child of Object.values(tree)) {
    const end = endOfNodeAt(child, start);
    if (end !== undefined) return end;
  }
  return undefined;
}

function parse(path: string, text: string) {
  const { program, errors } = parseSync(path, text);
  if (errors.length > 0) throw new Error(`${path} does not parse: ${errors[0]?.message}`);
  return program;
}

function skip(text: string, from: number, what: RegExp): number {
  what.lastIndex = from;
  what.test(text);
  return what.lastIndex;
}
