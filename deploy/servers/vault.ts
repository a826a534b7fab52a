import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startChild, untilReady, type Child } from './child.ts';
import { freePort, listenAddress } from './ports.ts';
import { findProgram } from './program.ts';
import { serverFolder } from './server-folder.ts';

export type VaultOptions = {
  /** Folder for the storage and the keys, kept across starts. Default: a temporary folder, deleted on disposal. */
  dir?: string;
  /** Loopback port. Default: a free port. */
  port?: number;
  /** Also listens with TLS on a separate port, for clients that reach this machine at `host`. Default: loopback. */
  tls?: { certFile: string; keyFile: string; host?: string };
  /** Path of the program, for example one with more plugins. Default: the result of `findProgram`. */
  program?: string;
  log?: (line: string) => void;
};

export type VaultAnswer = {
  readonly status: number;
  /** Parsed JSON, or null when the answer has no body. */
  readonly body: unknown;
};

export type VaultServer = AsyncDisposable & {
  /** `http://127.0.0.1:<port>`. */
  readonly address: string;
  /** `https://<host>:<port>`; undefined without `tls`. */
  readonly tlsAddress: string | undefined;
  readonly port: number;
  readonly pid: number;
  readonly rootToken: string;
  readonly unsealKey: string;
  /** Makes one call below `/v1/`, with the root token unless another is given (`null`: none). */
  request(method: string, path: string, body?: unknown, token?: string | null): Promise<VaultAnswer>;
  seal(): Promise<void>;
  unseal(): Promise<void>;
  stop(): Promise<void>;
  /** Stops Vault if it runs, starts it on the same port and storage, and unseals it. */
  restart(): Promise<void>;
};

type Keys = { rootToken: string; unsealKey: string };

/** Starts an initialised, unsealed Vault on loopback with `transit` and `approle` enabled. */
export async function startVault(options: VaultOptions = {}): Promise<VaultServer> {
  const command =
    options.program ?? (await findProgram('vault', options.log === undefined ? {} : { log: options.log }));
  const folder = await serverFolder('vault', options.dir);
  const port = options.port ?? (await freePort());
  const address = `http://127.0.0.1:${port}`;
  const tlsHost = options.tls?.host ?? '127.0.0.1';
  const tlsPort = options.tls === undefined ? undefined : await freePort(tlsHost);
  const tlsAddress = tlsPort === undefined ? undefined : `https://${tlsHost}:${tlsPort}`;
  const clusterAddress = `127.0.0.1:${await freePort()}`;
  const configFile = join(folder.path, 'server.json');
  const storage = join(folder.path, 'storage');
  await mkdir(storage, { recursive: true });
  const logFile = join(folder.path, 'server.log');
  const config = {
    // The only persistent storage in a `minimal` build; with a multiplier of 1 the single node is elected at once.
    storage: { raft: { path: storage, node_id: 'only', performance_multiplier: 1 } },
    cluster_addr: `https://${clusterAddress}`,
    listener: [
      { tcp: { address: `127.0.0.1:${port}`, cluster_address: clusterAddress, tls_disable: true } },
      ...(options.tls === undefined
        ? []
        : [
            {
              tcp: {
                address: `${listenAddress(tlsHost)}:${tlsPort}`,
                cluster_address: `127.0.0.1:${await freePort()}`,
                tls_cert_file: options.tls.certFile,
                tls_key_file: options.tls.keyFile,
              },
            },
          ]),
    ],
    api_addr: address,
    // Locking memory requires a privilege that a developer's account rarely has.
    disable_mlock: true,
    ui: false,
  };
  await writeFile(configFile, JSON.stringify(config, null, 2), { mode: 0o600 });

  const start = async (): Promise<Child> => {
    const child = await startChild({
      command,
      args: ['server', `-config=${configFile}`],
      logFile,
      env: { PATH: process.env['PATH'], HOME: folder.path },
    });
    const isReady = async (): Promise<boolean> =>
      call(address, 'GET', 'sys/seal-status').then(
        ({ status }) => status === 200,
        () => false,
      );
    await untilReady(child, { name: 'vault', logFile, isReady });
    return child;
  };

  let child: Child | undefined;
  try {
    child = await start();
    const keys = await initialise(address, join(folder.path, 'keys.json'));
    await unseal(address, keys);
    await enable(address, keys, 'sys/mounts/transit', 'transit');
    await enable(address, keys, 'sys/auth/approle', 'approle');
    return handle({ address, tlsAddress, port, keys, folder, start, child });
  } catch (error) {
    await child?.stop('SIGKILL');
    await folder.remove();
    throw error;
  }
}

