import { postgres } from '#core/platform/postgres-driver.ts';
import { expect, test } from 'vitest';
import { startPostgres } from '../../deploy/servers/postgres.ts';
import { migrationFiles } from '#core/store/migration-files.ts';
import { migrate } from '../../services/migrate/migrate.ts';

const PASSWORDS = { api: 'a', worker: 'w', controller: 'c' };

/** A database whose owner may create roles and is no superuser, as cloud databases give it. */
async function setup() {
  const server = await startPostgres({ durable: false });
  const admin = postgres(server.superuserUrl('postgres'), { max: 1, onnotice: () => undefined });
  await admin.unsafe("create role owner login createrole password 'owner'");
  await admin.unsafe('create database app owner owner');
  await admin.end();
  const url = new URL(server.superuserUrl('app'));
  url.username = 'owner';
  url.password = 'owner';
  return { databaseUrl: url.href, server, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

test('an owner that is no superuser migrates, any number of runs at once end in one schema, and a repeat does nothing', async () => {
  await using b = await setup();
  const run = () => migrate({ databaseUrl: b.databaseUrl, passwords: PASSWORDS });
  const applied = (await Promise.all([run(), run(), run()])).flatMap((result) => result.applied);
  expect(applied).toEqual(migrationFiles().map((file) => file.name));
  expect(await migrate({ databaseUrl: b.databaseUrl, passwords: {} })).toEqual({ applied: [] });

  const url = new URL(b.databaseUrl);
  url.username = 'despatch_worker';
  url.password = PASSWORDS.worker;
  const worker = postgres(url.href, { max: 1, onnotice: () => undefined });
  await expect(worker`select * from despatch.due_tenants()`).resolves.toHaveLength(0);
  await expect(worker`select * from despatch.messages`).rejects.toThrow('permission denied');
  await worker.end();
});
