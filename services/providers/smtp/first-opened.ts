/** The most addresses of a host that are tried for one session. */
const ADDRESSES_MAX = 8;

export type OpenOptions<T> = {
  /**
   * Connects to an address within this time, and rejects if it cannot. Closes the connection when the signal aborts, also after it
   * was opened.
   */
  readonly open: (address: string, withinMs: number, signal: AbortSignal) => Promise<T>;
  /** For all addresses together. */
  readonly withinMs: number;
  /** Returns whether another address of the host may not have this fault. */
  readonly mayDiffer: (error: Error) => boolean;
  /** Of the whole call: aborts what `open` has begun and what it has returned. */
  readonly signal: AbortSignal;
};

/**
 * Returns the first connection that is ready, to one of these addresses, tried in this order. The next address is tried when one
 * fails, or has used up its share of the time: it is not given up then, because a healthy server may withhold its greeting for
 * longer than that. The other connections are closed.
 * @throws the first address's fault, if none is opened, because the other addresses may have no route at all. At once a fault that
 * all addresses have in common.
 */
export function firstOpened<T>(addresses: readonly string[], options: OpenOptions<T>): Promise<T> {
  const { open, mayDiffer, signal } = options;
  const tried = addresses.slice(0, ADDRESSES_MAX);
  const endsAt = performance.now() + options.withinMs;
  const begun: AbortController[] = [];
  const faults = new Map<number, Error>();
  return new Promise((resolve, reject) => {
    let nextTurn: NodeJS.Timeout | undefined;
    let isOver = false;

    function end(winner?: AbortController): void {
      isOver = true;
      clearTimeout(nextTurn);
      for (const one of begun) if (one !== winner) one.abort();
    }

    function tryNext(): void {
      clearTimeout(nextTurn);
      const position = begun.length;
      const address = tried[position] ?? '';
      const leftMs = Math.max(1, endsAt - performance.now());
      const own = new AbortController();
      begun.push(own);
      if (begun.length < tried.length) {
        nextTurn = setTimeout(tryNext, leftMs / (tried.length - position));
      }
      open(address, Math.ceil(leftMs), AbortSignal.any([signal, own.signal])).then(
        (opened) => {
          if (isOver) return;
          end(own);
          resolve(opened);
        },
        (error: Error) => {
          if (isOver) return;
          faults.set(position, error);
          const isLast = begun.length === tried.length;
          if (mayDiffer(error) && !signal.aborted && (!isLast || faults.size < begun.length)) {
            if (!isLast) tryNext();
            return;
          }
          end();
          reject(mayDiffer(error) ? (faults.get(0) ?? error) : error);
        },
      );
    }

    tryNext();
  });
}
