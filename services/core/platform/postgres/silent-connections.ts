import type { Socket } from 'node:net';

/** What the patched driver tells of a connection that a server has accepted (`postgres-driver.ts`). */
export type Backend = {
  /** Process id of the server's side. */
  readonly pid: number;
  readonly socket: Socket;
  /** Whether an answer is awaited. */
  readonly isBusy: () => boolean;
};

export type SilentConnectionsOptions = {
  /** An answer that takes longer than this, in milliseconds, is unusual. */
  readonly limitMs: number;
  /** Returns the process ids of this pool's connections that the server knows, asked over a new connection. */
  readonly knownPids: () => Promise<ReadonlySet<number>>;
  /** Time between two looks in milliseconds. Default 2,000. */
  readonly everyMs?: number;
};

export type SilentConnections = Disposable & { readonly add: (backend: Backend) => void };

type Watched = Backend & { heardAt: number };

/**
 * Closes connections whose server is gone without a word, as after the loss of its node. The kernel notices that only when it
 * gives up repeating what was sent, after about 15 minutes (`tcp_retries2`); until then the pool would ask over dead connections.
 * Silence alone proves nothing: a commit may wait for a standby for long, and closing its connection would leave it waiting at the
 * server and open another one. So the server is asked over a new connection which of them it knows.
 */
export function watchSilentConnections(options: SilentConnectionsOptions): SilentConnections {
  const { limitMs, knownPids, everyMs = 2_000 } = options;
  const watched = new Set<Watched>();
  let isAsking = false;

  const look = (): void => {
    const now = performance.now();
    for (const one of watched) if (!one.isBusy()) one.heardAt = now;
    const silent = [...watched].filter(({ heardAt }) => now - heardAt > limitMs);
    if (silent.length === 0 || isAsking) return;
    isAsking = true;
    knownPids()
      .then((known) => {
        for (const { pid, socket } of silent)
          if (!known.has(pid)) socket.destroy(new Error('The database no longer knows this connection'));
      })
      // No server answers: where none is reachable there is nothing to reconnect to.
      .catch(() => undefined)
      .finally(() => (isAsking = false));
  };
  const timer = setInterval(look, everyMs).unref();

  return {
    add(backend) {
      const one: Watched = { ...backend, heardAt: performance.now() };
      watched.add(one);
      backend.socket.on('data', () => (one.heardAt = performance.now()));
      backend.socket.once('close', () => watched.delete(one));
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
