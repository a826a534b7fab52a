import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Kubectl, KubeObject } from './kubectl.ts';

const LOUD_MAX = 12;

/** Writes the state of the namespaces and all logs of their pods into a folder, and returns the notable lines. */
export async function diagnose(
  kubectl: Kubectl,
  namespaces: readonly string[],
  folder: string,
): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true });
  const save = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
  const show = async (name: string, ...args: string[]): Promise<string> => {
    const { stdout, stderr } = await kubectl.try(args);
    await save(`${name}.txt`, stdout + stderr);
    return stdout;
  };
  const loud: string[] = [`all of it: ${folder}`];
  await show('plans', 'get', 'plans.despatch.dev', '-o', 'yaml');
  for (const namespace of namespaces) {
    const here = ['--namespace', namespace];
    await show(`${namespace}-objects`, 'get', 'all,leases,jobs,pdb,cm', ...here, '-o', 'wide');
    await show(`${namespace}-tenants`, 'get', 'tenants.despatch.dev', ...here, '-o', 'yaml');
    await show(`${namespace}-pods`, 'describe', 'pods', ...here);
    const events = await show(
      `${namespace}-events`,
      'get',
      'events',
      '--sort-by=.lastTimestamp',
      '--field-selector=type=Warning',
      ...here,
    );
    loud.push(...events.split('\n').slice(1).filter(Boolean).slice(-4));
    const pods = await kubectl.list('pods', ...here).catch((): KubeObject[] => []);
    for (const pod of pods) loud.push(...(await savePod(kubectl, pod, save)));
  }
  return loud.slice(0, LOUD_MAX * 3);
}

type Container = { readonly name: string };
type ContainerStatus = { readonly name: string; readonly restartCount: number; readonly ready: boolean };

async function savePod(
  kubectl: Kubectl,
  { metadata: { name, namespace = '' }, spec, status }: KubeObject,
  save: (name: string, text: string) => Promise<void>,
): Promise<string[]> {
  const loud: string[] = [];
  const containers = [...((spec.initContainers ?? []) as Container[]), ...(spec.containers as Container[])];
  const states = (status?.containerStatuses ?? []) as ContainerStatus[];
  for (const container of containers) {
    const args = ['logs', name, '--namespace', namespace, '--container', container.name];
    const { stdout } = await kubectl.try(args);
    await save(`${namespace}-${name}-${container.name}.log`, stdout);
    const state = states.find((one) => one.name === container.name);
    if ((state?.restartCount ?? 0) > 0) {
      const { stdout: before } = await kubectl.try([...args, '--previous']);
      await save(`${namespace}-${name}-${container.name}-previous.log`, before);
      loud.push(`${name}: restarted ${state?.restartCount} times`, ...lastErrors(before));
    }
    if (status?.phase !== 'Succeeded' && state?.ready !== true) {
      loud.push(`${name}: not ready (${status?.phase})`, ...lastErrors(stdout));
    }
  }
  return loud;
}

/** Returns the last lines that are not ordinary log lines, or report errors. */
function lastErrors(log: string): string[] {
  const lines = log.split('\n').filter((line) => line !== '' && !/"level":"(debug|info)"/.test(line));
  return lines.slice(-3).map((line) => `  ${line.slice(0, 300)}`);
}
