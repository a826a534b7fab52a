import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Child } from '../../deploy/servers/child.ts';
import { spawnService, type ServiceOptions } from '../support/service-process.ts';

/** A service that is restarted whenever it ends, as Kubernetes does. */
export type SupervisedService = AsyncDisposable & {
  readonly kind: 'api' | 'worker';
  readonly name: string;
  readonly origin: string;
  readonly metricsOrigin: string;
  readonly logFile: string;
  readonly signal: (signal: NodeJS.Signals) => void;
  /** Whether its readiness probe succeeds. */
  readonly isReady: () => Promise<boolean>;
  /** Describes why it is not ready: the answer of its probe, the number of crashes, and the last line of its log. */
  readonly condition: () => Promise<string>;
  readonly metrics: () => Promise<string>;
  /** How it ended each time without being told to. */
  readonly crashes: readonly string[];
  /** Ends it without a restart, and returns how it ended. */
  readonly end: () => Promise<string>;
};

const RESTART_MS = 200;
const END_MS_MAX = 40_000;
const DEADLY: ReadonlySet<NodeJS.Signals> = new Set(['SIGKILL', 'SIGTERM']);

export async function superviseService(
  options: ServiceOptions & Pick<SupervisedService, 'kind'>,
): Promise<SupervisedService> {
  const { kind, name, folder, origin, metricsOrigin, environment } = options;
  const logFile = join(folder, `${name}.log`);
  const crashes: string[] = [];
  let child: Child;
  let isEnding = false;
  let isExpected = false;
  let restarting: NodeJS.Timeout | undefined;

  async function start(): Promise<void> {
    isExpected = false;
    child = await spawnService({ kind, logFile, environment });
    void child.exited.then(async (how) => {
      if (!isExpected && !isEnding) crashes.push(`${how}: ${await lastLine(logFile)}`);
      if (!isEnding) restarting = setTimeout(() => void start(), RESTART_MS);
    });
  }

  await start();
  return {
    kind,
    name,
    origin,
    metricsOrigin,
    logFile,
    crashes,
    signal(signal) {
      if (DEADLY.has(signal)) isExpected = true;
      if (child.endedWith() === undefined) process.kill(child.pid, signal);
    },
    isReady: () =>
      Promise.all([fetchSoon(`${metricsOrigin}/readyz`), fetchSoon(`${origin}/healthz`)]).then(
        ([{ ok }]) => ok,
        () => false,
      ),
    async condition() {
      const answer = await fetchSoon(`${metricsOrigin}/readyz`).then(
        async (response) => `readyz ${response.status} ${await response.text()}`,
        (error: unknown) => `no answer (${error instanceof Error ? error.message : String(error)})`,
      );
      const ended = child.endedWith() ?? 'runs';
      return `${ended}, ${answer}, ${crashes.length} crashes; ${await lastLine(logFile)}`;
    },
    metrics: async () => (await fetchSoon(`${metricsOrigin}/metrics`)).text(),
    async end() {
      isEnding = true;
      clearTimeout(restarting);
      await child.stop('SIGTERM', END_MS_MAX);
      return child.endedWith() ?? 'never started';
    },
    async [Symbol.asyncDispose]() {
      isEnding = true;
      clearTimeout(restarting);
      await child.stop('SIGKILL');
    },
  };
}

function fetchSoon(url: string): Promise<Response> {
  return fetch(url, { signal: AbortSignal.timeout(2_000) });
}

async function lastLine(path: string): Promise<string> {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text.trimEnd().split('\n').at(-1)?.slice(0, 300) ?? '';
}
