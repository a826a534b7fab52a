import { withDeadline } from './postgres.ts';

type Operation = (...args: readonly unknown[]) => Promise<unknown>;

/**
 * The same store, whose callers wait no longer than this for any operation, in milliseconds; `own` holds those that may
 * take another time. What an operation asked for may still come to pass later.
 * @throws DependencyError where the deadline passes first.
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
  // Each operation is called with what it was declared for; only how long it is waited for is looked at here.
  return Object.fromEntries(bounded) as unknown as Store;
}
