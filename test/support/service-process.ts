import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { EXPOSITION_KEPT_MS } from '#core/platform/process/health.ts';
import { startChild, untilReady, type Child } from '../../deploy/servers/child.ts';
import { projectRoot } from './command.ts';

export type Environment = Readonly<Record<string, string>>;

export type ServiceProcess = AsyncDisposable & {
  readonly name: string;
  /** Origin of the api; for the others the same as `metricsOrigin`. */
  readonly origin: string;
  readonly metricsOrigin: string;
  /** Starts it again after its end; returns once it is ready. */
  readonly start: () => Promise<void>;
  readonly kill: () => Promise<void>;
  /** Sends a signal that does not end the process, such as `SIGSTOP`. */
  readonly signal: (signal: NodeJS.Signals) => void;
  /** Sends SIGTERM and returns how the process ended, for example `exit code 0`. */
  readonly end: () => Promise<string>;
  /** Returns everything that it has written. */
  readonly log: () => Promise<string>;
  /** Returns the metrics of a moment after the call. */
  readonly metrics: () => Promise<string>;
  readonly readiness: () => Promise<{ readonly status: number; readonly failing: readonly string[] }>;
};

/** One process of a deployment, and its addresses. */
export type ServiceOptions = {
  readonly kind: 'api' | 'worker' | 'controller';
  readonly name: string;
  readonly folder: string;
  readonly origin: string;
  readonly metricsOrigin: string;
  readonly environment: Environment;
};

export type ServiceProcessOptions = ServiceOptions & {
  /** The readiness status to wait for. Default 200. */
  readonly until?: number;
};

const END_MS_MAX = 40_000;

/** Starts a service as it is deployed: a separate process that tests observe only from outside. */
export async function startServiceProcess(options: ServiceProcessOptions): Promise<ServiceProcess> {
  const { kind, name, folder, origin, metricsOrigin, environment, until = 200 } = options;
  const logFile = join(folder, `${name}.log`);
  let child: Child | undefined;

  const readiness: ServiceProcess['readiness'] = async () => {
    const answer = await fetch(`${metricsOrigin}/readyz`, { signal: AbortSignal.timeout(5_000) });
    const { failing = [] } = (await answer.json()) as { failing?: string[] };
    return { status: answer.status, failing };
  };
  const isThere = (): Promise<boolean> =>
    Promise.all([readiness(), fetch(origin)]).then(
      ([{ status }]) => status === until,
      () => false,
    );
  const start: ServiceProcess['start'] = async () => {
    if (child !== undefined && child.endedWith() === undefined) return;
    child = await spawnService({ kind, logFile, environment });
    await untilReady(child, { name, logFile, isReady: isThere });
  };
  await start();

  return {
    name,
    origin,
    metricsOrigin,
    start,
    kill: async () => child?.stop('SIGKILL'),
    signal: (signal) => void (child && process.kill(child.pid, signal)),
    async end() {
      await child?.stop('SIGTERM', END_MS_MAX);
      return child?.endedWith() ?? 'never started';
    },
    log: () => readFile(logFile, 'utf8'),
    async metrics() {
      // By then an exposition that was made before the call is no longer served.
      await setTimeout(EXPOSITION_KEPT_MS);
      return (await fetch(`${metricsOrigin}/metrics`)).text();
    },
    readiness,
    [Symbol.asyncDispose]: async () => child?.stop('SIGKILL'),
  };
}

/** Starts the program without waiting for it. */
export function spawnService({
  kind,
  logFile,
  environment,
}: Pick<ServiceOptions, 'kind' | 'environment'> & { readonly logFile: string }): Promise<Child> {
  return startChild({
    command: process.execPath,
    args: [join('services', kind, 'main.ts')],
    cwd: projectRoot,
    logFile,
    env: { ...inherited(), ...environment },
  });
}

/** Keeps the compile cache of the test run, where it has one, for the next process. */
function inherited(): NodeJS.ProcessEnv {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { PATH, ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }) };
}

/** Runs a program that ends by itself, and collects its output. */
export async function runService(
  kind: 'api' | 'worker' | 'controller' | 'migrate',
  environment: Environment,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(process.execPath, [join('services', kind, 'main.ts')], {
    cwd: projectRoot,
    env: { ...inherited(), ...environment },
    // A program that does not end is a failure and must not block the test.
    timeout: 45_000,
    killSignal: 'SIGKILL',
  });
  const chunks: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => void chunks.push(chunk));
  }
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output: Buffer.concat(chunks).toString() };
}
