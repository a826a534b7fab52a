import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { startChild, untilReady } from '../../deploy/servers/child.ts';
import { freePort } from '../../deploy/servers/ports.ts';
import { serverFolder } from '../../deploy/servers/server-folder.ts';
import { projectRoot } from './command.ts';

export type Target = {
  /** Value of the label `job`. */
  readonly job: string;
  /** Origin of the process that serves `/metrics`. */
  readonly origin: string;
};

export type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };

export type Prometheus = AsyncDisposable & {
  /** Returns the current values of a query. @throws with Prometheus' own text when it refuses the query. */
  readonly query: (expression: string) => Promise<Sample[]>;
  /** Returns the values of a label over all series that a selector matches. */
  readonly labelValues: (selector: string, label: string) => Promise<string[]>;
  /** Returns every rule with its error; an empty text where it has none. */
  readonly rules: () => Promise<{ readonly name: string; readonly fault: string }[]>;
};

export type PrometheusOptions = {
  readonly program: string;
  readonly targets: readonly Target[];
  /** Value of the label `namespace` of all targets, as an operator in a cluster would set it. */
  readonly namespace: string;
  /** Folder of rule files, relative to the project's root. */
  readonly ruleFolder: string;
};

/** Starts a Prometheus on loopback that scrapes, and evaluates the rules, every second. */
export async function startPrometheus(options: PrometheusOptions): Promise<Prometheus> {
  const { program, targets, namespace, ruleFolder } = options;
  await using stack = new AsyncDisposableStack();
  const folder = await serverFolder('prometheus');
  stack.defer(() => folder.remove());
  const rules = join(folder.path, 'rules');
  await copyRules(join(projectRoot, ruleFolder), rules);
  const configFile = join(folder.path, 'prometheus.yaml');
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: [join(rules, '*.yaml')],
    scrape_configs: Object.entries(Object.groupBy(targets, ({ job }) => job)).map(([job, of = []]) => ({
      job_name: job,
      static_configs: [{ targets: of.map(({ origin }) => new URL(origin).host), labels: { namespace } }],
    })),
  };
  await writeFile(configFile, stringify(config));
  const origin = `http://127.0.0.1:${await freePort()}`;
  const logFile = join(folder.path, 'server.log');
  const child = await startChild({
    command: program,
    args: [
      `--config.file=${configFile}`,
      `--storage.tsdb.path=${join(folder.path, 'data')}`,
      `--web.listen-address=${new URL(origin).host}`,
      '--log.level=warn',
    ],
    cwd: folder.path,
    logFile,
    env: { PATH: process.env['PATH'] },
  });
  stack.defer(() => child.stop('SIGKILL'));
  const isReady = (): Promise<boolean> =>
    fetch(`${origin}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  await untilReady(child, { name: 'prometheus', logFile, isReady });

  const ask = async (path: string, parameters: Readonly<Record<string, string>> = {}): Promise<unknown> => {
    const answer = await fetch(`${origin}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`);
    const body = (await answer.json()) as { status: string; data: unknown; error?: string };
    if (body.status !== 'success') throw new Error(`${body.error}: ${JSON.stringify(parameters)}`);
    return body.data;
  };
  const owned = stack.move();
  return {
    async query(expression) {
      type Vector = { result: { metric: Record<string, string>; value: [number, string] }[] };
      const { result } = (await ask('query', { query: expression })) as Vector;
      return result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
    },
    labelValues: async (selector, label) =>
      (await ask(`label/${label}/values`, { 'match[]': selector })) as string[],
    async rules() {
      type Groups = { groups: { rules: { name: string; health: string; lastError?: string }[] }[] };
      const { groups } = (await ask('rules')) as Groups;
      return groups.flatMap(({ rules: of }) =>
        of.map(({ name, health, lastError = '' }) => ({
          name,
          fault: health === 'ok' ? '' : `${health} ${lastError}`,
        })),
      );
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Shortens the intervals: a test would have to wait minutes for groups that are evaluated every few minutes. */
async function copyRules(from: string, to: string): Promise<void> {
  await mkdir(to);
  for (const file of await readdir(from)) {
    const text = await readFile(join(from, file), 'utf8');
    await writeFile(join(to, file), text.replace(/^ {4}interval: .*\n/gm, ''));
  }
}
