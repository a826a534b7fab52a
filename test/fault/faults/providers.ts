import { FIRST_ACCOUNTS } from '../accounts.ts';
import type { ProviderTrouble } from '../ledger.ts';
import type { Fault } from './fault.ts';

const TROUBLES: readonly ProviderTrouble[] = ['hang', 'reset', 'late', 'unavailable', 'throttled'];
/** Some of these delays end before the deadline of a call, some after it. */
const LATE_MS = { min: 200, max: 3_000 };

const troubled: Fault[] = TROUBLES.map((trouble) => ({
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

/** Faults of the accounts that routes try first: their messages fail over to the next account. */
const firstAccounts: Fault[] = (['unavailable', 'reset'] as const).map((trouble) => ({
  name: `first-account-${trouble}`,
  async inject({ rig: { providers }, random }) {
    providers.tell({ kind: 'behave', trouble, lateMs: 0, accounts: FIRST_ACCOUNTS });
    return {
      target: `accounts ${FIRST_ACCOUNTS}…`,
      holdMs: random.whole(1_000, 3_000),
      heal: () => providers.tell({ kind: 'behave', trouble: 'none', lateMs: 0 }),
    };
  },
}));

export const PROVIDER_FAULTS: readonly Fault[] = [...troubled, ...firstAccounts];
