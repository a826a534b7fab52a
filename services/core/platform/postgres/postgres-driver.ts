import { registerHooks } from 'node:module';
import type postgresDriver from 'postgres';

/**
 * postgres.js, patched as it is loaded. Version 3.4.9 gathers small writes until the end of the tick, and forgets neither
 * the bytes nor the timer when the connection closes before that (porsager/postgres#1154, #1208; not merged: #1168).
 * Then either the write throws where nobody can catch it, and the process ends; or the connection, made anew in the
 * same place of the pool, never sends anything again. A query that begins between a connection's error and its close
 * is never answered (#1186), and the first on the next connection fails with the last words of the one before. And
 * where it ends while the driver asks it for the types of arrays, nobody catches the error of that question. A failover
 * of the database brings all five.
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
];

/** Another copy of this module must know that the driver it finds in the cache is the patched one. */
const MARK = 'despatch.postgres-driver';

export const postgres: typeof postgresDriver = await loadPatched();

/** @throws where the driver is not the one that the patches are for: better no start than an unpatched one. */
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
