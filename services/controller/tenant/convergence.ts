import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import { isReadyFor } from './is-ready-for.ts';
import { PAUSE_ANNOTATION } from './tenant-deps.ts';

/** A tenant's progress towards the state that its resource and its plan request. */
export type Progress = {
  /** The revision that was last in force; absent if none has been seen in force. */
  readonly reached?: string;
  /** When the oldest pending change was first seen, in ms since the epoch; absent: no change is pending. */
  readonly since?: number;
};

export type Observation = {
  readonly tenant: TenantResource;
  /** The plan that it names; undefined if it does not exist. */
  readonly plan: PlanResource | undefined;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The tenant existed when this process started to observe, so it may have been waiting before. */
  readonly isFromBefore: boolean;
};

/**
 * Updates the known progress with one observation of a tenant. `tookMs` is set when a pending change is found to be in
 * force: once per change, and once for several changes that came faster than they could be applied, measured from the first
 * of them. A status that changes without a change of the request does not count.
 */
export function nextProgress(
  before: Progress | undefined,
  { tenant, plan, at, isFromBefore }: Observation,
): { readonly progress: Progress; readonly tookMs?: number } {
  const { since, ...known }: Progress = before ?? {};
  if (plan === undefined || isExcused(tenant)) return { progress: known };
  const revision = `${tenant.metadata.generation} ${plan.metadata.uid} ${plan.metadata.generation}`;
  if (isReadyFor(tenant, plan))
    return { progress: { reached: revision }, ...(since === undefined ? {} : { tookMs: at - since }) };
  // Something made an applied revision not Ready again, such as a Vault that refuses.
  if (known.reached === revision) return { progress: known };
  return { progress: { ...known, since: since ?? (isFromBefore ? waitsSince(tenant, at) : at) } };
}

/** Returns the age of the oldest pending change, in milliseconds; 0 when there is none. */
export function longestWaitMs(progress: Iterable<Progress>, now: number): number {
  let longest = 0;
  for (const { since = now } of progress) longest = Math.max(longest, now - since);
  return longest;
}

/** Reasons that people must resolve before a change can be applied. The clock starts when they have. */
const FAULTS_OF_USERS: readonly string[] = ['SlugConflict', 'SuspendedByAdmin', 'Purging'];

function isExcused({ metadata, status }: TenantResource): boolean {
  if (metadata.annotations?.[PAUSE_ANNOTATION] === 'true') return true;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  // This generation may fix what was wrong with an earlier one.
  return (
    ready?.status === 'False' &&
    status?.observedGeneration === metadata.generation &&
    FAULTS_OF_USERS.includes(ready.reason)
  );
}

/**
 * A resource without a status has been waiting since its creation, whether or not a controller ran. The time of later
 * changes is unknown: managed fields also change with labels, and a condition keeps its time across several causes. Changes
 * made while no replica was observing count from this process's start, so they appear shorter than they were.
 */
function waitsSince({ metadata, status }: TenantResource, at: number): number {
  return status?.observedGeneration === undefined ? Math.min(at, Date.parse(metadata.creationTimestamp)) : at;
}
