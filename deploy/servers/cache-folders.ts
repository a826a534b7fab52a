import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where the user's programs keep what they can fetch again (XDG Base Directory Specification). */
export function userCache(env: NodeJS.ProcessEnv): string {
  return env['XDG_CACHE_HOME'] || join(env['HOME'] || homedir(), '.cache');
}

/** Where the tool that runs the end-to-end tests' cluster keeps its programs: what it has built is not built again. */
export function clusterFolder(env: NodeJS.ProcessEnv): string {
  return env['CLUSTER_BIN'] || join(userCache(env), 'bare-cluster', 'bin');
}
