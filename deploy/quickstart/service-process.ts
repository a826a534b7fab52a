import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startChild, untilReady, type Child } from '../servers/child.ts';

export type ServiceOptions = {
  readonly name: 'api' | 'worker';
  /** The checkout. */
  readonly root: string;
  readonly logFolder: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Says whether the service is ready. */
  readonly readyUrl: string;
  /** Answers something once the service listens, which is a moment after it is ready to. */
  readonly listenUrl?: string;
  /** Told in one line of each end that nobody asked for. */
  readonly note: (line: string) => void;
};

/** Variables of ours that a service gets too. */
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
/** Who has run for so long is started again without a longer wait. */
const STEADY_MS = 60_000;
const STOP_MS_MAX = 40_000;

/**
 * Runs a deployment as it runs anywhere, as a process of its own; returns once it is ready. From then on it is started
 * again whenever it ends, as a cluster would do it, until it is disposed of.
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
