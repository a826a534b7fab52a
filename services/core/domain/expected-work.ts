/**
 * Tells work that was to be expected from what was not: what a worker does of receipts, or in telling endpoints of events. Each
 * call for a message gives its tenant credit for what follows from it, and besides each tenant has a little at any time. What
 * goes beyond that is surplus. All tenants together are bounded as well: so much is done at once, and no more.
 */
export type ExpectedWork = {
  /** A message of the tenant was called for. */
  called(tenantId: string, now: number): void;
  /**
   * Takes steps of work from their tenants' credit.
   * @param steps by tenant.
   * @returns how many of them were surplus.
   */
  use(steps: ReadonlyMap<string, number>, now: number): number;
  /** Tenants that have used up what they had, and not earned some again; `everyone` where that holds of all together. */
  behind(now: number): Behind;
  /** Forgets tenants of which nothing was heard for some minutes. */
  forgetIdle(now: number): void;
  readonly size: number;
};

export type Behind = ReadonlySet<string> | 'everyone';

type Terms = {
  /** Had at any time. */
  readonly few: number;
  /** Until there are few again. */
  readonly perSecond: number;
  /** Earned ones are kept up to here. */
  readonly most: number;
};

/**
 * Most vendors report that they have sent a message, and what became of it. Each receipt is two steps: it is read out of the
 * vendor's call, and applied to its message. To tell an endpoint of an event is one.
 */
export const EARNED = 4;
export const OF_A_TENANT: Terms = { few: 128, perSecond: 32, most: 4_000 };
/** About a second's work of a worker. */
export const OF_ALL: Terms = { few: 512, perSecond: 256, most: 8_000 };
/** Part of the few that a tenant has to have again before its work is as good as others'. */
const AGAIN = 1 / 2;
const IDLE_MS = 10 * 60_000;

type Credit = { left: number; at: number; isBehind: boolean };

export function createExpectedWork(): ExpectedWork {
  const tenants = new Map<string, Credit>();
  const all = newCredit(OF_ALL, 0);
  /** Those among the tenants that were behind when last looked at. */
  const behind = new Set<string>();

  function creditOf(tenantId: string, now: number): Credit {
    let credit = tenants.get(tenantId);
    if (credit === undefined) {
      credit = newCredit(OF_A_TENANT, now);
      tenants.set(tenantId, credit);
    }
    refill(credit, OF_A_TENANT, now);
    return credit;
  }

  return {
    called(tenantId, now) {
      earn(creditOf(tenantId, now), OF_A_TENANT);
      refill(all, OF_ALL, now);
      earn(all, OF_ALL);
    },
    use(steps, now) {
      let sum = 0;
      let covered = 0;
      for (const [tenantId, some] of steps) {
        const credit = creditOf(tenantId, now);
        sum += some;
        covered += take(credit, some);
        if (credit.isBehind) behind.add(tenantId);
      }
      refill(all, OF_ALL, now);
      return sum - take(all, covered);
    },
    behind(now) {
      refill(all, OF_ALL, now);
      if (all.isBehind) return 'everyone';
      for (const id of behind) if (!creditOf(id, now).isBehind) behind.delete(id);
      return behind;
    },
    forgetIdle(now) {
      for (const [id, { at }] of tenants) {
        if (now - at < IDLE_MS) continue;
        tenants.delete(id);
        behind.delete(id);
      }
    },
    get size() {
      return tenants.size;
    },
  };
}

export function isBehind(behind: Behind, tenantId: string): boolean {
  return behind === 'everyone' || behind.has(tenantId);
}

const newCredit = ({ few }: Terms, at: number): Credit => ({ left: few, at, isBehind: false });

function refill(credit: Credit, { few, perSecond }: Terms, now: number): void {
  const seconds = Math.max(0, now - credit.at) / 1_000;
  credit.at = Math.max(credit.at, now);
  credit.left = Math.max(credit.left, Math.min(few, credit.left + seconds * perSecond));
  if (credit.left >= few * AGAIN) credit.isBehind = false;
}

function earn(credit: Credit, { most }: Terms): void {
  credit.left = Math.min(most, credit.left + EARNED);
}

/** @returns what there was of it. */
function take(credit: Credit, wanted: number): number {
  const taken = Math.min(wanted, credit.left);
  credit.left -= taken;
  if (taken < wanted) credit.isBehind = true;
  return taken;
}
