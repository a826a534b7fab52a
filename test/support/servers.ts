import { randomBytes } from 'node:crypto';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { openPostgres, type Sql } from '#core/platform/postgres/postgres.ts';
import { inject } from 'vitest';
import { loginUrl } from '../../deploy/servers/login-url.ts';
import { createVaultAdmin, type VaultAdmin } from '../../deploy/vault/vault-admin.ts';
import { connectKube, type KubeAccess, type KubeConnection } from './kube-connection.ts';

export const TEMPLATE_DATABASE = 'despatch_template';

export type RolePasswords = { readonly api: string; readonly worker: string; readonly controller: string };
export type SharedVault = { readonly address: string; readonly rootToken: string };

declare module 'vitest' {
  interface ProvidedContext {
    postgres: { superuserUrl: string; passwords: RolePasswords };
    nats: { url: string };
    /** URL that returns the shared Vault, which the first call starts. */
    vaultDesk: string;
    /** URL that returns the shared Kubernetes API server, which the first call starts. */
    kubeDesk: string;
  }
}

export type TestDatabase = AsyncDisposable & {
  readonly name: string;
  readonly superuserUrl: string;
  readonly apiUrl: string;
  readonly workerUrl: string;
  readonly controllerUrl: string;
  /** Opens a pool of the superuser or of a service's role, as a service does; it is closed with the database. */
  readonly open: (role: 'admin' | keyof RolePasswords, connectionsMax?: number) => Sql;
};

/** Creates a migrated database, which is dropped on disposal. */
export async function testDatabase(): Promise<TestDatabase> {
  const { superuserUrl, passwords } = inject('postgres');
  const name = unique('test');
  const pools = new AsyncDisposableStack();
  await administer(
    superuserUrl,
    (sql) => sql`create database ${sql(name)} template ${sql(TEMPLATE_DATABASE)}`,
  );
  const urlAs = (user?: keyof RolePasswords): string => {
    const url = new URL(superuserUrl);
    url.pathname = name;
    return user === undefined ? url.href : loginUrl(url.href, `despatch_${user}`, passwords[user]);
  };
  return {
    name,
    superuserUrl: urlAs(),
    apiUrl: urlAs('api'),
    workerUrl: urlAs('worker'),
    controllerUrl: urlAs('controller'),
    open: (role, connectionsMax = 4) =>
      pools.use(
        openPostgres({
          url: secret(role === 'admin' ? urlAs() : urlAs(role)),
          poolMax: connectionsMax,
          // A test may plant more rows than a service ever writes in one statement.
          statementTimeoutMs: role === 'admin' ? 100_000 : 10_000,
          applicationName: 'test',
        }),
      ).sql,
    async [Symbol.asyncDispose]() {
      await pools.disposeAsync();
      // `with (force)`: a connection that a test left open must not keep the database.
      await administer(superuserUrl, (sql) => sql`drop database if exists ${sql(name)} with (force)`);
    },
  };
}

/** Returns the shared NATS, and a unique prefix for the caller's stream and subject names. */
export function testNats(): { readonly url: string; readonly prefix: string } {
  return { url: inject('nats').url, prefix: unique('test') };
}

export type TestVault = AsyncDisposable &
  SharedVault & {
    /** The caller's own transit mount, removed on disposal. */
    readonly mount: string;
    /** Makes one call below `/v1/` with the root token. */
    readonly request: VaultAdmin['call'];
  };

/** Returns the shared Vault. A test that seals or stops Vault starts its own with `startVault`. */
export async function testVault(): Promise<TestVault> {
  const answer = await fetch(inject('vaultDesk'));
  if (!answer.ok) throw new Error(await answer.text());
  const vault = (await answer.json()) as SharedVault;
  const mount = unique('transit');
  const { call: request } = createVaultAdmin(vault);
  const { status } = await request('POST', `sys/mounts/${mount}`, { type: 'transit' });
  if (status !== 204) throw new Error(`the mount ${mount} was not made: ${status}`);
  return {
    ...vault,
    mount,
    request,
    async [Symbol.asyncDispose]() {
      await request('DELETE', `sys/mounts/${mount}`);
    },
  };
}

/**
 * Returns the shared Kubernetes API server with the custom resources installed. A caller shares nothing inside a namespace of its
 * own; a test that needs exclusive cluster-scoped objects, or stops the server, starts its own with `startKubeApiServer`.
 */
export async function testKube(): Promise<KubeConnection> {
  const answer = await fetch(inject('kubeDesk'));
  if (!answer.ok) throw new Error(await answer.text());
  return connectKube((await answer.json()) as KubeAccess);
}

async function administer(url: string, work: (sql: Sql) => Promise<unknown>): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await work(sql);
  } finally {
    await sql.end();
  }
}

function unique(prefix: string): string {
  return `${prefix}_${randomBytes(8).toString('hex')}`;
}
