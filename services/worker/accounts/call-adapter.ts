import { Deadline } from '#core/platform/process/deadline.ts';
import type { ProviderCall } from '#providers/context.ts';
import type { ProviderContext } from '#providers/provider.ts';
import type { Account } from './accounts.ts';

export type CallAdapterDeps = {
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  /** Total time of the call in milliseconds. */
  readonly deadlineMs: number;
  /** Ends the call when aborted. */
  readonly signal?: AbortSignal | undefined;
  /** Called when an adapter throws, which is a bug. */
  readonly onAdapterFault: (provider: string, error: unknown) => void;
};

/**
 * Calls an adapter for something other than a send.
 * @param call gets the account's settings and secrets in the types of its own provider.
 * @param failed the result if the adapter throws.
 */
export async function callAdapter<Result>(
  { id: accountId, provider, version, config, secrets }: Account,
  { contextOf, deadlineMs, signal, onAdapterFault }: CallAdapterDeps,
  call: (known: never, context: ProviderContext) => Promise<Result>,
  failed: Result,
): Promise<Result> {
  using deadline = new Deadline(deadlineMs, signal && { parent: signal });
  try {
    const context = contextOf({ provider: provider.id, accountId, version, until: deadline.signal });
    return await call({ config, secrets } as never, context);
  } catch (error) {
    onAdapterFault(provider.id, error);
    return failed;
  }
}
