import { secret } from '#core/domain/storage/secret.ts';
import type { Keyring } from '#core/platform/vault/keyring.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { openKeyring } from '#core/platform/vault/open-keyring.ts';
import { startVault } from '../../../deploy/servers/vault.ts';
import { vaultVariables } from '../../../deploy/vault/service-variables.ts';
import { configureVault } from '../../../deploy/vault/setup.ts';

export type BenchKeyring = AsyncDisposable & {
  /** The api's keyring, which can encrypt and not decrypt. */
  readonly keyring: Keyring;
  readonly vaultPid: number | undefined;
  environment(role: 'api' | 'worker'): Readonly<Record<string, string>>;
};

export type BenchKeyringOptions = {
  readonly kind: 'vault' | 'local';
  readonly folder: string;
  /** The folder is kept between runs. */
  readonly isKept: boolean;
  readonly log: (line: string) => void;
};

/** Opens a Vault as in production with the shipped policies, or a keyring in a folder, whose calls are not counted. */
export async function openBenchKeyring(options: BenchKeyringOptions): Promise<BenchKeyring> {
  const { kind, folder, isKept, log } = options;
  await using stack = new AsyncDisposableStack();
  const logging = { log: createLogger({ level: 'error', component: 'bench' }) };
  if (kind === 'local') {
    const keyring = await openKeyring({ kind, dir: folder }, logging);
    return {
      keyring,
      vaultPid: undefined,
      environment: () => ({ KEYRING: 'local', LOCAL_KEYRING_DIR: folder }),
      [Symbol.asyncDispose]: () => keyring[Symbol.asyncDispose](),
    };
  }
  const vault = stack.use(await startVault({ log, ...(isKept ? { dir: folder } : {}) }));
  const roles = await configureVault(vault);
  const variables = vaultVariables(vault, roles);
  const { roleId, secretId } = roles.api;
  const keyring = stack.use(
    await openKeyring(
      {
        kind,
        address: vault.address,
        transitMount: 'transit',
        keyPrefix: 'despatch-',
        auth: { method: 'approle', mount: 'approle', roleId, secretId: secret(secretId) },
      },
      logging,
    ),
  );
  const owned = stack.move();
  return {
    keyring,
    vaultPid: vault.pid,
    environment: (role) => variables[role],
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
