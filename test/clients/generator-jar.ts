import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { userCache } from '../../deploy/servers/cache-folders.ts';
import { withFileLock } from '../../deploy/servers/file-lock.ts';

const VERSION = '7.25.0';
const SHA256 = '41ce4f6b07f196676439d710759fa1ced7a08066d06ff1bf314681470289efae';
const REPOSITORY = 'https://repo1.maven.org/maven2';
const DOWNLOAD_TIMEOUT_MS = 5 * 60_000;

/**
 * Returns the path of openapi-generator from Maven Central, which is downloaded once into the user's cache.
 * @returns the path for `java -jar`.
 */
export async function obtainGeneratorJar(env: NodeJS.ProcessEnv): Promise<string> {
  const folder = join(userCache(env), 'despatch', 'clients');
  const path = join(folder, `openapi-generator-cli-${VERSION}.jar`);
  await mkdir(folder, { recursive: true });
  await withFileLock({ path: `${path}.lock` }, async () => {
    const cached = await readFile(path).catch(() => undefined);
    if (cached !== undefined && isPinned(cached)) return;
    const url = `${REPOSITORY}/org/openapitools/openapi-generator-cli/${VERSION}/openapi-generator-cli-${VERSION}.jar`;
    const response = await fetch(url, { signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS) });
    if (!response.ok) throw new Error(`${url} answered ${response.status}`);
    const bytes = Buffer.from(await response.arrayBuffer());
    if (!isPinned(bytes)) throw new Error(`${url} has another SHA-256 than the pinned ${SHA256}`);
    await writeFile(`${path}.partial`, bytes);
    await rename(`${path}.partial`, path);
  });
  return path;
}

function isPinned(bytes: Buffer): boolean {
  return createHash('sha256').update(bytes).digest('hex') === SHA256;
}
