import { homedir } from 'node:os';
import { join } from 'node:path';

/** Returns the user's cache folder (XDG Base Directory Specification). */
export function userCache(env: NodeJS.ProcessEnv): string {
  return env['XDG_CACHE_HOME'] || join(env['HOME'] || homedir(), '.cache');
}

/**
 * Returns the program folder of the tool that runs the end-to-end tests' cluster, so that programs it built are not built
 * again.
 */
export function clusterFolder(env: NodeJS.ProcessEnv): string {
  return env['CLUSTER_BIN'] || join(userCache(env), 'bare-cluster', 'bin');
}
