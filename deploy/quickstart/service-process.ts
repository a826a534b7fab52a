import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startChild, untilReady, type Child } from '../servers/child.ts';

export type ServiceOptions = {
  readonly name: 'api' | 'worker';
  /** Root of the checkout. */
  readonly root: string;
  readonly logFolder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Reports whether the service is ready. */
  readonly readyUrl: string;
  /** Answers once the service listens, which is slightly later than it is ready. */
  readonly listenUrl?: string;
  /** Called with one line for each unexpected exit. */
  readonly note: (line: string) => void;
};

/** Our own environment variables that a service inherits. */
const INHERITED = [
  'PATH',
  'HOME',
  'TMPDIR',
  'LOG_LEVEL',
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'OTEL_TRACES_SAMPLE_RATIO',
];

const RESTART_MS_MIN = 500;
const RESTART_MS_MAX = 30_000;
/** A service that ran at least this long is restarted without a longer delay. */
const STEADY_MS = 60_000;
const STOP_MS_MAX = 40_000;

/**
 * Runs a service as in a deployment, as a separate process, and returns once it is ready. Restarts it whenever it exits, as
 * a cluster would, until it is disposed.
 */
export async function startService(options: ServiceOptions): Promise<AsyncDisposable> {
  const { name, logFolder, readyUrl, listenUrl } = options;
  const logFile = join(logFolder, `${name}.log`);
  await rm(logFile, { force: true });
  let child = await spawnService(options, logFile);
  await untilReady(child, { name, logFile, isReady: () => isReady(readyUrl, listenUrl), timeoutMs: 60_000 });

  const stopped = new AbortController();
  const supervise = async (): Promise<void> => {
    for (let waitMs = RESTART_MS_MIN; ; waitMs = Math.min(2 * waitMs, RESTART_MS_MAX)) {
      const since = performance.now();
      const ended = await child.exited;
      if (stopped.signal.aborted) return;
      if (performance.now() - since > STEADY_MS) waitMs = RESTART_MS_MIN;
      options.note(`The ${name} ended with ${ended}: starting it again in ${waitMs / 1_000} s (${logFile})`);
      await delay(waitMs, undefined, { signal: stopped.signal });
      child = await spawnService(options, logFile);
      if (stopped.signal.aborted) return child.stop('SIGTERM', STOP_MS_MAX);
    }
  };
  const supervision = supervise().catch((error: unknown) => {
    if (!stopped.signal.aborted) options.note(`The ${name} cannot be started again: ${String(error)}`);
  });
  return {
    async [Symbol.asyncDispose]() {
      stopped.abort();
      await child.stop('SIGTERM', STOP_MS_MAX);
      await supervision;
    },
  };
}

function spawnService({ name, root, environment }: ServiceOptions, logFile: string): Promise<Child> {
  const inherited = INHERITED.map((variable) => [variable, process.env[variable]] as const);
  return startChild({
    command: process.execPath,
    args: [join('services', name, 'main.ts')],
    cwd: root,
    logFile,
    env: { ...Object.fromEntries(inherited.filter(([, value]) => value !== undefined)), ...environment },
  });
}

async function isReady(readyUrl: string, listenUrl = readyUrl): Promise<boolean> {
  const ask = (url: string): Promise<Response> => fetch(url, { signal: AbortSignal.timeout(3_000) });
  return Promise.all([ask(readyUrl), ask(listenUrl)]).then(
    ([{ ok }]) => ok,
    () => false,
  );
}
