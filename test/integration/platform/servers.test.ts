import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, copyFile, chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { describe, expect, test } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import { openPostgres } from '#core/platform/postgres/postgres.ts';
import { startNats } from '../../../deploy/servers/nats.ts';
import { freePort, isFreePort } from '../../../deploy/servers/ports.ts';
import { startPostgres } from '../../../deploy/servers/postgres.ts';
import { startVault } from '../../../deploy/servers/vault.ts';
import { makeCertificates } from '#test/support/certificates.ts';
import { projectRoot } from '#test/support/command.ts';
import { testDatabase, testNats, testVault } from '#test/support/servers.ts';

type Folder = AsyncDisposable & { readonly path: string };

async function temporaryFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), 'despatch-servers-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

async function query<T extends object>(url: string, text: string): Promise<T[]> {
  const sql = postgres(url, { max: 1, connect_timeout: 5, onnotice: () => {} });
  try {
    return [...(await sql.unsafe<T[]>(text))];
  } finally {
    await sql.end();
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('Postgres', () => {
  test('a committed row survives a crash of the server, and nothing is left after disposal', async () => {
    let dir: string;
    let pid: number;
    {
      await using server = await startPostgres({ durable: false });
      ({ dir, pid } = server);
      await query(server.superuserUrl(), 'create table kept (id int)');
      await query(server.superuserUrl(), 'insert into kept values (7)');
      await server.restart('immediate');
      expect(server.pid).not.toBe(pid);
      expect(await query(server.superuserUrl(), 'select id from kept')).toEqual([{ id: 7 }]);
      ({ pid } = server);
    }
    expect(isRunning(pid)).toBe(false);
    await expect(access(dir)).rejects.toThrow('ENOENT');
  });

  // On Linux all of 127.0.0.0/8 is this machine; other systems have no second address to listen on. A connection to any of these
  // addresses still comes from 127.0.0.1, so the test reads the rule for other clients from the server's configuration.
  test.skipIf(process.platform !== 'linux')('connections that do not use loopback require TLS', async () => {
    await using folder = await temporaryFolder();
    const file = (name: string): string => join(folder.path, name);
    const host = '127.0.0.2';
    makeCertificates(folder.path, 'openssl', host);
    const tls = { host, certFile: file('server.pem'), keyFile: file('server.key') };
    await using server = await startPostgres({ durable: false, tls });
    const url = server.superuserUrl().replace('127.0.0.1', host);
    const ends: number[] = [];
    const open = (caFile: string) =>
      openPostgres({
        url: secret(url),
        poolMax: 1,
        statementTimeoutMs: 5_000,
        caFile,
        onCertificate: ({ to }) => ends.push(to),
        applicationName: 'a',
      });
    const ask = async (caFile: string): Promise<unknown> => {
      await using database = open(caFile);
      return await database.sql`select 7 as id`;
    };
    expect(await ask(file('ca.pem'))).toMatchObject([{ id: 7 }]);
    const daysLeft = ends.map((end) => (end * 1_000 - Date.now()) / 86_400_000);
    expect(daysLeft).toEqual([expect.closeTo(2, 1)]);
    await expect(ask(file('other-ca.pem'))).rejects.toThrow('certificate');
    expect(ends).toHaveLength(1);
    // An authority that is replaced while the process runs holds for the next connection.
    await copyFile(file('other-ca.pem'), file('mounted.pem'));
    await using running = open(file('mounted.pem'));
    await expect(running.sql`select 7 as id`).rejects.toThrow('certificate');
    await copyFile(file('ca.pem'), file('mounted.pem'));
    expect(await running.sql`select 7 as id`).toMatchObject([{ id: 7 }]);
    await rm(file('mounted.pem'));
    expect(await running.sql`select 7 as id`).toMatchObject([{ id: 7 }]);
    const rules = `select type, coalesce(address, '') as address from pg_hba_file_rules where type <> 'local'`;
    expect(await query(server.superuserUrl(), rules)).toEqual([
      { type: 'host', address: '127.0.0.1' },
      { type: 'hostssl', address: 'all' },
    ]);
  });

  test.skipIf(process.platform !== 'linux')(
    'a server that is named by its address is refused if its certificate does not name that address',
    async () => {
      await using folder = await temporaryFolder();
      const file = (name: string): string => join(folder.path, name);
      const host = '127.0.0.2';
      // The certificate is for 127.0.0.1 and localhost.
      makeCertificates(folder.path);
      const tls = { host, certFile: file('server.pem'), keyFile: file('server.key') };
      await using server = await startPostgres({ durable: false, tls });
      await using database = openPostgres({
        url: secret(server.superuserUrl().replace('127.0.0.1', host)),
        poolMax: 1,
        statementTimeoutMs: 5_000,
        caFile: file('ca.pem'),
        applicationName: 'a',
      });
      await expect(database.sql`select 7`).rejects.toThrow('altnames');
    },
  );

  test('data and password survive a restart in a given folder below a private one; fsync is on', async () => {
    await using home = await temporaryFolder();
    const dir = join(home.path, 'private', 'postgres');
    await mkdir(join(home.path, 'private'), { mode: 0o700 });
    const first = await startPostgres({ dir, settings: { work_mem: '7MB' } });
    await using stored = { [Symbol.asyncDispose]: () => rm(first.dir, { recursive: true, force: true }) };
    expect(stored).toBeDefined();
    await query(first.superuserUrl(), 'create table kept as select 7 as id');
    expect(await query(first.superuserUrl(), 'show fsync')).toEqual([{ fsync: 'on' }]);
    expect(await query(first.superuserUrl(), 'show work_mem')).toEqual([{ work_mem: '7MB' }]);
    await first[Symbol.asyncDispose]();
    await using second = await startPostgres({ dir, port: first.port });
    expect(second.superuserUrl()).toBe(first.superuserUrl());
    expect(await query(second.superuserUrl(), 'select id from kept')).toEqual([{ id: 7 }]);
  });

  test('a wrong password is rejected', async () => {
    await using server = await startPostgres({ durable: false });
    const url = new URL(server.superuserUrl());
    url.password = 'guess';
    await expect(query(url.href, 'select 1')).rejects.toThrow('password authentication failed');
  });

  test('a failed start reports the cause', async () => {
    await expect(startPostgres({ durable: false, settings: { shared_buffers: 'much' } })).rejects.toThrow(
      /postgres ended with exit code 1:[^]*shared_buffers/,
    );
  });
});

describe('NATS', () => {
  test('a stream survives a crash of the server', async () => {
    await using server = await startNats();
    const before = await connect({ servers: server.url });
    await (await jetstreamManager(before)).streams.add({ name: 'kept', subjects: ['kept.*'] });
    await jetstream(before).publish('kept.one', 'x');
    await before.close();
    await server.kill();
    expect(isRunning(server.pid)).toBe(false);
    await server.restart();
    const after = await connect({ servers: server.url });
    const info = await (await jetstreamManager(after)).streams.info('kept');
    await after.close();
    expect(info.state.messages).toBe(1);
  });

  test('users of an included file connect with the passwords given as variables, others do not', async () => {
    await using folder = await temporaryFolder();
    const include = join(folder.path, 'users.conf');
    await writeFile(include, 'authorization { users = [ { user: "api", password: $API_PASSWORD } ] }\n');
    await using server = await startNats({ include, env: { API_PASSWORD: 'first-secret' } });
    const connection = await connect({ servers: server.url, user: 'api', pass: 'first-secret' });
    await connection.close();
    await expect(connect({ servers: server.url, user: 'api', pass: 'guess' })).rejects.toThrow(
      'Authorization',
    );
    await expect(connect({ servers: server.url })).rejects.toThrow('Authorization');
  });
});

describe('Vault', () => {
  test('keys survive a restart, and a sealed server rejects calls until it is unsealed', async () => {
    await using server = await startVault();
    expect((await server.request('POST', 'transit/keys/kept', { derived: true })).status).toBe(200);
    await server.restart();
    expect((await server.request('GET', 'transit/keys/kept')).status).toBe(200);
    expect((await server.request('GET', 'transit/keys/kept', undefined, null)).status).toBe(403);
    await server.seal();
    expect((await server.request('GET', 'transit/keys/kept')).status).toBe(503);
    await server.unseal();
    expect((await server.request('GET', 'transit/keys/kept')).status).toBe(200);
    expect((await server.request('GET', 'auth/approle/role?list=true')).status).toBe(404);
  });

  test('a given folder keeps storage and keys across starts', async () => {
    await using folder = await temporaryFolder();
    const first = await startVault({ dir: folder.path });
    await first.request('POST', 'transit/keys/kept');
    await first[Symbol.asyncDispose]();
    await using second = await startVault({ dir: folder.path });
    expect(second.rootToken).toBe(first.rootToken);
    expect((await second.request('GET', 'transit/keys/kept')).status).toBe(200);
  });
});

describe('a server of each kind but Vault', () => {
  test('does not outlive the process that started it, even if that process is killed', async () => {
    await using folder = await temporaryFolder();
    await chmod(folder.path, 0o755);
    const script = join(folder.path, 'start.ts');
    await writeFile(
      script,
      `import { startNats } from ${JSON.stringify(join(projectRoot, 'deploy/servers/nats.ts'))};
       import { startPostgres } from ${JSON.stringify(join(projectRoot, 'deploy/servers/postgres.ts'))};
       import { startKubeApiServer } from ${JSON.stringify(join(projectRoot, 'test/support/kube-apiserver.ts'))};
       const starts = [startNats(), startPostgres({ durable: false }), startKubeApiServer()];
       const servers = await Promise.all(starts);
       console.log(JSON.stringify({ pids: servers.map(({ pid }) => pid), dir: servers[1].dir }));
       setInterval(() => {}, 1000);`,
    );
    const parent = spawn(process.execPath, [script], {
      env: { ...process.env, TMPDIR: folder.path },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(parent.stdout, 'data')) as [Buffer];
    const { pids, dir } = JSON.parse(line.toString()) as { pids: number[]; dir: string };
    expect(pids.map(isRunning)).toEqual([true, true, true]);
    await access(dir);
    parent.kill('SIGKILL');
    await expect.poll(() => pids.map(isRunning)).toEqual([false, false, false]);
    // The data folder, which may be in memory, is deleted too.
    await expect.poll(() => access(dir).then(Boolean, () => 'gone')).toBe('gone');
  });
});

describe('ports', () => {
  test('a port is free until a server listens on it', async () => {
    const port = await freePort();
    expect(await isFreePort(port)).toBe(true);
    await using server = await startNats({ port });
    expect(server.port).toBe(port);
    expect(await isFreePort(port)).toBe(false);
  });

  test('two processes never get the same port, even before they listen on it', async () => {
    const script = `
      import { freePort } from ${JSON.stringify(join(projectRoot, 'deploy/servers/ports.ts'))};
      console.log(JSON.stringify(await Array.fromAsync({ length: 400 }, () => freePort())));
      setInterval(() => {}, 1_000);`;
    const other = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      const [line] = (await once(other.stdout, 'data')) as [Buffer];
      const theirs = new Set(JSON.parse(line.toString()) as number[]);
      const ours = await Array.fromAsync({ length: 400 }, () => freePort());
      expect([theirs.size, ours.filter((port) => theirs.has(port))]).toEqual([400, []]);
    } finally {
      other.kill();
    }
  });
});

describe('the shared servers of a test run', () => {
  test('each test file has a migrated database of its own, with the login roles of the services', async () => {
    await using one = await testDatabase();
    await using other = await testDatabase();
    await query(one.superuserUrl, 'create table mine (id int)');
    expect(await query(other.superuserUrl, "select to_regclass('mine') as found")).toEqual([{ found: null }]);
    const users = await Promise.all(
      [one.apiUrl, one.workerUrl, one.controllerUrl].map((url) => query(url, 'select current_user as name')),
    );
    expect(users.flat()).toEqual([
      { name: 'despatch_api' },
      { name: 'despatch_worker' },
      { name: 'despatch_controller' },
    ]);
  });

  test('prefixes on the shared NATS are unique, and a mount of the shared Vault is usable', async () => {
    expect(testNats().prefix).not.toBe(testNats().prefix);
    await using vault = await testVault();
    expect((await vault.request('POST', `${vault.mount}/keys/one`)).status).toBe(200);
  });
});
