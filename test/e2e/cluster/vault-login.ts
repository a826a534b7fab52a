import type { VaultServer } from '../../../deploy/servers/vault.ts';
import { configureVaultForKubernetes } from '../../../deploy/vault/setup-kubernetes.ts';
import { NAMESPACE_LABEL, NAMESPACE_PREFIX, namespaceManifest } from './namespaces.ts';
import type { Kubectl } from './kubectl.ts';

const NAMESPACE = `${NAMESPACE_PREFIX}vault`;
const REVIEWER = 'vault-reviewer';
const TOKEN_HOURS = 24;

type KubeConfig = {
  readonly clusters: readonly [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority-data'?: string } },
  ];
};

/** Lets Vault ask the API server which service account a token belongs to. */
export async function connectVault(kubectl: Kubectl, vault: VaultServer): Promise<void> {
  const metadata = { name: REVIEWER, namespace: NAMESPACE };
  await kubectl.apply(
    namespaceManifest(NAMESPACE),
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'e2e-vault-reviewer', labels: { [NAMESPACE_LABEL]: 'true' } },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'system:auth-delegator' },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    },
  );
  const duration = `--duration=${TOKEN_HOURS}h`;
  const token = await kubectl.run(['create', 'token', REVIEWER, '--namespace', NAMESPACE, duration]);
  const view = ['config', 'view', '--raw', '--minify', '--flatten', '-o', 'json'];
  const { clusters } = JSON.parse(await kubectl.run(view)) as KubeConfig;
  const { server, 'certificate-authority-data': authority = '' } = clusters[0].cluster;
  await expectDone(vault, 'POST', 'sys/auth/kubernetes', { type: 'kubernetes' });
  await expectDone(vault, 'POST', 'auth/kubernetes/config', {
    kubernetes_host: server,
    kubernetes_ca_cert: Buffer.from(authority, 'base64').toString(),
    token_reviewer_jwt: token,
  });
}

/** Creates one Vault role for each service of a release, which only its own service account may use. */
export async function allowReleaseIntoVault(
  vault: VaultServer,
  {
    namespace,
    rolePrefix,
    keyPrefix,
  }: { readonly namespace: string; readonly rolePrefix: string; readonly keyPrefix: string },
): Promise<void> {
  await configureVaultForKubernetes({
    address: vault.address,
    rootToken: vault.rootToken,
    namePrefix: rolePrefix,
    keyPrefix,
    releaseNamespace: namespace,
    serviceAccounts: { api: 'despatch-api', worker: 'despatch-worker', controller: 'despatch-controller' },
  });
}

async function expectDone(vault: VaultServer, method: string, path: string, body: object): Promise<void> {
  const answer = await vault.request(method, path, body);
  if (answer.status >= 300) {
    throw new Error(`Vault answered ${path} with ${answer.status}: ${JSON.stringify(answer.body)}`);
  }
}
