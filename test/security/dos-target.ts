import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';
import type { Limits } from '#core/domain/tenant/plan.ts';
import type { Scope } from '#core/domain/tenant/role.ts';
import { secret } from '#core/domain/storage/secret.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { seedAccount, seedTenant } from '#test/support/seed.ts';
import { testDatabase, testNats } from '#test/support/servers.ts';
import { serviceKeyMaker } from '#test/support/service-keys.ts';
import { startServiceProcess, type Environment, type ServiceProcess } from '#test/support/service-process.ts';
import { apiEnvironment } from '../../deploy/quickstart/environments.ts';
import { choosePorts } from '../../deploy/quickstart/ports.ts';
import { newState } from '../../deploy/quickstart/state.ts';

export type DosTarget = AsyncDisposable & {
  readonly api: ServiceProcess;
  readonly port: number;
  /** A connection as superuser. */
  readonly admin: Sql;
  /** Creates a tenant with a service key that can send on every channel. @returns the key. */
  readonly key: (limits?: Partial<Limits>, scopes?: readonly Scope[]) => Promise<string>;
  /** Runs `during` while a transaction holds the locks that `lock` takes. */
  readonly whileLocked: <T>(
    lock: (tx: TransactionSql) => Promise<unknown>,
    during: () => Promise<T>,
  ) => Promise<T>;
  /**
   * Counts this api's connections that wait for a lock. The database's name tells them from those of other tests on the same
   * server.
   */
  readonly stuck: () => Promise<number>;
  /** The memory of the process in MiB. */
  readonly memoryMib: () => Promise<number>;
};

/** No user signs in here, so the issuer's address has no server. */
const NO_ISSUER = 'http://127.0.0.1:9';

/** Starts one api process as it is deployed, for attacks from outside. */
export async function startDosTarget(environment: Environment = {}): Promise<DosTarget> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'despatch-dos-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const database = stack.use(await testDatabase());
  const nats = testNats();
  const ports = await choosePorts(true);
  const port = ports.api;
  const state = { ...newState({}, NO_ISSUER), databasePasswords: inject('postgres').passwords };
  const keys = { KEYRING: 'local', LOCAL_KEYRING_DIR: join(folder, 'keys') };
  const admin = database.open('admin', 2);
  const key = serviceKeyMaker(admin, secret(state.pepper));
  const origin = `http://127.0.0.1:${port}`;
  const api = await startServiceProcess({
    kind: 'api',
    name: 'api',
    folder,
    origin,
    metricsOrigin: `http://127.0.0.1:${ports.apiMetrics}`,
    environment: {
      ...apiEnvironment({
        ports,
        state,
        databaseUrl: database.superuserUrl,
        natsUrl: nats.url,
        jwksUrl: `${NO_ISSUER}/jwks.json`,
        keyring: { api: keys, worker: keys },
      }),
      NATS_PREFIX: nats.prefix,
      // With this limit the api refuses every request when its event loop is late. A busy test machine is not an attack.
      EVENT_LOOP_DELAY_MAX_MS: '0',
      ...environment,
    },
  });
  stack.use(api);
  const owned = stack.move();
  return {
    api,
    port,
    admin,
    async key(limits = {}, scopes) {
      const { tenantId } = await seedTenant(admin, limits);
      for (const channel of ['sms', 'email', 'push', 'whatsapp'] as const) {
        await seedAccount(admin, tenantId, { channel });
      }
      const made = await key(tenantId, scopes === undefined ? {} : { scopes });
      return made.text;
    },
    async whileLocked(lock, during) {
      const released = Promise.withResolvers<void>();
      const held = Promise.withResolvers<void>();
      const holding = admin.begin(async (tx) => {
        await lock(tx);
        held.resolve();
        await released.promise;
      });
      await held.promise;
      try {
        return await during();
      } finally {
        released.resolve();
        await holding;
      }
    },
    async stuck() {
      const [row] = await admin`select count(*)::integer as n from pg_stat_activity
        where datname = current_database() and application_name like 'despatch-api%' and wait_event_type = 'Lock'`;
      return row?.['n'] as number;
    },
    async memoryMib() {
      const [, bytes] = /^process_resident_memory_bytes (\S+)/m.exec(await api.metrics()) ?? [];
      return Number(bytes) / 1024 / 1024;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
