import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import { slowedGapMs } from '#core/domain/tenant/brake.ts';
import { decideBrake } from '#core/domain/tenant/decide-brake.ts';
import { effectiveLimits } from '#core/domain/tenant/plan.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { CountedWindow, DecidedBrake } from '#core/store/tenants/usage-counting.ts';

export type BrakeChannels = (windows: readonly CountedWindow[]) => Promise<AuditEntry[]>;

/**
 * Decides about brakes on the channels that a counting pass has updated, and applies them. A pass returns each change once: what
 * could not be applied is applied with the next call, unless that decides anew about the same channel.
 * @returns an audit entry for each brake that was applied.
 */
export function createBrakeChannels(store: Pick<WorkerStore, 'applyBrakes'>): BrakeChannels {
  const unapplied = new Map<string, DecidedBrake>();
  return async (windows) => {
    for (const window of windows) {
      const name = `${window.tenantId} ${window.channel}`;
      const decided = decide(window);
      if (decided === null) unapplied.delete(name);
      else unapplied.set(name, decided);
    }
    const taken = [...unapplied];
    if (taken.length === 0) return [];
    const entries = await store.applyBrakes(taken.map(([, decided]) => decided));
    for (const [name, decided] of taken) if (unapplied.get(name) === decided) unapplied.delete(name);
    return entries;
  };
}

function decide(window: CountedWindow): DecidedBrake | null {
  const { tenantId, channel, liftedAt, busiestHour } = window;
  const decision = decideBrake(window, effectiveLimits(window.limits));
  return decision === null
    ? null
    : { ...decision, tenantId, channel, liftedAt, gapMs: slowedGapMs(busiestHour) };
}
