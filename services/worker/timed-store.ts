import type { DeliveryStore } from '#core/store/deliveries.ts';

type Operation = (...args: readonly unknown[]) => Promise<unknown>;

/** The same store, which tells how long each operation took, also one that failed. */
export function timedStore(
  store: DeliveryStore,
  observe: (op: string, seconds: number) => void,
): DeliveryStore {
  const timed = Object.entries(store).map(([name, operation]) => {
    const op = name.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`);
    const call: Operation = async (...args) => {
      const started = performance.now();
      try {
        return await (operation as Operation)(...args);
      } finally {
        observe(op, (performance.now() - started) / 1_000);
      }
    };
    return [name, call] as const;
  });
  // Each operation is called with what it was declared for; only its duration is looked at here.
  return Object.fromEntries(timed) as unknown as DeliveryStore;
}
