import { join } from 'node:path';
import { isInstalled } from '../servers/program.ts';
import { startVault } from '../servers/vault.ts';
import { vaultVariables } from '../vault/service-variables.ts';
import { configureVault } from '../vault/setup.ts';

export type KeyringKind = 'local' | 'vault';

/** Chooses Vault if it is requested or already installed: a first start should not have to build it. */
export async function chooseKeyring(isVaultWanted: boolean): Promise<KeyringKind> {
  return isVaultWanted || (await isInstalled('vault')) ? 'vault' : 'local';
}

export type KeyringServer = AsyncDisposable & {
  readonly summary: string;
  /** The variables that configure each service for the keyring. */
  readonly environment: Readonly<Record<'api' | 'worker', Readonly<Record<string, string>>>>;
};

export type KeyringOptions = {
  readonly kind: KeyringKind;
  readonly folder: string;
  readonly vaultPort: number;
  readonly log: (line: string) => void;
};

export async function startKeyring({ kind, folder, vaultPort, log }: KeyringOptions): Promise<KeyringServer> {
  if (kind === 'local') {
    const variables = { KEYRING: 'local', LOCAL_KEYRING_DIR: join(folder, 'keyring') };
    return {
      summary: 'Local keyring: no vault on the PATH (a real Vault: npm run quickstart -- --vault)',
      environment: { api: variables, worker: variables },
      async [Symbol.asyncDispose]() {},
    };
  }
  await using stack = new AsyncDisposableStack();
  const vault = stack.use(await startVault({ dir: join(folder, 'vault'), port: vaultPort, log }));
  const environment = vaultVariables(vault, await configureVault(vault));
  const resources = stack.move();
  return {
    summary: `Vault on port ${vault.port}`,
    environment,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
