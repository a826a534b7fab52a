import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { TestProject } from 'vitest/node';
import { newPasswords } from '../../deploy/quickstart/state.ts';
import { startNats } from '../../deploy/servers/nats.ts';
import { startPostgres, type PostgresServer } from '../../deploy/servers/postgres.ts';
import { findProgram } from '../../deploy/servers/program.ts';
import { startVault } from '../../deploy/servers/vault.ts';
import { migrate } from '../../services/migrate/migrate.ts';
import { startKubeApiServer } from './kube-apiserver.ts';
import type { KubeAccess } from './kube-connection.ts';
import { TEMPLATE_DATABASE, type RolePasswords, type SharedVault } from './servers.ts';

const log = (line: string): void => void process.stderr.write(`${line}\n`);

/** Starts one server of each kind for the whole run; each test file gets its own part of each. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const stack = new AsyncDisposableStack();
  try {
    // Built here, where progress is visible and no test's deadline is running. A tool that cannot be built fails only the tests
    // that need it.
    for (const name of ['vault', 'etcd', 'kube-apiserver', 'helm'] as const) {
      await findProgram(name, { log }).catch((error: unknown) => log(String(error)));
    }
    const [database, nats] = await Promise.all([
      startPostgres({ durable: false }).then((server) => stack.use(server)),
      startNats({ log }).then((server) => stack.use(server)),
    ]);
    const passwords = await createTemplate(database);
    project.provide('postgres', { superuserUrl: database.superuserUrl(), passwords });
    project.provide('nats', { url: nats.url });
    project.provide(
      'vaultDesk',
      await openDesk<SharedVault>(stack, async () => {
        const { address, rootToken } = stack.use(await startVault());
        return { address, rootToken };
      }),
    );
    project.provide(
      'kubeDesk',
      await openDesk<KubeAccess>(stack, async () => {
        const server = stack.use(await startKubeApiServer());
        await server.applyCrds();
        return server.access;
      }),
    );
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
  return () => stack.disposeAsync();
}

async function createTemplate(server: PostgresServer): Promise<RolePasswords> {
  const passwords = newPasswords();
  const sql = postgres(server.superuserUrl(), { max: 1, onnotice: () => {} });
  await sql`create database ${sql(TEMPLATE_DATABASE)}`;
  await sql.end();
  await migrate({ databaseUrl: server.superuserUrl(TEMPLATE_DATABASE), passwords });
  return passwords;
}

/** Test files run in other processes: the first request to this address starts the server. */
async function openDesk<Shared>(stack: AsyncDisposableStack, start: () => Promise<Shared>): Promise<string> {
  let starting: Promise<Shared> | undefined;
  const path = `/${randomUUID()}`;
  const desk = createServer((request, response) => {
    if (request.url !== path) {
      response.writeHead(404).end();
      return;
    }
    starting ??= start();
    starting.then(
      (shared) => response.end(JSON.stringify(shared)),
      (error: unknown) => response.writeHead(503).end(String(error)),
    );
  });
  desk.listen(0, '127.0.0.1');
  await once(desk, 'listening');
  stack.defer(async () => {
    desk.closeAllConnections();
    desk.close();
    await starting?.catch(() => {});
  });
  return `http://127.0.0.1:${(desk.address() as AddressInfo).port}${path}`;
}
