import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { userCache } from '../../deploy/servers/cache-folders.ts';
import { withFileLock } from '../../deploy/servers/file-lock.ts';

/**
 * Returns a folder in the user's cache that is filled once for each `version`, by the first process that needs it.
 * @param name names its content. @param version everything that its content depends on.
 * @param fill puts the content into an empty folder; the folder is removed if it throws.
 */
export async function cachedFolder(
  name: string,
  version: string | Uint8Array,
  fill: (folder: string) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256').update(version).digest('hex').slice(0, 16);
  const cache = join(userCache(process.env), 'despatch', 'packages');
  const path = join(cache, `${name}-${hash}`);
  await mkdir(cache, { recursive: true });
  await withFileLock({ path: `${path}.lock` }, async () => {
    if (await isThere(path)) return;
    // The complete folder is renamed, so that no process uses a partial one.
    const partial = await mkdtemp(join(cache, 'partial-'));
    try {
      await fill(partial);
      await rename(partial, path);
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  });
  return path;
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
