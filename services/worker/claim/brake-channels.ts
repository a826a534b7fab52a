import type { AuditEntry } from '#core/domain/audit-entry.ts';
import { slowedGapMs } from '#core/domain/brake.ts';
import { decideBrake } from '#core/domain/decide-brake.ts';
import { effectiveLimits } from '#core/domain/plan.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { CountedWindow } from '#core/store/usage-counting.ts';

/**
 * Decides about brakes on the channels that a counting pass has updated.
 * @returns an audit entry for each brake that was applied.
 */
export async function brakeChannels(
  store: Pick<DeliveryStore, 'applyBrakes'>,
  windows: readonly CountedWindow[],
): Promise<AuditEntry[]> {
  const decided = windows.flatMap((window) => {
    const { tenantId, channel, liftedAt, busiestHour } = window;
    const decision = decideBrake(window, effectiveLimits(window.limits));
    return decision === null
      ? []
      : [{ ...decision, tenantId, channel, liftedAt, gapMs: slowedGapMs(busiestHour) }];
  });
  return decided.length === 0 ? [] : store.applyBrakes(decided);
}
