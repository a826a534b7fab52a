import { copyFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cachedFolder } from './cached-folder.ts';
import { projectRoot, runCommand } from './command.ts';

/**
 * Installs the packages of a separate manifest below `test/` into the user's cache, once for each lock file. This keeps tools
 * that a fresh clone does not need at once out of the project's own installation and dependency tree.
 * @param folder for example `test/linters`; contains `package.json` and `package-lock.json`.
 * @returns the folder of their programs.
 */
export async function installOwnPackages(folder: string): Promise<string> {
  const source = join(projectRoot, folder);
  const lock = await readFile(join(source, 'package-lock.json'));
  const installed = await cachedFolder(folder.replaceAll('/', '-'), lock, async (partial) => {
    for (const file of ['package.json', 'package-lock.json']) {
      await copyFile(join(source, file), join(partial, file));
    }
    const npm = [
      'npm',
      'ci',
      '--ignore-scripts',
      '--prefer-offline',
      '--no-audit',
      '--no-fund',
      '--fetch-timeout=60000',
    ];
    const { code, output } = await runCommand(npm, 'gather', partial);
    if (code !== 0) throw new Error(`the packages of ${folder} could not be installed: ${output}`);
  });
  return join(installed, 'node_modules', '.bin');
}
