import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { findProgram } from '../../deploy/servers/program.ts';
import { runProgram } from '../../deploy/servers/run-program.ts';
import { projectRoot } from './command.ts';
import type { KubeObject } from './kube-connection.ts';

export const CHART = join(projectRoot, 'charts/despatch');

/** An object that the chart renders. */
export type ChartObject = KubeObject & {
  // oxlint-disable-next-line typescript/no-explicit-any -- a manifest is what a test expects it to be
  readonly spec: any;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
};

export type RenderOptions = {
  /** Name of a file in `ci/` without `-values.yaml`, or the path of another file. Default `minimal`; `null` for none. */
  readonly values?: string | null;
  /** Values that override those of the file. */
  readonly set?: object;
  /** Default `despatch`. */
  readonly release?: string;
  /** Default `despatch`. */
  readonly namespace?: string;
  /** Kinds that the cluster supports, as `group/version/Kind`. */
  readonly apiVersions?: readonly string[];
};

/** Returns the names of the files in `ci/`. */
export function ciValues(): string[] {
  return readdirSync(join(CHART, 'ci')).map((file) => file.replace(/-values\.yaml$/, ''));
}

const rendered = new Map<string, Promise<ChartObject[]>>();

/** Renders the chart; the result for the same values is cached. @throws with Helm's text when it refuses the values. */
export function renderChart(options: RenderOptions = {}): Promise<ChartObject[]> {
  const key = JSON.stringify(options);
  const known = rendered.get(key) ?? render(options);
  rendered.set(key, known);
  return known;
}

async function render(options: RenderOptions): Promise<ChartObject[]> {
  const text = await helm(['template', ...installArgs(options)]);
  // Parses the YAML as clients of the API server do.
  return parseAllDocuments(text, { version: '1.1' }).flatMap((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    const object = document.toJS() as ChartObject | null;
    return object === null ? [] : [object];
  });
}

/** Returns the text that Helm prints after an installation. */
export async function renderNotes(options: RenderOptions = {}): Promise<string> {
  const output = await helm(['install', ...installArgs(options), '--dry-run=client']);
  return output.slice(output.indexOf('NOTES:'));
}

/** Returns Helm's text when it refuses the values; an empty text when it accepts them. */
export async function refusal(options: RenderOptions = {}): Promise<string> {
  return renderChart(options).then(
    () => '',
    (error: Error) => error.message,
  );
}

/** Runs Helm without the user's own settings and clusters. `kubeconfig` names the cluster that it may access. */
export async function helm(args: readonly string[], kubeconfig = '/dev/null'): Promise<string> {
  const command = await findProgram('helm');
  return runProgram(command, args, {
    cwd: projectRoot,
    env: {
      PATH: process.env['PATH'],
      HOME: '/nonexistent',
      HELM_CACHE_HOME: tmpdir(),
      KUBECONFIG: kubeconfig,
    },
  });
}

/** Returns the only object of this kind and name. */
export function pick(objects: readonly ChartObject[], kind: string, name: string): ChartObject {
  const found = objects.filter((object) => object.kind === kind && object.metadata.name === name);
  if (found.length !== 1) throw new Error(`${found.length} objects are ${kind} ${name}`);
  return found[0] as ChartObject;
}

export type PodTemplate = {
  readonly owner: string;
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
  // oxlint-disable-next-line typescript/no-explicit-any -- as above
  readonly spec: any;
};

/** Returns the pod templates of all Deployments and Jobs. */
export function podTemplates(objects: readonly ChartObject[]): PodTemplate[] {
  return objects
    .filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
    .map(({ kind, metadata, spec }) => ({ owner: `${kind} ${metadata.name}`, ...spec.template }));
}

/** Returns a container's plain variables by name. */
export function environmentOf(container: {
  env: { name: string; value?: string }[];
}): Record<string, string> {
  return Object.fromEntries(
    container.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
  );
}

/** Returns the arguments after `install`, `upgrade` or `template`. */
export function installArgs({
  values = 'minimal',
  set,
  release = 'despatch',
  namespace = 'despatch',
  apiVersions = [],
}: RenderOptions): string[] {
  return [
    release,
    CHART,
    '--namespace',
    namespace,
    ...(values === null
      ? []
      : ['--values', values.includes('/') ? values : join(CHART, 'ci', `${values}-values.yaml`)]),
    // JSON values at the root keep their types.
    ...Object.entries(set ?? {}).flatMap(([key, value]) => ['--set-json', `${key}=${JSON.stringify(value)}`]),
    ...apiVersions.flatMap((version) => ['--api-versions', version]),
  ];
}
