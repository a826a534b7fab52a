import { registerHooks } from 'node:module';
import type postgresDriver from 'postgres';
import type { Backend } from './silent-connections.ts';

/**
 * postgres.js, patched while it is loaded. Version 3.4.9 buffers small writes until the end of the tick, and clears neither the
 * buffer nor the timer if the connection closes before that (porsager/postgres#1154, #1208; not merged: #1168). Then one of these
 * happens: the write throws an exception that nobody can catch, and the process ends; or the connection that replaces it in the
 * pool never sends anything again. A query that begins between a connection's error and its close is never answered (#1186), and
 * the first query on the next connection fails with the previous connection's error. And if the connection ends while the driver
 * queries the types of arrays, the rejection of that query is not handled. A failover of the database causes all five.
 *
 * The last patch is no repair: it tells of each connection that a server accepts.
 */
const PATCHES: readonly (readonly [found: string, patched: string])[] = [
  [
    `  function nextWrite(fn) {
    const x = socket.write(chunk, fn)
    nextWriteTimer !== null && clearImmediate(nextWriteTimer)
    chunk = nextWriteTimer = null
    return x
  }`,
    `  function nextWrite(fn) {
    const bytes = chunk
    forgetWrite()
    if (socket !== null)
      return socket.write(bytes, fn)
    error(Errors.connection('CONNECTION_CLOSED', options))
    return true
  }

  function forgetWrite() {
    clearImmediate(nextWriteTimer)
    chunk = nextWriteTimer = null
  }`,
  ],
  // In `terminate` and in `closed`.
  ['\n    clearImmediate(nextWriteTimer)\n    if (socket)', '\n    forgetWrite()\n    if (socket)'],
  [
    '\n    clearImmediate(nextWriteTimer)\n    socket.remove',
    '\n    forgetWrite()\n    errorResponse = null\n    socket.remove',
  ],
  ['return fetchArrayTypes()\n', 'return fetchArrayTypes().catch(terminate)\n'],
  ['!hadError && (query || sent.length) && error(', 'if (query || sent.length) error('],
  // For `silent-connections.ts`.
  [
    '    backend.secret = x.readUInt32BE(9)\n',
    `    backend.secret = x.readUInt32BE(9)
    options.shared.onBackend?.({ pid: backend.pid, socket, isBusy: () => Boolean(query) || sent.length > 0 })
`,
  ],
];

/** Calls `onBackend` for each connection of the pool that a server accepts from now on. */
export function observeBackends(sql: postgresDriver.Sql, onBackend: (backend: Backend) => void): void {
  const { shared } = sql.options as unknown as { shared: { onBackend?: (backend: Backend) => void } };
  shared.onBackend = onBackend;
}

/** A global mark that tells another copy of this module that the cached driver is the patched one. */
const MARK = 'despatch.postgres-driver';

export const postgres: typeof postgresDriver = await loadPatched();

/**
 * Loads the driver with the patches.
 * @throws if the patches do not match the driver: a failed start is better than an unpatched driver.
 */
async function loadPatched(): Promise<typeof postgresDriver> {
  const hooks = registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!url.endsWith('/postgres/src/connection.js')) return loaded;
      return { ...loaded, source: patch(Buffer.from(loaded.source as Uint8Array).toString()) };
    },
  });
  try {
    const { default: driver } = await import('postgres');
    if (!Object.hasOwn(globalThis, MARK)) throw new Error('The Postgres driver was loaded unpatched');
    return driver;
  } finally {
    hooks.deregister();
  }
}

function patch(source: string): string {
  let text = source;
  for (const [found, patched] of PATCHES) {
    if (text.split(found).length !== 2) {
      throw new Error(`The Postgres driver is not the one that is patched here: ${found.trim()}`);
    }
    text = text.replace(found, () => patched);
  }
  return `${text}\nglobalThis[${JSON.stringify(MARK)}] = true\n`;
}
