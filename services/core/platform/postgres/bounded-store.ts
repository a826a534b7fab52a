import { withDeadline } from './postgres.ts';

type Operation = (...args: readonly unknown[]) => Promise<unknown>;

/**
 * Returns the same store with a deadline for each operation, in milliseconds; `own` contains the operations with another
 * deadline. The database may still execute an operation after its deadline.
 * @throws DependencyError if the deadline passes first.
 */
export function boundedStore<Store extends object>(
  store: Store,
  deadlineMs: number,
  own: { readonly [Name in keyof Store]?: number } = {},
): Store {
  const bounded = Object.entries(store).map(([name, operation]) => {
    const limitMs = own[name as keyof Store] ?? deadlineMs;
    const call: Operation = (...args) => withDeadline((operation as Operation)(...args), limitMs);
    return [name, call] as const;
  });
  // Each operation is called with its declared arguments; the wrapper only bounds the wait.
  return Object.fromEntries(bounded) as unknown as Store;
}
