import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import type { Reconcile, ReconcileResult } from '../runtime/controller-loop.ts';
import { finalizeTenant } from './finalize-tenant.ts';
import { isReadyFor } from './is-ready-for.ts';
import { nextRotation } from './key-rotation.ts';
import { keepKey } from './keep-key.ts';
import { PAUSE_ANNOTATION, TENANT_FINALIZER, type TenantDeps } from './tenant-deps.ts';
import { factsFound, factsKnown } from './tenant-facts.ts';
import { notReady, tenantFindings, withKnown, failed, type Verdict } from './tenant-findings.ts';
import { suspensionOf } from './wanted-tenant.ts';
import { writeNotReady, writeStatus } from './write-status.ts';
import { applyTenant } from './apply-tenant.ts';

/** A slug may become free at any time without a notification. */
const CONFLICT_RECHECK_MS = 60_000;
/**
 * Applies a tenant's resource: first in Postgres, because suspension and limits must not wait for Vault, then its key. Each
 * step is idempotent, and an unchanged resource causes only reads. Failed steps are reported in the status and thrown, to
 * be retried.
 *
 * An unchanged resource that is Ready stays so while dependencies are unavailable: nothing contradicts it. It waits for its
 * next regular resync, so that after an outage changed resources do not queue behind all others.
 */
export function createTenantReconciler(deps: TenantDeps): Reconcile {
  return async (key, signal, log): Promise<ReconcileResult> => {
    const found = deps.tenants.get(key);
    if (found === undefined) return {};
    if (found.metadata.annotations?.[PAUSE_ANNOTATION] === 'true') {
      const ready = notReady('Paused', `Paused by the annotation ${PAUSE_ANNOTATION}`);
      await writeNotReady(deps, found, ready, signal);
      return {};
    }
    if (found.metadata.deletionTimestamp !== undefined) return finalizeTenant(deps, found, signal);
    const tenant = found.metadata.finalizers?.includes(TENANT_FINALIZER)
      ? found
      : await deps.resources.addFinalizer(found, signal);
    if (tenant === undefined) return {};

    const planName = tenant.spec.planRef.name;
    const plan = deps.plans.get(planName);
    const applied = await applyTenant(deps, tenant, plan, log);
    const kept = applied.id === null ? null : await keepKey(deps, tenant, applied.id, log);
    const isUnanswered = applied.isUnanswered === true || kept?.isUnanswered === true;
    if (isUnanswered && plan !== undefined && isReadyFor(tenant, plan))
      return { requeueAfterMs: nextLookMs(deps, tenant) };

    const findings = tenantFindings({
      plan: planVerdict(planName, plan),
      applied: applied.verdict,
      key: kept?.verdict ?? null,
      suspension: applied.id === null ? null : suspensionFound(tenant),
    });
    const known = tenant.status?.conditions;
    await writeStatus(
      deps,
      tenant,
      {
        facts: applied.fault === undefined ? factsFound(tenant, applied, kept?.key) : factsKnown(tenant),
        findings: applied.fault === undefined ? findings : withKnown(findings, known),
      },
      signal,
    );
    const fault = applied.fault ?? kept?.fault;
    if (fault !== undefined) throw fault;
    if (!applied.verdict.ok) return { requeueAfterMs: applied.recheckMs ?? CONFLICT_RECHECK_MS };
    return { requeueAfterMs: nextLookMs(deps, tenant, kept?.key?.rotatedAt) };
  };
}

function planVerdict(name: string, plan: PlanResource | undefined): Verdict {
  return plan === undefined
    ? failed('PlanNotFound', `There is no plan '${name}'; the last known limits stay in force`)
    : { ok: true, reason: 'PlanFound', message: `Limits come from the plan '${name}'` };
}

function suspensionFound(tenant: TenantResource) {
  const suspension = suspensionOf(tenant);
  return {
    isSuspended: suspension !== null,
    message: suspension === null ? 'The tenant is active' : `Suspended: ${suspension}`,
  };
}

function nextLookMs({ resyncMs, random, now }: TenantDeps, tenant: TenantResource, rotatedAt?: Date): number {
  const resync = resyncMs * (0.8 + 0.4 * random());
  const due = rotatedAt && nextRotation(rotatedAt, tenant.spec.encryption.keyRotationPeriodDays);
  return due === undefined ? resync : Math.max(1_000, Math.min(resync, due.getTime() - now().getTime()));
}
