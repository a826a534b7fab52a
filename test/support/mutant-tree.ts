import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from './command.ts';

/** A deliberate fault in the source: the proof that a test can fail. */
export type Mutant = {
  /** Says the fault in a few words, for example `202 before the commit`. */
  readonly name: string;
  /** Relative to the project's root. */
  readonly file: string;
  /** Text of the file that occurs exactly once. */
  readonly find: string;
  readonly replace: string;
};

export type MutantTree = AsyncDisposable & {
  /** A copy of the project; programs run in it as in the checkout, for example `vitest run` with this as `cwd`. */
  readonly root: string;
};

const COPIED = ['services', 'deploy', 'test', 'package.json', 'tsconfig.json'];

/**
 * Copies the project to a temporary folder, with the dependencies linked, and plants the faults. No mutant: a control.
 * @throws where `find` does not occur exactly once, because the source has moved on and the mutant proves nothing.
 */
export async function plantMutants(mutants: readonly Mutant[]): Promise<MutantTree> {
  const root = await mkdtemp(join(tmpdir(), 'despatch-mutant-'));
  const remove = (): Promise<void> => rm(root, { recursive: true, force: true });
  try {
    await Promise.all(
      COPIED.map((name) => cp(join(projectRoot, name), join(root, name), { recursive: true })),
    );
    await symlink(join(projectRoot, 'node_modules'), join(root, 'node_modules'), 'dir');
    for (const mutant of mutants) await plant(root, mutant);
  } catch (error) {
    await remove();
    throw error;
  }
  return { root, [Symbol.asyncDispose]: remove };
}

async function plant(root: string, { name, file, find, replace }: Mutant): Promise<void> {
  const path = join(root, file);
  const text = await readFile(path, 'utf8');
  const occurrences = text.split(find).length - 1;
  if (find === '' || occurrences !== 1) {
    throw new Error(`mutant "${name}": its text occurs ${occurrences} times in ${file}, not once`);
  }
  await writeFile(
    path,
    text.replace(find, () => replace),
  );
}
