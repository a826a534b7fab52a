import { randomBytes } from 'node:crypto';
import { chmod, chown, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { startChild, untilReady, type Child } from './child.ts';
import { freePort, listenAddress } from './ports.ts';
import { postgresBinaries } from './postgres-binaries.ts';
import { runProgram } from './run-program.ts';
import { memoryFolder, serverFolder, type ServerFolder } from './server-folder.ts';
import { unprivilegedUser, type ServerUser } from './unprivileged-user.ts';

export type PostgresOptions = {
  /** Folder for the data, kept across starts. Default: a temporary folder, deleted when the server is disposed. */
  dir?: string;
  /** Default: a free port. */
  port?: number;
  /** Also listens for clients that reach this machine at `host`; those must use TLS. */
  tls?: { host: string; certFile: string; keyFile: string };
  /**
   * `false` turns fsync off and keeps temporary data in memory: a crash of the machine loses data, a crash of the server
   * does not. Default true.
   */
  durable?: boolean;
  /** Additional server settings, as `-c name=value`. */
  settings?: Readonly<Record<string, string>>;
  log?: (line: string) => void;
};

export type PostgresServer = AsyncDisposable & {
  readonly port: number;
  /** Contains the data folder and `server.log`. */
  readonly dir: string;
  readonly pid: number;
  superuserUrl(database?: string): string;
  /** `fast` ends sessions and writes a checkpoint; `immediate` is a crash, with recovery at the next start. */
  stop(mode?: 'fast' | 'immediate'): Promise<void>;
  /** Starts again on the same port and data. */
  restart(mode?: 'fast' | 'immediate'): Promise<void>;
};

const SUPERUSER = 'postgres';
const HOST_RULES = 'host all all 127.0.0.1/32 scram-sha-256\nhostssl all all all scram-sha-256\n';
const STOP_SIGNAL = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const;

/** Starts a Postgres server from the embedded binaries, with password authentication (SCRAM). */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const user = await unprivilegedUser();
  const binaries = await postgresBinaries(user);
  const isInMemory = options.dir === undefined && options.durable === false;
  const folder = await (isInMemory
    ? memoryFolder('postgres', user)
    : serverFolder('postgres', options.dir, user));
  try {
    return await runServer({ options, user, binaries, folder });
  } catch (error) {
    await folder.remove();
    throw error;
  }
}

type Setup = {
  options: PostgresOptions;
  user: ServerUser | undefined;
  binaries: string;
  folder: ServerFolder;
};

async function runServer({ options, user, binaries, folder }: Setup): Promise<PostgresServer> {
  const durable = options.durable ?? true;
  const data = join(folder.path, 'data');
  const logFile = join(folder.path, 'server.log');
  const password = await initialise({ folder: folder.path, data, binaries, user, durable, log: options.log });
  const port = options.port ?? (await freePort(options.tls?.host));
  const settings: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    ...(options.tls === undefined ? {} : await tlsSettings(options.tls, folder.path, user)),
    port: String(port),
    unix_socket_directories: '',
    shared_buffers: '128MB',
    max_connections: '300',
    // Without fsync only a machine crash can tear a page, and that already loses the data. A small WAL limit keeps the data
    // in memory small, and checkpoints to memory are cheap.
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off', max_wal_size: '256MB' }),
    ...options.settings,
  };
  const args = [
    '-D',
    data,
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ];

  const start = async (): Promise<Child> => {
    const child = await startChild({
      command: join(binaries, 'bin', 'postgres'),
      args,
      logFile,
      cwd: folder.path,
      env: serverEnv(),
      orphanSignal: 'SIGINT',
      ...(folder.temporary ? { orphanFolder: folder.path } : {}),
      ...user,
    });
    await untilReady(child, {
      name: 'postgres',
      logFile,
      isReady: () => acceptsConnections(data, child.pid),
    });
    return child;
  };

  let child = await start();
  const stop = (mode: 'fast' | 'immediate' = 'fast'): Promise<void> => child.stop(STOP_SIGNAL[mode]);
  return {
    port,
    dir: folder.path,
    get pid() {
      return child.pid;
    },
    superuserUrl: (database = 'postgres') =>
      `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/${database}`,
    stop,
    async restart(mode) {
      await stop(mode);
      child = await start();
    },
    async [Symbol.asyncDispose]() {
      // A folder that is about to be deleted needs no checkpoint.
      await stop(folder.temporary ? 'immediate' : 'fast');
      await folder.remove();
    },
  };
}

/** Postgres accepts a key only if no other user can read it, and remote clients only if pg_hba.conf names them. */
async function tlsSettings(
  { host, certFile, keyFile }: NonNullable<PostgresOptions['tls']>,
  folder: string,
  user: ServerUser | undefined,
): Promise<Record<string, string>> {
  const files = {
    cert: join(folder, 'server.pem'),
    key: join(folder, 'server.key'),
    hba: join(folder, 'hba.conf'),
  };
  await copyFile(certFile, files.cert);
  await copyFile(keyFile, files.key);
  await writeFile(files.hba, HOST_RULES);
  for (const path of Object.values(files)) {
    await chmod(path, 0o600);
    if (user !== undefined) await chown(path, user.uid, user.gid);
  }
  const address = listenAddress(host);
  return {
    // 0.0.0.0 includes loopback.
    listen_addresses: address === '0.0.0.0' ? address : `127.0.0.1,${address}`,
    ssl: 'on',
    ssl_cert_file: files.cert,
    ssl_key_file: files.key,
    hba_file: files.hba,
  };
}

type InitialiseOptions = {
  folder: string;
  data: string;
  binaries: string;
  user: ServerUser | undefined;
  durable: boolean;
  log: PostgresOptions['log'];
};

/** Creates the data folder unless it exists, and returns the superuser's password. */
async function initialise({
  folder,
  data,
  binaries,
  user,
  durable,
  log,
}: InitialiseOptions): Promise<string> {
  const passwordFile = join(folder, 'superuser-password');
  const version = await readFile(join(data, 'PG_VERSION'), 'utf8').catch(() => undefined);
  if (version !== undefined) return (await readFile(passwordFile, 'utf8')).trim();

  log?.('postgres: creating the data folder');
  const password = randomBytes(24).toString('hex');
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  await mkdir(data, { recursive: true });
  await chmod(data, 0o700);
  if (user !== undefined) {
    for (const path of [passwordFile, data]) await chown(path, user.uid, user.gid);
  }
  await runProgram(
    join(binaries, 'bin', 'initdb'),
    [
      `--pgdata=${data}`,
      `--username=${SUPERUSER}`,
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      ...(durable ? [] : ['--no-sync']),
    ],
    { cwd: folder, env: serverEnv(), ...user },
  );
  return password;
}

/** The postmaster writes its state on the eighth line of its pid file, so no connection is needed. */
async function acceptsConnections(data: string, pid: number): Promise<boolean> {
  const text = await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  return lines[0] === String(pid) && lines[7]?.trim() === 'ready';
}

// PG* variables of the caller would change the behaviour of the server and of initdb.
function serverEnv(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], TZ: 'UTC', LC_ALL: 'C', USER: userInfo().username };
}
