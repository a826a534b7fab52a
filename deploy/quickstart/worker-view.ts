import { createLogger } from '#core/platform/telemetry/logger.ts';
import { openPostgres, type Postgres } from '#core/platform/postgres/postgres.ts';
import { openKeyring } from '#core/platform/vault/open-keyring.ts';
import type { KeyDecrypter } from '#core/platform/vault/keyring.ts';
import { Secret } from '#core/domain/storage/secret.ts';
import { workerConfig, type WorkerConfig } from '../../services/worker/config.ts';
import { workerEnvironment, type EnvironmentInput } from './environments.ts';

/** What the worker can read: the database (with the owner's role) and secrets. */
export type WorkerView = AsyncDisposable & {
  readonly sql: Postgres['sql'];
  readonly keyring: KeyDecrypter;
  readonly config: WorkerConfig;
};

/** For local stand-ins of other parties, which need data that people would enter there by hand. */
export async function openWorkerView(input: EnvironmentInput): Promise<WorkerView> {
  const config = workerConfig(workerEnvironment(input));
  await using stack = new AsyncDisposableStack();
  const url = new Secret(input.databaseUrl);
  const { sql } = stack.use(
    openPostgres({ ...config.postgres, url, poolMax: 4, applicationName: 'stand-ins' }),
  );
  const log = createLogger({ level: 'error', component: 'stand-ins' });
  const keyring = stack.use(await openKeyring(config.keyring, { log }));
  const resources = stack.move();
  return { sql, keyring, config, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}
