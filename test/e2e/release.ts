import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import type { Backends, ReleaseBackends } from './backends.ts';
import type { Helm } from './cluster/helm.ts';
import type { Kubectl, KubeObject } from './cluster/kubectl.ts';
import { NAMESPACE_PREFIX, namespaceManifest } from './cluster/namespaces.ts';
import { allowReleaseIntoVault } from './cluster/vault-login.ts';
import type { ClusterEnvironment } from './environment.ts';
import { until } from './poll.ts';
import { releaseSecrets, releaseValues } from './release-values.ts';

export const COMPONENTS = ['api', 'worker', 'controller'] as const;
export type Component = (typeof COMPONENTS)[number];

export type Deployed = {
  /** Namespaces whose objects the controller reconciles; empty: all. Default: that of the release's tenants. */
  readonly watched?: readonly string[];
  /** Values beyond those of every release here, in the form of Helm's `--set`. */
  readonly set?: readonly string[];
};

/** One release of the chart in its own namespace, and a second namespace with its tenants. */
export type Release = {
  readonly name: string;
  readonly namespace: string;
  readonly tenantNamespace: string;
  readonly own: ReleaseBackends;
  /** First part of the names of its tenants' keys. */
  readonly vaultKeyPrefix: string;
  /**
   * Installs or upgrades the release and waits until it is ready.
   * @param tag of the image.
   */
  readonly deploy: (tag: string, deployed?: Deployed) => Promise<void>;
  readonly test: () => Promise<string>;
  readonly uninstall: () => Promise<void>;
  /** Returns the api's origin outside of the cluster. */
  readonly origin: () => string;
  /** Returns the pods of one component or of all. */
  readonly pods: (component?: Component) => Promise<readonly KubeObject[]>;
  /** Restarts all pods of all Deployments one after the other, as an operator would, and waits. */
  readonly restart: () => Promise<void>;
  /** Waits until all Deployments have all their pods, of their latest revision. */
  readonly settled: (timeoutSeconds?: number) => Promise<void>;
  /** Returns the pod of the leading controller; undefined while there is none. */
  readonly leader: () => Promise<string | undefined>;
};

export type ReleaseOptions = {
  readonly name: string;
  readonly ownsDefinitions: boolean;
  readonly environment: ClusterEnvironment;
  readonly kubectl: Kubectl;
  readonly helm: Helm;
  readonly backends: Backends;
  /** Contains its values file. */
  readonly folder: string;
};

const CHART = join(projectRoot, 'charts/despatch');
const READY_SECONDS = 300;
export const LEASE = 'despatch-controller';

/** Creates the namespaces with everything that a release needs before it is installed. */
export async function prepareRelease(options: ReleaseOptions): Promise<Release> {
  const { name, kubectl, helm, backends, environment, folder, ownsDefinitions } = options;
  const namespace = `${NAMESPACE_PREFIX}${name}`;
  const tenantNamespace = `${namespace}-tenants`;
  await kubectl.apply(
    // Only pods that satisfy the strictest of the Pod Security Standards may run here.
    namespaceManifest(namespace, { 'pod-security.kubernetes.io/enforce': 'restricted' }),
    namespaceManifest(tenantNamespace),
  );
  const own = await backends.forRelease(`despatch-${name}`);
  const peppers = { keys: randomBytes(32).toString('hex'), receipts: randomBytes(32).toString('hex') };
  await kubectl.apply(...releaseSecrets(namespace, peppers, backends, own));
  const vaultRolePrefix = `${name}-`;
  const vaultKeyPrefix = `despatch-${name}-`;
  await allowReleaseIntoVault(backends.vault, {
    namespace,
    rolePrefix: vaultRolePrefix,
    keyPrefix: vaultKeyPrefix,
  });

  let origin = '';
  const here = ['--namespace', namespace];
  const labels = (component?: Component): string =>
    [
      'app.kubernetes.io/instance=despatch',
      ...(component === undefined ? [] : [`app.kubernetes.io/component=${component}`]),
    ].join();
  const deployments = (): Promise<readonly KubeObject[]> =>
    kubectl.list('deployments', '--selector', labels(), ...here);

  const settled: Release['settled'] = async (timeoutSeconds = READY_SECONDS) => {
    for (const { metadata } of await deployments()) {
      await kubectl.run(
        ['rollout', 'status', `deployment/${metadata.name}`, `--timeout=${timeoutSeconds}s`, ...here],
        { timeoutMs: (timeoutSeconds + 20) * 1_000 },
      );
    }
  };

  return {
    name,
    namespace,
    tenantNamespace,
    own,
    vaultKeyPrefix,
    async deploy(tag, { watched: watchNamespaces = [tenantNamespace], set = [] } = {}) {
      const values = releaseValues({
        backends,
        own,
        vaultRolePrefix,
        vaultKeyPrefix,
        tag,
        nodeAddress: environment.nodeAddress,
        ownsDefinitions,
        watchNamespaces,
      });
      const file = join(folder, `values-${name}-${tag}.json`);
      await writeFile(file, JSON.stringify(values, null, 2));
      const wait = ['--wait', '--wait-for-jobs', `--timeout=${READY_SECONDS}s`];
      const beyond = set.flatMap((value) => ['--set', value]);
      const args = ['upgrade', '--install', 'despatch', CHART, ...here, '--values', file, ...beyond, ...wait];
      await helm(args, READY_SECONDS);
      const [service] = await kubectl.list('services', '--selector', labels('api'), ...here);
      const port = (service?.spec.ports as { nodePort?: number }[] | undefined)?.find(
        ({ nodePort }) => nodePort !== undefined,
      )?.nodePort;
      if (port === undefined) throw new Error('the api has no NodePort');
      origin = `http://${environment.nodeAddress}:${port}`;
      // The node's proxy applies changed endpoints with a delay.
      await until('an answer through the NodePort', async () => (await fetch(origin)).status);
    },
    test: () => helm(['test', 'despatch', ...here, `--timeout=${READY_SECONDS}s`], READY_SECONDS),
    uninstall: async () => {
      await helm(['uninstall', 'despatch', '--wait', ...here, `--timeout=${READY_SECONDS}s`], READY_SECONDS);
    },
    origin: () => origin,
    pods: (component) => kubectl.list('pods', '--selector', labels(component), ...here),
    async restart() {
      await kubectl.run(['rollout', 'restart', 'deployment', '--selector', labels(), ...here]);
      await settled();
    },
    settled,
    async leader() {
      const { spec } = await kubectl.get('leases.coordination.k8s.io', LEASE, namespace);
      const holder = (spec?.holderIdentity ?? '') as string;
      return (await kubectl.list('pods', '--selector', labels('controller'), ...here)).find(({ metadata }) =>
        holder.startsWith(metadata.name),
      )?.metadata.name;
    },
  };
}

/** Tells whether a pod is ready and not being deleted. */
export function isReady({ metadata, status }: KubeObject): boolean {
  const conditions = (status?.conditions ?? []) as { type: string; status: string }[];
  const ready = conditions.some((one) => one.type === 'Ready' && one.status === 'True');
  return ready && metadata.deletionTimestamp === undefined;
}

export function componentOf({ metadata }: KubeObject): string {
  return metadata.labels?.['app.kubernetes.io/component'] ?? '';
}

/** Returns the tag of a pod's image. */
export function tagOf({ spec }: KubeObject): string {
  const [container] = spec.containers as { image: string }[];
  return container?.image.split(':').at(-1) ?? '';
}
