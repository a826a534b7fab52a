import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from './command.ts';
import { plantChanges, readSources, type Changes } from './mutant.ts';

export type MutantTree = AsyncDisposable & {
  /** Path of a copy of the project; programs run in it as in the checkout, for example `vitest run` with this as `cwd`. */
  readonly root: string;
};

const COPIED = ['services', 'deploy', 'test', 'package.json', 'tsconfig.json'];

/**
 * Copies the project to a temporary folder, links the dependencies, and applies the mutants. Without a mutant it is a control.
 * @throws where a mutant does not find the code that it changes, because it would prove nothing.
 */
export async function plantMutants(mutants: readonly { readonly changes: Changes }[]): Promise<MutantTree> {
  const root = await mkdtemp(join(tmpdir(), 'despatch-mutant-'));
  const remove = (): Promise<void> => rm(root, { recursive: true, force: true });
  try {
    await Promise.all(
      COPIED.map((name) => cp(join(projectRoot, name), join(root, name), { recursive: true })),
    );
    await symlink(join(projectRoot, 'node_modules'), join(root, 'node_modules'), 'dir');
    const sources = await readSources();
    for (const { path, text } of plantChanges(sources, mutants)) await writeFile(join(root, path), text);
  } catch (error) {
    await remove();
    throw error;
  }
  return { root, [Symbol.asyncDispose]: remove };
}
