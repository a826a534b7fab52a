import { rename, rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Program } from './programs.ts';
import { runProgram } from './run-program.ts';

export type Obtained = { kind: 'done'; path: string } | { kind: 'unavailable'; reason: string };

type BuildOptions = { log: (line: string) => void; env: NodeJS.ProcessEnv; target: string };

const GO_MINOR_MIN = 26;
const BUILD_TIMEOUT_MS = 45 * 60_000;

/** Builds the program from its pinned module if a recent enough Go is installed. */
export async function buildProgram(program: Program, { log, env, target }: BuildOptions): Promise<Obtained> {
  const { source } = program;
  if (source === undefined) return { kind: 'unavailable', reason: 'no source is pinned' };
  const found = await goVersion(env);
  if (found === undefined) return { kind: 'unavailable', reason: 'Go is not installed' };
  if (found.minor < GO_MINOR_MIN)
    return { kind: 'unavailable', reason: `Go ${found.text} is older than 1.${GO_MINOR_MIN}` };

  const label = `${program.name} ${program.version}`;
  const started = Date.now();
  log(`${label}: building it from source, once; about ${source.duration} on two cores`);
  const ticker = setInterval(() => log(`${label}: still building after ${duration(started)}`), 60_000);
  // Written next to the target and renamed, so that an incomplete program is never found.
  const partial = `${target}.${process.pid}.partial`;
  try {
    await runProgram('go', buildArgs(source, partial), {
      cwd: fileURLToPath(new URL(`go/${source.module}`, import.meta.url)),
      env: {
        ...env,
        CGO_ENABLED: '0',
        GOFLAGS: '-mod=readonly -buildvcs=false',
        GOTOOLCHAIN: 'local',
        GOWORK: 'off',
      },
      timeoutMs: BUILD_TIMEOUT_MS,
    });
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true });
    const reason = `building it failed: ${lastLine(error)}`;
    log(`${label}: ${reason}`);
    return { kind: 'unavailable', reason };
  } finally {
    clearInterval(ticker);
  }
  log(`${label}: built in ${duration(started)}`);
  return { kind: 'done', path: target };
}

function buildArgs(source: NonNullable<Program['source']>, output: string): string[] {
  const { tags, ldflags, package: name } = source;
  return [
    'build',
    ...(tags === undefined ? [] : ['-tags', tags]),
    '-trimpath',
    '-ldflags',
    ldflags === undefined ? '-s -w' : `-s -w ${ldflags}`,
    '-o',
    output,
    name,
  ];
}

async function goVersion(env: NodeJS.ProcessEnv): Promise<{ text: string; minor: number } | undefined> {
  const text = await runProgram('go', ['env', 'GOVERSION'], { env: { ...env, GOTOOLCHAIN: 'local' } }).catch(
    () => '',
  );
  const minor = /^go1\.(\d+)/.exec(text)?.[1];
  return minor === undefined ? undefined : { text, minor: Number(minor) };
}

function duration(since: number): string {
  const seconds = Math.round((Date.now() - since) / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

function lastLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.trimEnd().split('\n').at(-1) ?? text;
}
