import type { Finding } from '../resources/own-conditions.ts';
import type { Condition } from '../resources/condition.ts';

export type Verdict = { readonly ok: boolean; readonly reason: string; readonly message: string };

/** The result of each step of a reconciliation. */
export type TenantVerdicts = {
  readonly plan: Verdict;
  readonly applied: Verdict;
  /** Null: the key was not checked, because there is no tenant that could have one. */
  readonly key: Verdict | null;
  /** Null when the resource does not own a tenant. */
  readonly suspension: { readonly isSuspended: boolean; readonly message: string } | null;
};

/** Returns the conditions of a tenant. `Ready` summarizes the others and names the first that fails. */
export function tenantFindings({ plan, applied, key, suspension }: TenantVerdicts): Finding[] {
  const steps: Finding[] = [
    finding('PlanResolved', plan),
    finding('Applied', applied),
    key === null
      ? {
          type: 'KeyProvisioned',
          status: 'Unknown',
          reason: 'NotApplied',
          message: 'There is no tenant to have a key',
        }
      : finding('KeyProvisioned', key),
  ];
  const failing = [plan, applied, ...(key === null ? [] : [key])].find(({ ok }) => !ok);
  return [
    failing === undefined
      ? { type: 'Ready', status: 'True', reason: 'Reconciled', message: 'The tenant is as declared' }
      : { type: 'Ready', status: 'False', reason: failing.reason, message: failing.message },
    ...steps,
    suspension === null
      ? {
          type: 'Suspended',
          status: 'Unknown',
          reason: 'NotApplied',
          message: 'The resource owns no tenant',
        }
      : {
          type: 'Suspended',
          status: suspension.isSuspended ? 'True' : 'False',
          reason: suspension.isSuspended ? 'SuspendedBySpec' : 'Active',
          message: suspension.message,
        },
  ];
}

/**
 * Used while something prevents the resource from being checked: the other conditions stay, and only `Ready` states the
 * reason.
 */
export function notReady(reason: string, message: string): Finding {
  return { type: 'Ready', status: 'False', reason, message };
}

/**
 * When a dependency did not answer, an unknown condition keeps its last known value and the generation that it was observed
 * for.
 */
export function withKnown(findings: readonly Finding[], known: readonly Condition[] = []): Finding[] {
  return findings.map((found) =>
    found.status === 'Unknown' ? (known.find(({ type }) => type === found.type) ?? found) : found,
  );
}

function finding(type: string, { ok, reason, message }: Verdict): Finding {
  return { type, status: ok ? 'True' : 'False', reason, message };
}

export function failed(reason: string, message: string): Verdict {
  return { ok: false, reason, message };
}
