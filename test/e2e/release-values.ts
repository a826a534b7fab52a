import type { Backends, ReleaseBackends } from './backends.ts';
import { REPOSITORY } from './cluster/image.ts';
import { SIGN_IN_AUDIENCE } from './tenant.ts';

/** Names of the secrets that exist in the namespace before a release is installed. */
const SECRETS = {
  database: 'despatch-postgres',
  rolePasswords: 'despatch-role-passwords',
  nats: 'despatch-nats',
  pepper: 'despatch-pepper',
  receiptPepper: 'despatch-receipts',
  authority: 'backends-ca',
} as const;

const PLATFORM_SUBJECT = 'end-to-end-platform';

/** Returns the secrets as an operator of the platform would create them, from the credentials of the servers. */
export function releaseSecrets(
  namespace: string,
  peppers: { readonly keys: string; readonly receipts: string },
  { ca, passwords }: Pick<Backends, 'ca' | 'passwords'>,
  { ownerUrl, urlOf, natsPasswords }: Pick<ReleaseBackends, 'ownerUrl' | 'urlOf' | 'natsPasswords'>,
): object[] {
  const secret = (name: string, stringData: Readonly<Record<string, string>>): object => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace },
    stringData,
  });
  return [
    secret(SECRETS.database, {
      'api-uri': urlOf('api'),
      'worker-uri': urlOf('worker'),
      'controller-uri': urlOf('controller'),
      'migrate-uri': ownerUrl,
    }),
    secret(SECRETS.rolePasswords, byService(passwords)),
    secret(SECRETS.nats, byService(natsPasswords)),
    secret(SECRETS.pepper, { 'key-pepper': peppers.keys }),
    secret(SECRETS.receiptPepper, { 'receipt-pepper': peppers.receipts }),
    secret(SECRETS.authority, { 'ca.crt': ca }),
  ];
}

function byService({ api, worker, controller }: ReleaseBackends['natsPasswords']): Record<string, string> {
  return { 'api-password': api, 'worker-password': worker, 'controller-password': controller };
}

export type ValuesInput = {
  readonly backends: Pick<Backends, 'host' | 'postgres' | 'vault' | 'oidc' | 'providerUrls'>;
  readonly own: Pick<ReleaseBackends, 'natsUrl'>;
  /** Prefix of the names of the release's Vault roles. */
  readonly vaultRolePrefix: string;
  readonly vaultKeyPrefix: string;
  readonly tag: string;
  readonly nodeAddress: string;
  readonly ownsDefinitions: boolean;
  readonly watchNamespaces: readonly string[];
};

/** Sized so that two releases, the servers and the load share one machine. */
const SMALL = { resources: { requests: { cpu: '10m', memory: '64Mi' } } };

/** Returns the values of a production release, adapted to a smaller machine and to the stand-ins of providers and issuer. */
export function releaseValues(input: ValuesInput): object {
  const {
    backends,
    own,
    vaultRolePrefix,
    vaultKeyPrefix,
    tag,
    nodeAddress,
    ownsDefinitions,
    watchNamespaces,
  } = input;
  const role = (service: string): string => `${vaultRolePrefix}${service}`;
  // The servers run outside the cluster.
  const outside = [{ ipBlock: { cidr: `${backends.host}/32` } }];
  return {
    image: { repository: REPOSITORY, tag, pullPolicy: 'Never' },
    crds: { enabled: ownsDefinitions },
    postgres: {
      existingSecret: SECRETS.database,
      ssl: { caSecret: SECRETS.authority },
      pool: { max: 6 },
    },
    nats: {
      urls: [own.natsUrl],
      auth: { existingSecret: SECRETS.nats },
      tls: { caSecret: SECRETS.authority },
    },
    vault: {
      address: backends.vault.tlsAddress,
      keyPrefix: vaultKeyPrefix,
      caSecret: SECRETS.authority,
      auth: {
        kubernetes: {
          roles: { api: role('api'), worker: role('worker'), controller: role('controller') },
        },
      },
    },
    migrations: { rolePasswords: { existingSecret: SECRETS.rolePasswords }, ...SMALL },
    receipts: { pepper: { existingSecret: SECRETS.receiptPepper } },
    api: {
      ...SMALL,
      publicBaseUrl: `http://${nodeAddress}`,
      oidc: { issuer: backends.oidc.issuer, audience: SIGN_IN_AUDIENCE },
      platformAdmins: [PLATFORM_SUBJECT],
      keyPepper: { existingSecret: SECRETS.pepper },
      service: { type: 'NodePort' },
      // A machine that is busy with a whole cluster must not make single processes refuse requests for overload.
      http: { eventLoopDelayMaxMs: 0 },
    },
    worker: {
      ...SMALL,
      // Short enough that leases end during a run.
      leaseMs: 30_000,
      egress: { providerBaseUrls: backends.providerUrls },
      networkPolicy: { egress: [{ to: outside }] },
    },
    controller: { ...SMALL, watchNamespaces },
    networkPolicy: {
      postgres: { ports: [backends.postgres.port], to: outside },
      nats: { to: outside },
      vault: { to: outside },
    },
  };
}
