import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { userCache } from '../../deploy/servers/cache-folders.ts';
import { withFileLock } from '../../deploy/servers/file-lock.ts';
import { projectRoot, runCommand } from './command.ts';

/**
 * Installs the packages of a manifest of its own below `test/` into the user's cache, once for each lock file. Tools that a
 * fresh clone does not need at once are kept out of the project's own installation in this way, and out of its tree.
 * @param folder For example `test/linters`; holds `package.json` and `package-lock.json`.
 * @returns The folder of their programs.
 */
export async function installOwnPackages(folder: string): Promise<string> {
  const source = join(projectRoot, folder);
  const lock = await readFile(join(source, 'package-lock.json'));
  const name = `${folder.replaceAll('/', '-')}-${createHash('sha256').update(lock).digest('hex').slice(0, 16)}`;
  const cache = join(userCache(process.env), 'despatch', 'packages');
  const installed = join(cache, name);
  await mkdir(cache, { recursive: true });
  await withFileLock({ path: `${installed}.lock` }, async () => {
    if (await isThere(installed)) return;
    // Renamed when it is whole, so that a half of it is never taken for all.
    const partial = await mkdtemp(join(cache, 'partial-'));
    try {
      for (const file of ['package.json', 'package-lock.json']) {
        await copyFile(join(source, file), join(partial, file));
      }
      const npm = ['npm', 'ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
      const { code, output } = await runCommand(npm, 'gather', partial);
      if (code !== 0) throw new Error(`the packages of ${folder} could not be installed: ${output}`);
      await rename(partial, installed);
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  });
  return join(installed, 'node_modules', '.bin');
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
