import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { clusterFolder } from '../../deploy/servers/cache-folders.ts';
import { projectRoot } from '../support/command.ts';
import type { Tally } from '../support/tally.ts';

/** The part of the end-to-end test that belongs to every test run where there is a cluster. */
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

/** Starts the cluster, has the items run in it, and stops it where it was not running before. */
const SCRIPT = `
set -eu
variables=$("$1/env")
eval "$variables"
exec "$2" test/e2e/main.ts --items "$3" $4
`;

/**
 * Runs the items in the cluster of `CLUSTER_TOOL`, where that can be had without building it first; else counts them as
 * skipped.
 */
export async function runClusterItems(env: NodeJS.ProcessEnv): Promise<Tally> {
  const tool = env['CLUSTER_TOOL'] || join(projectRoot, '../shared/cluster');
  const reason = await reasonToSkip(tool, env);
  if (reason !== undefined) {
    process.stdout.write(`skipped  end to end, items ${ITEMS.join()}: ${reason}\n`);
    return { passed: 0, failed: 0, skipped: ITEMS.length };
  }
  const wasUp = await isThere(join(env['CLUSTER_DIR'] || '/var/lib/bare-cluster', 'pids'));
  try {
    // To remove all that is in a cluster that is stopped afterwards would be half a minute for nothing.
    return await runItemsIn(tool, env, wasUp ? '' : '--leave');
  } finally {
    if (!wasUp) await end(spawn(join(tool, 'down'), { stdio: 'ignore' }));
  }
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

async function runItemsIn(tool: string, env: NodeJS.ProcessEnv, leave: string): Promise<Tally> {
  const args = ['-c', SCRIPT, 'end-to-end', tool, process.execPath, ITEMS.join(), leave];
  const child = spawn('bash', args, {
    cwd: projectRoot,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  // Other tests write at the same time.
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
  return tallyOf(lines.join('\n'));
}

/** What the closing line says; a run without one has failed. */
export function tallyOf(output: string): Tally {
  const [, passed, failed] =
    /^(\d+) passed, (\d+) failed$/m.exec(output.trimEnd().split('\n').at(-1) ?? '') ?? [];
  if (passed === undefined) return { passed: 0, failed: 1 };
  return { passed: Number(passed), failed: Number(failed) };
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
