import type { Finding } from '../conditions.ts';
import type { Condition } from '../resources/condition.ts';

export type Verdict = { readonly ok: boolean; readonly reason: string; readonly message: string };

/** What a reconciliation found out about each of its steps. */
export type TenantVerdicts = {
  readonly plan: Verdict;
  readonly applied: Verdict;
  /** Null: the key was not looked at, as there is no tenant to have one. */
  readonly key: Verdict | null;
  /** Null where the resource does not speak for a tenant. */
  readonly suspension: { readonly isSuspended: boolean; readonly message: string } | null;
};

/** Conditions of a tenant. `Ready` sums the others up and names the first that fails. */
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
          message: 'The resource speaks for no tenant',
        }
      : {
          type: 'Suspended',
          status: suspension.isSuspended ? 'True' : 'False',
          reason: suspension.isSuspended ? 'SuspendedBySpec' : 'Active',
          message: suspension.message,
        },
  ];
}

/** While something keeps the resource from being looked at: what was known before stays, only `Ready` says why. */
export function notReady(reason: string, message: string): Finding {
  return { type: 'Ready', status: 'False', reason, message };
}

/** Where nothing could be asked, what is unknown now stays as it was known, of the generation of which that was. */
export function withKnown(findings: readonly Finding[], known: readonly Condition[] = []): Finding[] {
  return findings.map((found) =>
    found.status === 'Unknown' ? (known.find(({ type }) => type === found.type) ?? found) : found,
  );
}

function finding(type: string, { ok, reason, message }: Verdict): Finding {
  return { type, status: ok ? 'True' : 'False', reason, message };
}
