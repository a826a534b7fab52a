/** The addresses by which this machine and the cluster reach each other. */
export type ClusterEnvironment = {
  readonly kubeconfig: string;
  /** A command that loads an image archive into the cluster; the archive's path is appended. */
  readonly loadImage: string;
  /** Base image. Absent: that of the Dockerfile. */
  readonly nodeImage: string | undefined;
  /** Address of the NodePorts. */
  readonly nodeAddress: string;
  /** Address of this machine for pods. */
  readonly hostAddress: string;
  /** Absent: the steps that need it are skipped. */
  readonly auditLog: string | undefined;
  /** A Vault with the Kubernetes auth method. */
  readonly vault: string;
};

/** Reads the environment. @throws TypeError naming every missing variable. */
export function readEnvironment(env: NodeJS.ProcessEnv): ClusterEnvironment {
  const given = (name: string): string | undefined => (env[name] === '' ? undefined : env[name]);
  const missing: string[] = [];
  const needed = (name: string): string => {
    const value = given(name);
    if (value === undefined) missing.push(name);
    return value ?? '';
  };
  const environment: ClusterEnvironment = {
    kubeconfig: needed('KUBECONFIG'),
    loadImage: needed('E2E_LOAD_IMAGE'),
    nodeImage: given('E2E_NODE_IMAGE'),
    nodeAddress: needed('E2E_NODE_ADDRESS'),
    hostAddress: needed('E2E_HOST_ADDRESS'),
    auditLog: given('E2E_AUDIT_LOG'),
    vault: needed('E2E_VAULT'),
  };
  if (missing.length > 0) throw new TypeError(`not set: ${missing.join(', ')}; see test/e2e/README.md`);
  return environment;
}
