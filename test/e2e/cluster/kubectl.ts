import { runTool, tryTool, type ToolOptions, type ToolResult } from './run-tool.ts';

/** An object as the API server returns it. */
export type KubeObject = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation?: number;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
    readonly deletionTimestamp?: string;
    readonly creationTimestamp: string;
  };
  // oxlint-disable-next-line typescript/no-explicit-any -- what is in it depends on the kind
  readonly spec?: any;
  // oxlint-disable-next-line typescript/no-explicit-any -- what is in it depends on the kind
  readonly status?: any;
};

export type Kubectl = {
  /** @returns its standard output. @throws with its error output when it fails. */
  readonly run: (args: readonly string[], options?: ToolOptions) => Promise<string>;
  readonly try: (args: readonly string[], options?: ToolOptions) => Promise<ToolResult>;
  readonly get: (kind: string, name: string, namespace?: string) => Promise<KubeObject>;
  /** @param args for example a namespace or a selector. */
  readonly list: (kind: string, ...args: string[]) => Promise<readonly KubeObject[]>;
  readonly apply: (...objects: object[]) => Promise<void>;
  /** Merges a change into an object. */
  readonly patch: (kind: string, name: string, change: object, namespace?: string) => Promise<void>;
  /** Waits for a condition, or with `delete` for the deletion. @param more for example a namespace. */
  readonly wait: (
    what: string,
    condition: string,
    timeoutSeconds: number,
    ...more: string[]
  ) => Promise<void>;
  /** Deletes an object that may be gone already. @param args for example a namespace or `--wait=false`. */
  readonly delete: (kind: string, name: string, ...args: string[]) => Promise<void>;
};

/** Opens kubectl. Everything here runs the program itself, as a user does. */
export function openKubectl(kubeconfig: string): Kubectl {
  const env = { ...process.env, KUBECONFIG: kubeconfig };
  const run: Kubectl['run'] = (args, options) => runTool('kubectl', args, { env, ...options });
  const inNamespace = (namespace: string | undefined): string[] =>
    namespace === undefined ? [] : ['--namespace', namespace];
  return {
    run,
    try: (args, options) => tryTool('kubectl', args, { env, ...options }),
    get: async (kind, name, namespace) =>
      JSON.parse(await run(['get', kind, name, ...inNamespace(namespace), '-o', 'json'])) as KubeObject,
    async list(kind, ...args) {
      const text = await run(['get', kind, ...args, '-o', 'json']);
      return (JSON.parse(text) as { items: KubeObject[] }).items;
    },
    async apply(...objects) {
      const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
      await run(['apply', '-f', '-'], { input });
    },
    async patch(kind, name, change, namespace) {
      const patch = ['--type=merge', '-p', JSON.stringify(change)];
      await run(['patch', kind, name, ...inNamespace(namespace), ...patch]);
    },
    async wait(what, condition, timeoutSeconds, ...more) {
      const timeoutMs = (timeoutSeconds + 20) * 1_000;
      await run(['wait', what, `--for=${condition}`, `--timeout=${timeoutSeconds}s`, ...more], { timeoutMs });
    },
    async delete(kind, name, ...args) {
      await run(['delete', kind, name, '--ignore-not-found', ...args]);
    },
  };
}

/** Returns the status of a condition; undefined where it is not set. */
export function conditionOf(
  object: KubeObject,
  type: string,
): { readonly status: string; readonly reason: string; readonly message: string } | undefined {
  const conditions = (object.status?.conditions ?? []) as {
    type: string;
    status: string;
    reason: string;
    message: string;
  }[];
  return conditions.find((condition) => condition.type === type);
}
