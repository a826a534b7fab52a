/** Told of the operations of a store: once of each that there is, then of every end, with what it took. */
export type OperationWatch = {
  readonly known: (op: string) => void;
  readonly ended: (op: string, seconds: number, isFailed: boolean) => void;
};

type Operation = (...args: readonly unknown[]) => Promise<unknown>;

/** The same store, whose operations are watched under their names in snake_case. */
export function timedStore<Store extends object>(store: Store, watch: OperationWatch): Store {
  const timed = Object.entries(store).map(([name, operation]) => {
    const op = name.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);
    watch.known(op);
    const call: Operation = async (...args) => {
      const started = performance.now();
      let isFailed = true;
      try {
        const result = await (operation as Operation)(...args);
        isFailed = false;
        return result;
      } finally {
        watch.ended(op, (performance.now() - started) / 1_000, isFailed);
      }
    };
    return [name, call] as const;
  });
  // Each operation is called with what it was declared for; only how it ends is looked at here.
  return Object.fromEntries(timed) as unknown as Store;
}
