import type { ProviderTrouble } from '../ledger.ts';
import type { Fault } from './fault.ts';

const TROUBLES: readonly ProviderTrouble[] = ['hang', 'reset', 'late', 'unavailable', 'throttled'];
/** Some of these come within the deadline of a call, some after it. */
const LATE_MS = { min: 200, max: 3_000 };

export const PROVIDER_FAULTS: readonly Fault[] = TROUBLES.map((trouble) => ({
  name: `provider-${trouble}`,
  async inject({ rig: { providers }, random }) {
    const lateMs = random.whole(LATE_MS.min, LATE_MS.max);
    providers.tell({ kind: 'behave', trouble, lateMs });
    return {
      target: 'providers',
      holdMs: random.whole(200, 1_000),
      heal: () => providers.tell({ kind: 'behave', trouble: 'none', lateMs: 0 }),
    };
  },
}));
