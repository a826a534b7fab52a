import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join, relative, resolve } from 'node:path';
import { startChild, untilReady, type Child } from './child.ts';
import { freePort, listenAddress } from './ports.ts';
import { findProgram } from './program.ts';
import { serverFolder } from './server-folder.ts';

export type NatsOptions = {
  /** Folder for the JetStream store, kept across starts. Default: a temporary folder, deleted on disposal. */
  dir?: string;
  /** Address at which clients reach this machine. Default: loopback. */
  host?: string;
  /** Default: a free port. */
  port?: number;
  /** A configuration file to include, such as the shipped permissions. */
  include?: string;
  /** Values of the `$NAME` variables of the configuration. */
  env?: Readonly<Record<string, string>>;
  /** Further configuration in the server's own syntax, such as a `tls` block. */
  config?: string;
  log?: (line: string) => void;
};

export type NatsServer = AsyncDisposable & {
  /** Without credentials. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly storeDir: string;
  /** Stops the server gracefully; JetStream saves its state. */
  stop(): Promise<void>;
  /** Kills the server, like a crash. */
  kill(): Promise<void>;
  /** Stops the server if it runs and starts it on the same port and store. */
  restart(): Promise<void>;
};

/** Starts a nats-server with JetStream. */
export async function startNats(options: NatsOptions = {}): Promise<NatsServer> {
  const command = await findProgram('nats-server', options.log === undefined ? {} : { log: options.log });
  const folder = await serverFolder('nats', options.dir);
  const host = options.host ?? '127.0.0.1';
  const port = options.port ?? (await freePort(host));
  const storeDir = join(folder.path, 'jetstream');
  const configFile = join(folder.path, 'server.conf');
  const logFile = join(folder.path, 'server.log');
  await writeFile(configFile, configText({ host, port, storeDir, folder: folder.path, options }), {
    mode: 0o600,
  });

  const start = async (): Promise<Child> => {
    const child = await startChild({
      command,
      args: ['--config', configFile],
      logFile,
      env: { PATH: process.env['PATH'], ...options.env },
    });
    await untilReady(child, {
      name: 'nats-server',
      logFile,
      isReady: () => greets(listenAddress(host), port),
    });
    return child;
  };

  let child: Child;
  try {
    child = await start();
  } catch (error) {
    await folder.remove();
    throw error;
  }
  const stop = (): Promise<void> => child.stop('SIGTERM');
  return {
    url: `nats://${host}:${port}`,
    port,
    storeDir,
    get pid() {
      return child.pid;
    },
    stop,
    kill: () => child.stop('SIGKILL'),
    async restart() {
      await stop();
      child = await start();
    },
    async [Symbol.asyncDispose]() {
      await (folder.temporary ? child.stop('SIGKILL') : stop());
      await folder.remove();
    },
  };
}

type ConfigInput = { host: string; port: number; storeDir: string; folder: string; options: NatsOptions };

function configText({ host, port, storeDir, folder, options }: ConfigInput): string {
  // An include path is always relative to the including file, even with a leading slash.
  const include =
    options.include === undefined
      ? ''
      : `include ${JSON.stringify(relative(folder, resolve(options.include)))}`;
  return [
    `host: ${JSON.stringify(listenAddress(host))}`,
    `port: ${port}`,
    `jetstream { store_dir: ${JSON.stringify(storeDir)} }`,
    include,
    options.config ?? '',
    '',
  ].join('\n');
}

/** The server sends INFO only after JetStream has recovered its store. */
function greets(host: string, port: number): Promise<boolean> {
  return new Promise((resolvePromise) => {
    const socket = connect({ host, port });
    const settle = (ready: boolean): void => {
      socket.destroy();
      resolvePromise(ready);
    };
    socket.setTimeout(1_000, () => settle(false));
    socket.once('error', () => settle(false));
    socket.once('close', () => settle(false));
    socket.once('data', (data) => settle(data.toString().startsWith('INFO ')));
  });
}
