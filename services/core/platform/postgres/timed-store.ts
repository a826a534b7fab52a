/** Called for a store's operations: `known` once for each operation, `ended` after each call with its duration. */
export type OperationWatch = {
  readonly known: (op: string) => void;
  readonly ended: (op: string, seconds: number, isFailed: boolean) => void;
};

type Operation = (...args: readonly unknown[]) => Promise<unknown>;

/** Returns the same store, whose operations are reported under their names in snake_case. */
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
  // Each operation is called with its declared arguments; the wrapper only observes its end.
  return Object.fromEntries(timed) as unknown as Store;
}
