import { chmod, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Obtained } from './program-build.ts';
import type { Program } from './programs.ts';
import { runProgram } from './run-program.ts';

type UnpackOptions = {
  log: (line: string) => void;
  env: NodeJS.ProcessEnv;
  /** A folder that we own on the target's file system. */
  folder: string;
  target: string;
};

const APT_TIMEOUT_MS = 5 * 60_000;

/**
 * Extracts a program from the distribution's package, which apt verifies against the signed index. Nothing is installed, so
 * no daemon starts and no user is created, and any user may run it; only downloading a missing index requires root.
 */
export async function unpackDebianProgram(
  name: string,
  { package: wanted, member }: NonNullable<Program['debian']>,
  { log, env, folder, target }: UnpackOptions,
): Promise<Obtained> {
  const scratch = await mkdtemp(join(folder, `${name}-package-`));
  const run = (command: string, ...args: readonly string[]): Promise<string> =>
    runProgram(command, args, { cwd: scratch, env, timeoutMs: APT_TIMEOUT_MS });
  const download = (): Promise<string> => run('apt-get', 'download', wanted);
  try {
    log(`${name}: taking it out of the package ${wanted}`);
    await download().catch(async () => {
      await run('apt-get', 'update');
      await download();
    });
    const [archive] = (await readdir(scratch)).filter((file) => file.endsWith('.deb'));
    if (archive === undefined) throw new Error(`apt-get brought no package ${wanted}`);
    await run('dpkg-deb', '--extract', archive, 'unpacked');
    const unpacked = join(scratch, 'unpacked', member);
    await chmod(unpacked, 0o755);
    await rename(unpacked, target);
    return { kind: 'done', path: target };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    const reason = text.trimEnd().split('\n').at(-1) ?? text;
    log(`${name}: ${reason}`);
    return { kind: 'unavailable', reason };
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
