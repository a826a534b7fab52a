import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { withFileLock } from '../../deploy/servers/file-lock.ts';
import { projectRoot, runCommand } from './command.ts';

/**
 * Installs the packages of a manifest of its own below `test/`, unless they are there as its lock file names them. Tools
 * that a fresh clone does not need at once are kept out of the project's own installation in this way.
 * @returns The folder of their programs.
 */
export async function installOwnPackages(folder: string): Promise<string> {
  const root = join(projectRoot, folder);
  const stamp = join(root, 'node_modules', '.installed');
  const wanted = createHash('sha256')
    .update(await readFile(join(root, 'package-lock.json')))
    .digest('hex');
  const isInstalled = async (): Promise<boolean> =>
    (await readFile(stamp, 'utf8').catch(() => '')) === wanted;
  if (!(await isInstalled())) {
    await withFileLock({ path: join(root, '.installing.lock') }, async () => {
      if (await isInstalled()) return;
      const { code, output } = await runCommand(
        ['npm', 'ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'],
        'gather',
        root,
      );
      if (code !== 0) throw new Error(`the packages of ${folder} could not be installed: ${output}`);
      await writeFile(stamp, wanted);
    });
  }
  return join(root, 'node_modules', '.bin');
}
