import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { clusterFolder } from '../../deploy/servers/cache-folders.ts';
import { projectRoot } from '../support/command.ts';
import { sum, type Tally } from '../support/tally.ts';

/** Numbers of the items that every test run includes where a cluster is available. */
const ITEMS = [1, 2, 3];

const PROGRAMS = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'kube-proxy',
  'kubectl',
  'coredns',
  'pause',
  'vault',
];

/** Starts the cluster, runs the items in it, and stops it if it was not running before. */
const SCRIPT = `
set -eu
variables=$("$1/env")
eval "$variables"
exec "$2" test/e2e/main.ts --items "$3" $4
`;

/** With more failed items than this, a busy machine is not the cause, and none is repeated. */
const REPEATED_MAX = 2;

/** Results of one run of items. */
export type ClusterRun = {
  /** Total of the run, including items that could not run or ended without a result. */
  readonly tally: Tally;
  /** Results by item number; empty where the run printed none. */
  readonly items: ReadonlyMap<number, Tally>;
};

/**
 * Runs the items in the cluster of `CLUSTER_TOOL`, where one is available without building it first; else counts them as skipped.
 */
export async function runClusterItems(
  env: NodeJS.ProcessEnv,
  items: readonly number[] = ITEMS,
): Promise<ClusterRun> {
  const tool = env['CLUSTER_TOOL'] || join(projectRoot, '../shared/cluster');
  const reason = await reasonToSkip(tool, env);
  if (reason !== undefined) {
    process.stdout.write(`skipped  end to end, items ${items.join()}: ${reason}\n`);
    return { tally: { passed: 0, failed: 0, skipped: items.length }, items: new Map() };
  }
  const wasUp = await isThere(join(env['CLUSTER_DIR'] || '/var/lib/bare-cluster', 'pids'));
  try {
    // A cluster that is stopped afterwards needs no cleanup, which would take half a minute.
    return await runItemsIn(tool, env, items, wasUp ? '' : '--leave');
  } finally {
    if (!wasUp) await end(spawn(join(tool, 'down'), { stdio: 'ignore' }));
  }
}

/**
 * Runs failed items once more, in a release of their own: beside the other tests, a machine may be too busy to serve without a
 * refusal. An item that passes then counts as passed and is listed at the end with its failure.
 * @param run runs items, as {@link runClusterItems} does.
 */
export async function repeatFailedItems(
  first: ClusterRun,
  run: (items: readonly number[]) => Promise<ClusterRun>,
): Promise<Tally> {
  const failed = [...first.items].filter(([, { failed }]) => failed > 0).map(([number]) => number);
  if (failed.length === 0 || failed.length > REPEATED_MAX) return first.tally;
  process.stdout.write(`\nend to end: items ${failed.join()} failed, and are run once more\n`);
  const again = await run(failed);
  const kept = [...first.items].filter(([number]) => !failed.includes(number)).map(([, tally]) => tally);
  const failures = failed.flatMap((number) => first.items.get(number)?.failures ?? []);
  const isWhole = failed.every((number) => again.items.has(number));
  const second = isWhole ? again.tally : { ...again.tally, failed: Math.max(1, again.tally.failed) };
  const unsteady = second.failed === 0 ? failures : [];
  return sum([...kept, { ...second, failures: isWhole ? (second.failures ?? []) : failures, unsteady }]);
}

async function reasonToSkip(tool: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  if (!(await isThere(join(tool, 'env')))) return `there is no cluster in ${tool} (CLUSTER_TOOL)`;
  if (process.getuid?.() !== 0) return 'a cluster needs root';
  const folder = clusterFolder(env);
  for (const name of PROGRAMS) {
    if (!(await isThere(join(folder, name))))
      return `the cluster's ${name} is not built; ${tool}/build builds it`;
  }
  return undefined;
}

async function runItemsIn(
  tool: string,
  env: NodeJS.ProcessEnv,
  items: readonly number[],
  leave: string,
): Promise<ClusterRun> {
  const args = ['-c', SCRIPT, 'end-to-end', tool, process.execPath, items.join(), leave];
  const child = spawn('bash', args, {
    cwd: projectRoot,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  // A prefix distinguishes these lines from those of other tests that run at the same time.
  const show = (line: string): void => void process.stdout.write(`end to end | ${line}\n`);
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    show(line);
  });
  createInterface({ input: child.stderr }).on('line', show);
  const abort = (): void => void child.kill('SIGTERM');
  process.once('SIGTERM', abort);
  await end(child);
  process.off('SIGTERM', abort);
  return readRun(lines.join('\n'));
}

/** Reads the counts from the closing line; a run without one has failed. */
export function readRun(output: string): ClusterRun {
  const [, passed, failed] =
    /^(\d+) passed, (\d+) failed$/m.exec(output.trimEnd().split('\n').at(-1) ?? '') ?? [];
  if (passed === undefined) {
    return { tally: { passed: 0, failed: 1, failures: ['end to end: no result'] }, items: new Map() };
  }
  const tally = { passed: Number(passed), failed: Number(failed), failures: failuresIn(output) };
  const parts = output.split(/^(\d+)\. .*$/m).slice(1);
  const items = new Map<number, Tally>();
  for (let i = 0; i < parts.length; i += 2) {
    const part = parts[i + 1] ?? '';
    const failures = failuresIn(part);
    const passedThere = [...part.matchAll(/^passed {2}/gm)].length;
    items.set(Number(parts[i]), { passed: passedThere, failed: failures.length, failures });
  }
  return { tally, items };
}

/** Returns each failure with the indented lines below it, which contain its reason. */
function failuresIn(output: string): string[] {
  return [...output.matchAll(/^FAILED {2}(.*(?:\n {8}.*)*)/gm)].map(([, lines]) => `end to end: ${lines}`);
}

async function end(child: ReturnType<typeof spawn>): Promise<void> {
  await once(child, 'close');
}

function isThere(path: string): Promise<boolean> {
  return access(path, constants.R_OK).then(
    () => true,
    () => false,
  );
}
