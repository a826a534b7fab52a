import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import { isReadyFor } from './is-ready-for.ts';
import { PAUSE_ANNOTATION } from './tenant-deps.ts';

/** How far a tenant has come towards what its resource and its plan say. */
export type Progress = {
  /** The revision that was last in force; absent where none has been seen in force. */
  readonly reached?: string;
  /** When the oldest change that is not in force was first seen, in ms since the epoch; absent: nothing is waited for. */
  readonly since?: number;
};

export type Observation = {
  readonly tenant: TenantResource;
  /** The plan it names; undefined where there is none. */
  readonly plan: PlanResource | undefined;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** It was there when this process began to look, and may have waited before. */
  readonly isFromBefore: boolean;
};

/**
 * What this observation of a tenant adds to what was known of it. `tookMs` is there when a change is found to be in force that
 * was waited for: once for each, and once for changes that came faster than they could be made true, from the first of
 * them. A status that comes and goes while nothing was changed is no change.
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
  // Something took Ready away from what was in force, such as a Vault that refuses.
  if (known.reached === revision) return { progress: known };
  return { progress: { ...known, since: since ?? (isFromBefore ? waitsSince(tenant, at) : at) } };
}

/** For how long the oldest change has been waited for, in milliseconds; 0 where none is. */
export function longestWaitMs(progress: Iterable<Progress>, now: number): number {
  let longest = 0;
  for (const { since = now } of progress) longest = Math.max(longest, now - since);
  return longest;
}

/** What people have to settle before anything can be made true. The clock begins when they have. */
const FAULTS_OF_USERS: readonly string[] = ['SlugConflict', 'Purging'];

function isExcused({ metadata, status }: TenantResource): boolean {
  if (metadata.annotations?.[PAUSE_ANNOTATION] === 'true') return true;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  // What was wrong with an earlier generation may be what this one fixes.
  return (
    ready?.status === 'False' &&
    status?.observedGeneration === metadata.generation &&
    FAULTS_OF_USERS.includes(ready.reason)
  );
}

/**
 * A resource without a status has waited since it was made, whether or not a controller ran. Of later changes nothing
 * tells the time: fields are managed together with labels, and a condition keeps its time through several causes. Those
 * made while no replica watched count from its start, which makes them look shorter than they were.
 */
function waitsSince({ metadata, status }: TenantResource, at: number): number {
  return status?.observedGeneration === undefined ? Math.min(at, Date.parse(metadata.creationTimestamp)) : at;
}
