import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startChild, untilReady } from '../servers/child.ts';

export type ServiceProcess = AsyncDisposable & {
  readonly name: string;
  readonly logFile: string;
  /** Settles when the process has ended, with a short text such as `exit code 1`. */
  readonly exited: Promise<string>;
};

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

/** Runs a deployment as it runs anywhere, as a process of its own; returns once it is ready. */
export async function startService(options: ServiceOptions): Promise<ServiceProcess> {
  const { name, root, logFolder, environment, readyUrl, listenUrl } = options;
  const logFile = join(logFolder, `${name}.log`);
  await rm(logFile, { force: true });
  const inherited = INHERITED.map((variable) => [variable, process.env[variable]] as const);
  const child = await startChild({
    command: process.execPath,
    args: [join('services', name, 'main.ts')],
    cwd: root,
    logFile,
    env: { ...Object.fromEntries(inherited.filter(([, value]) => value !== undefined)), ...environment },
  });
  await untilReady(child, { name, logFile, isReady: () => isReady(readyUrl, listenUrl), timeoutMs: 60_000 });
  return {
    name,
    logFile,
    exited: child.exited,
    [Symbol.asyncDispose]: () => child.stop('SIGTERM', 40_000),
  };
}

async function isReady(readyUrl: string, listenUrl = readyUrl): Promise<boolean> {
  const ask = (url: string): Promise<Response> => fetch(url, { signal: AbortSignal.timeout(3_000) });
  return Promise.all([ask(readyUrl), ask(listenUrl)]).then(
    ([{ ok }]) => ok,
    () => false,
  );
}
