import { readFile } from 'node:fs/promises';
import { get } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
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
  /** Whether its readiness probe succeeds and its public port answers. */
  readonly isReady: () => Promise<boolean>;
  /** Describes why it is not ready: the answers of its ports, the number of crashes, and the last line of its log. */
  readonly condition: () => Promise<string>;
  readonly metrics: () => Promise<string>;
  /** How it ended each time without being told to. */
  readonly crashes: readonly string[];
  /** Ends it without a restart, and returns how it ended. */
  readonly end: () => Promise<string>;
};

const RESTART_MS = 200;
const END_MS_MAX = 40_000;
/** A request of the load may take as long. */
const PROBE_MS_MAX = 10_000;
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
  let probing: Promise<boolean> | undefined;

  async function start(): Promise<void> {
    isExpected = false;
    child = await spawnService({ kind, logFile, environment });
    void child.exited.then(async (how) => {
      if (!isExpected && !isEnding) crashes.push(`${how}: ${await lastLine(logFile)}`);
      if (!isEnding) restarting = setTimeout(() => void start(), RESTART_MS);
    });
  }

  const probes = [`${metricsOrigin}/readyz`, `${origin}/healthz`] as const;
  const probeOnce = async (): Promise<boolean> => {
    const [readyz, healthz] = await Promise.all(probes.map(probe));
    return readyz?.status === 200 && healthz?.status !== null;
  };

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
    // Several faults wait for the same process; they share its probes, which would burden a slow one.
    isReady: () => (probing ??= probeOnce().finally(() => (probing = undefined))),
    async condition() {
      const answers = await Promise.all(probes.map(probe));
      const ended = child.endedWith() ?? 'runs';
      const described = answers.map(({ description }) => description).join(', ');
      return `${ended}, ${described}, ${crashes.length} crashes; ${await lastLine(logFile)}`;
    },
    metrics: async () =>
      (await fetch(`${metricsOrigin}/metrics`, { signal: AbortSignal.timeout(2_000) })).text(),
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

type Probed = {
  /** Null where there was no answer in time. */
  readonly status: number | null;
  readonly description: string;
};

/** Asks on a connection of its own, as a kubelet does, so that no earlier connection affects the answer. */
async function probe(url: string): Promise<Probed> {
  const begunAt = performance.now();
  const described = (answer: string): string =>
    `${new URL(url).pathname} ${answer} after ${Math.round(performance.now() - begunAt)} ms`;
  try {
    const { status, body } = await ask(url);
    return { status, description: described(`${status} ${body}`) };
  } catch (error) {
    return { status: null, description: described(`no answer (${String(error)})`) };
  }
}

function ask(url: string): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false, signal: AbortSignal.timeout(PROBE_MS_MAX) }, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject);
    }).once('error', reject);
  });
}

async function lastLine(path: string): Promise<string> {
  const lines = await readFile(path, 'utf8').catch(() => '');
  return lines.trimEnd().split('\n').at(-1)?.slice(0, 300) ?? '';
}
