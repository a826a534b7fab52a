import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cachedFolder } from './cached-folder.ts';
import { projectRoot, runCommand } from './command.ts';

const PIP = ['python3', '-m', 'pip', '--disable-pip-version-check'] as const;
const INSTALL = ['install', '--quiet', '--no-input', '--no-deps', '--only-binary', ':all:'] as const;

/**
 * Installs the packages of a requirements file into the user's cache, once for each such file and Python.
 * @param requirements for example `test/clients/requirements.txt`: every package with its version, including dependencies.
 * @returns the value for `PYTHONPATH`; null where there is no Python 3 with pip.
 */
export async function installPythonPackages(requirements: string): Promise<string | null> {
  // Contains the Python version too: a wheel with compiled parts works with one version only.
  const pip = await runCommand([...PIP, '--version'], 'gather').catch(() => null);
  if (pip === null || pip.code !== 0) return null;
  const path = join(projectRoot, requirements);
  const version = `${pip.output}\n${await readFile(path, 'utf8')}`;
  return cachedFolder(`${dirname(requirements).replaceAll('/', '-')}-python`, version, async (partial) => {
    const install = [...PIP, ...INSTALL, '--target', partial, '--requirement', path];
    const { code, output } = await runCommand(install, 'gather');
    if (code !== 0) throw new Error(`the packages of ${requirements} could not be installed: ${output}`);
  });
}
