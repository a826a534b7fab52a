import type { KubeClient } from '../kube/kube-client.ts';
import { isKubeError } from '../kube/kube-error.ts';
import { PLANS } from '../resources/kube-resources.ts';
import { builtInPlans } from './built-in-plans.ts';

/**
 * Creates the built-in plans that do not exist; existing ones belong to the platform team and are not changed. Returns the
 * names of the created ones.
 */
export async function ensureBuiltInPlans(
  kube: Pick<KubeClient, 'create' | 'get'>,
  signal: AbortSignal,
): Promise<string[]> {
  const made: string[] = [];
  for (const plan of builtInPlans()) {
    if ((await kube.get(PLANS, plan.metadata, { signal })) !== undefined) continue;
    try {
      await kube.create(PLANS, plan, { signal });
      made.push(plan.metadata.name);
    } catch (error) {
      // Another release created it first.
      if (!isKubeError(error, 409)) throw error;
    }
  }
  return made;
}
