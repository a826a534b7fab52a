/** Where the cluster is and how this machine and it reach each other. */
export type ClusterEnvironment = {
  readonly kubeconfig: string;
  /** A command that puts an image archive into the cluster; the archive's path is added. */
  readonly loadImage: string;
  /** Base of the image. Absent: the Dockerfile's own. */
  readonly nodeImage: string | undefined;
  /** Where NodePorts answer. */
  readonly nodeAddress: string;
  /** This machine as pods see it. */
  readonly hostAddress: string;
  /** Absent: what needs it is skipped. */
  readonly auditLog: string | undefined;
  /** A Vault with the Kubernetes auth method. */
  readonly vault: string;
};

/** @throws TypeError naming everything that is missing. */
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
