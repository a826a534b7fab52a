import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from './command.ts';
import { changeMarked, findMarks, type Change, type Mark, type SourceFile } from './marked-code.ts';

/** The changes by the names of their marks. */
export type Changes = Readonly<Record<string, Change>>;

/** A deliberate fault in the source, which proves that a test can fail. */
export type Mutant = {
  /** Describes the fault in a few words, for example `202 before the commit`. */
  readonly name: string;
  readonly changes: Changes;
};

/** Reads all deployed code, which may contain marks. */
export async function readSources(): Promise<SourceFile[]> {
  const paths = await Array.fromAsync(glob('services/**/*.{ts,sql}', { cwd: projectRoot }));
  return Promise.all(
    paths.map(async (path) => ({ path, text: await readFile(join(projectRoot, path), 'utf8') })),
  );
}

/**
 * Returns the files that the mutants change, with all changes applied.
 * @throws where a mark is missing or occurs twice, or a change does not find the code that it replaces.
 */
export function plantChanges(
  sources: readonly SourceFile[],
  mutants: readonly Pick<Mutant, 'changes'>[],
): SourceFile[] {
  const all = new Map(sources.map((file) => [file.path, file]));
  const changed = new Set<string>();
  for (const [name, change] of mutants.flatMap(({ changes }) => Object.entries(changes))) {
    const mark = onlyMark(all.values(), name);
    const { path } = mark;
    all.set(path, { path, text: changeMarked(all.get(path) as SourceFile, mark, change) });
    changed.add(path);
  }
  return [...changed].map((path) => all.get(path) as SourceFile);
}

function onlyMark(files: Iterable<SourceFile>, name: string): Mark {
  const [mark, other] = [...files]
    .filter(({ text }) => text.includes(name))
    .flatMap(findMarks)
    .filter((one) => one.name === name);
  if (mark === undefined) throw new Error(`no code is marked ${name}`);
  if (other !== undefined) throw new Error(`${mark.path} and ${other.path} are both marked ${name}`);
  return mark;
}
