import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import { isKubeError } from '../kube/kube-error.ts';
import { PLANS } from '../resources/kube-resources.ts';
import { builtInPlans } from './built-in-plans.ts';

type BuiltInPlansDeps = { readonly kube: Pick<KubeClient, 'create' | 'get'>; readonly log: Logger };

/**
 * Creates the built-in plans that do not exist; existing ones belong to the platform team and are not changed. A plan that
 * cannot be created does not keep the others from being created.
 * @throws AggregateError of the failures.
 */
export async function ensureBuiltInPlans(
  { kube, log }: BuiltInPlansDeps,
  signal: AbortSignal,
): Promise<void> {
  const made: string[] = [];
  const failed: { readonly name: string; readonly error: unknown }[] = [];
  for (const plan of builtInPlans()) {
    if (signal.aborted) break;
    const { name } = plan.metadata;
    try {
      if ((await kube.get(PLANS, plan.metadata, { signal })) !== undefined) continue;
      await kube.create(PLANS, plan, { signal });
      made.push(name);
    } catch (error) {
      // Another release created it first.
      if (!isKubeError(error, 409)) failed.push({ name, error });
    }
  }
  if (made.length > 0) log.info({ plans: made }, 'Created built-in plans');
  if (failed.length === 0) return;
  throw new AggregateError(
    failed.map(({ error }) => error),
    `Built-in plans could not be created: ${failed.map(({ name }) => name).join(', ')}`,
  );
}
