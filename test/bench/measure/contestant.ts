import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { startChild, untilReady } from '../../../deploy/servers/child.ts';
import { freePort } from '../../../deploy/servers/ports.ts';
import { projectRoot } from '../../support/command.ts';

export type Contestant = AsyncDisposable & {
  readonly pid: number;
  /** The port that serves requests; meaningless for a worker. */
  readonly port: number;
  /** Where one of the project's services serves health and metrics; no other contestant listens there. */
  readonly metricsPort: number;
};

export type ContestantOptions = {
  readonly name: string;
  /** Path from the project's root. */
  readonly script: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Arguments of Node itself. */
  readonly nodeArguments?: readonly string[];
  readonly logFolder: string;
  readonly profileFolder?: string | undefined;
};

/** Starts a server program in a process of its own; returns once it is ready. */
export async function startContestant(options: ContestantOptions): Promise<Contestant> {
  const { name, script, environment, nodeArguments = [], logFolder, profileFolder } = options;
  const [port, metricsPort] = [await freePort(), await freePort()];
  if (profileFolder !== undefined) await mkdir(profileFolder, { recursive: true });
  const logFile = join(logFolder, `${name}.log`);
  const profiling = profileFolder === undefined ? [] : profileArguments(name, profileFolder);
  const child = await startChild({
    command: process.execPath,
    args: [...profiling, ...nodeArguments, script],
    cwd: projectRoot,
    logFile,
    env: {
      PATH: process.env['PATH'],
      HOME: process.env['HOME'],
      LOG_LEVEL: 'warn',
      HOST: '127.0.0.1',
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      ...environment,
    },
  });
  // Only the project's services have a separate health port.
  const urls = [metricsPort, port].map((one) => `http://127.0.0.1:${one}/readyz`);
  const isReady = async (): Promise<boolean> => (await Promise.all(urls.map(answers))).includes(true);
  await untilReady(child, { name, logFile, isReady });
  return { pid: child.pid, port, metricsPort, [Symbol.asyncDispose]: () => child.stop('SIGTERM', 30_000) };
}

function profileArguments(name: string, folder: string): string[] {
  return ['--cpu-prof', `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${name}-${Date.now()}.cpuprofile`];
}

function answers(url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(2_000) }).then(
    ({ ok }) => ok,
    () => false,
  );
}
