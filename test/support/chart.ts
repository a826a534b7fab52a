import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { findProgram } from '../../deploy/servers/program.ts';
import { runProgram } from '../../deploy/servers/run-program.ts';
import { projectRoot } from './command.ts';
import type { KubeObject } from './kube-connection.ts';

export const CHART = join(projectRoot, 'charts/despatch');

/** An object of the chart. */
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
  /** Name of a file in `ci/`, without `-values.yaml`, or path of another. Default `minimal`; `null` for none. */
  readonly values?: string | null;
  /** More values, over the file's. */
  readonly set?: object;
  /** Default `despatch`. */
  readonly release?: string;
  /** Default `despatch`. */
  readonly namespace?: string;
  /** Kinds that the cluster knows, as `group/version/Kind`. */
  readonly apiVersions?: readonly string[];
};

/** Names of the files in `ci/`. */
export function ciValues(): string[] {
  return readdirSync(join(CHART, 'ci')).map((file) => file.replace(/-values\.yaml$/, ''));
}

const rendered = new Map<string, Promise<ChartObject[]>>();

/** What the chart makes of these values; the same objects for the same values. @throws with Helm's text when it refuses. */
export function renderChart(options: RenderOptions = {}): Promise<ChartObject[]> {
  const key = JSON.stringify(options);
  const known = rendered.get(key) ?? render(options);
  rendered.set(key, known);
  return known;
}

async function render(options: RenderOptions): Promise<ChartObject[]> {
  const text = await helm(['template', ...installArgs(options)]);
  // As the API server's clients read it.
  return parseAllDocuments(text, { version: '1.1' }).flatMap((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    const object = document.toJS() as ChartObject | null;
    return object === null ? [] : [object];
  });
}

/** The text after an installation. */
export async function renderNotes(options: RenderOptions = {}): Promise<string> {
  const output = await helm(['install', ...installArgs(options), '--dry-run=client']);
  return output.slice(output.indexOf('NOTES:'));
}

/** Helm's text when it refuses the values; an empty text when it takes them. */
export async function refusal(options: RenderOptions = {}): Promise<string> {
  return renderChart(options).then(
    () => '',
    (error: Error) => error.message,
  );
}

/** Runs Helm apart from the user's own settings and clusters. `kubeconfig` names the cluster that it may reach. */
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

/** The one object of this kind and name. */
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

/** The pod templates of all Deployments and Jobs. */
export function podTemplates(objects: readonly ChartObject[]): PodTemplate[] {
  return objects
    .filter(({ kind }) => kind === 'Deployment' || kind === 'Job')
    .map(({ kind, metadata, spec }) => ({ owner: `${kind} ${metadata.name}`, ...spec.template }));
}

/** A container's plain variables by name. */
export function environmentOf(container: {
  env: { name: string; value?: string }[];
}): Record<string, string> {
  return Object.fromEntries(
    container.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
  );
}

/** The arguments after `install`, `upgrade` or `template`. */
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
    // JSON at the root keeps types as they are.
    ...Object.entries(set ?? {}).flatMap(([key, value]) => ['--set-json', `${key}=${JSON.stringify(value)}`]),
    ...apiVersions.flatMap((version) => ['--api-versions', version]),
  ];
}
