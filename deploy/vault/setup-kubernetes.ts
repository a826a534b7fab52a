// Prepares a Vault for a release in a cluster: transit, one policy per service, and for each service a role that only its
// service account may log in with. Run it with VAULT_ADDR and VAULT_TOKEN; `--help` lists the options. It may be run again.
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { VAULT_SERVICES, writePolicies, type PolicyNames, type VaultService } from './policies.ts';
import { createVaultAdmin, type VaultAccess } from './vault-admin.ts';

export type KubernetesSetup = VaultAccess &
  PolicyNames & {
    /** Mount path of the Kubernetes auth method. Default `kubernetes`. */
    readonly mount?: string | undefined;
    /** How Vault verifies service account tokens. Absent: the method is already configured. */
    readonly cluster?: ClusterAccess | undefined;
    /** Namespace of the release. */
    readonly releaseNamespace: string;
    /** Names of the release's service accounts. */
    readonly serviceAccounts: Readonly<Record<VaultService, string>>;
    /** Audience of the tokens, as in `vault.auth.kubernetes.audience`. Default `vault`. */
    readonly audience?: string | undefined;
  };

export type ClusterAccess = {
  /** URL of the API server, as Vault reaches it. */
  readonly host: string;
  /** PEM. Absent: Vault runs in the cluster and has it. */
  readonly caCertificate?: string | undefined;
  /** Token that may create TokenReviews. Absent: Vault runs in the cluster and uses its own. */
  readonly reviewerToken?: string | undefined;
};

/** Idempotent. @throws when Vault refuses a step, or another installation's policies grant the same keys. */
export async function configureVaultForKubernetes(setup: KubernetesSetup): Promise<void> {
  const { mount = 'kubernetes', namePrefix = 'despatch-', audience = 'vault', cluster } = setup;
  const vault = createVaultAdmin(setup);
  await writePolicies(vault, setup);
  await vault.mount(`sys/auth/${mount}`, 'kubernetes');
  if (cluster !== undefined) {
    await vault.done('POST', `auth/${mount}/config`, {
      kubernetes_host: cluster.host,
      ...(cluster.caCertificate === undefined ? {} : { kubernetes_ca_cert: cluster.caCertificate }),
      ...(cluster.reviewerToken === undefined ? {} : { token_reviewer_jwt: cluster.reviewerToken }),
    });
  }
  for (const service of VAULT_SERVICES) {
    await vault.done('POST', `auth/${mount}/role/${namePrefix}${service}`, {
      bound_service_account_names: [setup.serviceAccounts[service]],
      bound_service_account_namespaces: [setup.releaseNamespace],
      audience,
      token_policies: [`${namePrefix}${service}`],
      token_ttl: 3_600,
      token_max_ttl: 86_400,
    });
  }
}

const OPTIONS = {
  namespace: { type: 'string', default: 'despatch' },
  fullname: { type: 'string', default: 'despatch' },
  'name-prefix': { type: 'string', default: 'despatch-' },
  'transit-mount': { type: 'string', default: 'transit' },
  'key-prefix': { type: 'string', default: 'despatch-' },
  mount: { type: 'string', default: 'kubernetes' },
  audience: { type: 'string', default: 'vault' },
  'kubernetes-host': { type: 'string' },
  'kubernetes-ca-file': { type: 'string' },
  'reviewer-token-file': { type: 'string' },
  help: { type: 'boolean', default: false },
} as const;

const HELP = `VAULT_ADDR=… VAULT_TOKEN=… [VAULT_NAMESPACE=…] node deploy/run.mjs deploy/vault/setup-kubernetes.ts [options]

  --namespace NAME            namespace of the release (despatch)
  --fullname NAME             prefix of the release's service accounts (despatch)
  --name-prefix TEXT          first part of the names of policies and roles (despatch-)
  --transit-mount PATH        mount path of transit (transit)
  --key-prefix TEXT           first part of the names of tenants' keys (despatch-)
  --mount PATH                mount path of the Kubernetes auth method (kubernetes)
  --audience TEXT             audience of the tokens (vault)
  --kubernetes-host URL       the API server as Vault reaches it; leave it out where the method is configured
  --kubernetes-ca-file FILE   its authority, for a Vault outside of the cluster
  --reviewer-token-file FILE  token that may make TokenReviews, for a Vault outside of the cluster
`;

async function main(): Promise<void> {
  const { values } = parseArgs({ options: OPTIONS });
  if (values.help) return void process.stdout.write(HELP);
  const address = process.env['VAULT_ADDR'];
  const rootToken = process.env['VAULT_TOKEN'];
  if (address === undefined || rootToken === undefined) throw new Error('Set VAULT_ADDR and VAULT_TOKEN');
  const read = async (file: string | undefined): Promise<string | undefined> =>
    file === undefined ? undefined : (await readFile(file, 'utf8')).trim();
  const host = values['kubernetes-host'];
  const accountOf = (service: VaultService): string => `${values.fullname}-${service}`;
  await configureVaultForKubernetes({
    address,
    rootToken,
    namespace: process.env['VAULT_NAMESPACE'],
    transitMount: values['transit-mount'],
    keyPrefix: values['key-prefix'],
    namePrefix: values['name-prefix'],
    mount: values.mount,
    audience: values.audience,
    releaseNamespace: values.namespace,
    serviceAccounts: {
      api: accountOf('api'),
      worker: accountOf('worker'),
      controller: accountOf('controller'),
    },
    cluster:
      host === undefined
        ? undefined
        : {
            host,
            caCertificate: await read(values['kubernetes-ca-file']),
            reviewerToken: await read(values['reviewer-token-file']),
          },
  });
  process.stdout.write(`Vault lets the services of ${values.fullname} in ${values.namespace} in\n`);
}

if (import.meta.main) await main();