type HandleInput = {
  address: string;
  tlsAddress: string | undefined;
  port: number;
  keys: Keys;
  folder: Awaited<ReturnType<typeof serverFolder>>;
  start: () => Promise<Child>;
  child: Child;
};

function handle({ address, tlsAddress, port, keys, folder, start, child: first }: HandleInput): VaultServer {
  let child = first;
  const stop = (): Promise<void> => child.stop('SIGTERM');
  return {
    address,
    tlsAddress,
    port,
    ...keys,
    get pid() {
      return child.pid;
    },
    request: (method, path, body, token = keys.rootToken) => call(address, method, path, body, token),
    async seal() {
      await expectOk(call(address, 'PUT', 'sys/seal', undefined, keys.rootToken), 'seal');
    },
    unseal: () => unseal(address, keys),
    stop,
    async restart() {
      await stop();
      child = await start();
      await unseal(address, keys);
    },
    async [Symbol.asyncDispose]() {
      await (folder.temporary ? child.stop('SIGKILL') : stop());
      await folder.remove();
    },
  };
}

/** Initialises a new storage with one unseal key, or reads the keys of an existing one. */
async function initialise(address: string, keysFile: string): Promise<Keys> {
  const saved = await readFile(keysFile, 'utf8').catch(() => undefined);
  if (saved !== undefined) return JSON.parse(saved) as Keys;
  const { body } = await expectOk(
    call(address, 'PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 }),
    'initialise',
  );
  const { keys_base64: unsealKeys, root_token: rootToken } = body as {
    keys_base64: [string];
    root_token: string;
  };
  const keys: Keys = { rootToken, unsealKey: unsealKeys[0] };
  await writeFile(keysFile, JSON.stringify(keys), { mode: 0o600 });
  return keys;
}

/** Returns once the unsealed Vault is active; it answers 503 for a moment after the unseal. */
async function unseal(address: string, keys: Keys): Promise<void> {
  await expectOk(call(address, 'PUT', 'sys/unseal', { key: keys.unsealKey }), 'unseal');
  const deadline = Date.now() + 15_000;
  while ((await call(address, 'GET', 'sys/health')).status !== 200) {
    if (Date.now() > deadline) throw new Error('vault did not become active after the unseal');
    await delay(20);
  }
}

async function enable(address: string, keys: Keys, path: string, type: string): Promise<void> {
  const answer = await call(address, 'POST', path, { type }, keys.rootToken);
  // 400 means that an existing storage already has it.
  if (answer.status !== 204 && answer.status !== 400)
    await expectOk(Promise.resolve(answer), `enable ${type}`);
}

async function call(
  address: string,
  method: string,
  path: string,
  body?: unknown,
  token: string | null = null,
): Promise<VaultAnswer> {
  const response = await fetch(`${address}/v1/${path}`, {
    method,
    headers: token === null ? {} : { 'x-vault-token': token },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(20_000),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? null : (JSON.parse(text) as unknown) };
}

async function expectOk(answer: Promise<VaultAnswer>, action: string): Promise<VaultAnswer> {
  const { status, body } = await answer;
  if (status >= 300) throw new Error(`vault could not ${action}: ${status} ${JSON.stringify(body)}`);
  return { status, body };
}
