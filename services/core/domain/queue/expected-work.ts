/**
 * Separates expected work from surplus by token buckets: work on receipts, and deliveries of events to endpoints. Each call for a
 * message earns its tenant credit for the work that follows from it; besides, each tenant gets a small credit over time. Work
 * beyond the credit is surplus. A common credit bounds the work of all tenants together.
 */
export type ExpectedWork = {
  /** Adds the credit of a call for one of the tenant's messages. */
  called(tenantId: string, monotonicNow: number): void;
  /**
   * Takes work from the credit of its tenants.
   * @param steps amount of work by tenant.
   * @returns how much of it was surplus.
   */
  use(steps: ReadonlyMap<string, number>, monotonicNow: number): number;
  /**
   * Returns the tenants that have used up their credit and not regained part of it; `everyone` if the common credit is used up.
   */
  withSurplus(monotonicNow: number): TenantsWithSurplus;
  /** Drops tenants without activity for ten minutes. */
  forgetIdle(monotonicNow: number): void;
  readonly size: number;
};

export type TenantsWithSurplus = ReadonlySet<string> | 'everyone';
export const NO_TENANTS: TenantsWithSurplus = new Set();

type BucketTerms = {
  /** Credit that refills over time. */
  readonly burst: number;
  /** Refill rate up to `burst`. */
  readonly perSecond: number;
  /** Maximum credit, with what calls earn. */
  readonly earnedMax: number;
};

/**
 * Most vendors report that a message was sent, and later its result. Each receipt is two steps: it is read from the vendor's
 * call, and applied to its message. A delivery to an endpoint is one step.
 */
export const CREDIT_PER_CALL = 4;
export const TENANT_BUCKET: BucketTerms = { burst: 128, perSecond: 32, earnedMax: 4_000 };
/** About a second of a worker's work. */
export const COMMON_BUCKET: BucketTerms = { burst: 512, perSecond: 256, earnedMax: 8_000 };
/** Part of `burst` that a tenant must regain before it no longer has surplus. */
const REGAINED_PART = 1 / 2;
const IDLE_MS = 10 * 60_000;

type Credit = { left: number; at: number; hasSurplus: boolean };

export function createExpectedWork(): ExpectedWork {
  const tenants = new Map<string, Credit>();
  const all = newCredit(COMMON_BUCKET, 0);
  /** Tenants that had surplus when last checked. */
  const withSurplus = new Set<string>();

  function creditOf(tenantId: string, monotonicNow: number): Credit {
    let credit = tenants.get(tenantId);
    if (credit === undefined) {
      credit = newCredit(TENANT_BUCKET, monotonicNow);
      tenants.set(tenantId, credit);
    }
    refill(credit, TENANT_BUCKET, monotonicNow);
    return credit;
  }

  return {
    called(tenantId, monotonicNow) {
      earn(creditOf(tenantId, monotonicNow), TENANT_BUCKET);
      refill(all, COMMON_BUCKET, monotonicNow);
      earn(all, COMMON_BUCKET);
    },
    use(steps, monotonicNow) {
      let sum = 0;
      let covered = 0;
      for (const [tenantId, some] of steps) {
        const credit = creditOf(tenantId, monotonicNow);
        sum += some;
        covered += take(credit, some);
        if (credit.hasSurplus) withSurplus.add(tenantId);
      }
      refill(all, COMMON_BUCKET, monotonicNow);
      return sum - take(all, covered);
    },
    withSurplus(monotonicNow) {
      refill(all, COMMON_BUCKET, monotonicNow);
      if (all.hasSurplus) return 'everyone';
      for (const id of withSurplus) if (!creditOf(id, monotonicNow).hasSurplus) withSurplus.delete(id);
      return withSurplus;
    },
    forgetIdle(monotonicNow) {
      for (const [id, { at }] of tenants) {
        if (monotonicNow - at < IDLE_MS) continue;
        tenants.delete(id);
        withSurplus.delete(id);
      }
    },
    get size() {
      return tenants.size;
    },
  };
}

export function hasSurplus(tenants: TenantsWithSurplus, tenantId: string): boolean {
  return tenants === 'everyone' || tenants.has(tenantId);
}

export function hasAnySurplus(tenants: TenantsWithSurplus): boolean {
  return tenants === 'everyone' || tenants.size > 0;
}

const newCredit = ({ burst }: BucketTerms, at: number): Credit => ({ left: burst, at, hasSurplus: false });

function refill(credit: Credit, { burst, perSecond }: BucketTerms, monotonicNow: number): void {
  const seconds = Math.max(0, monotonicNow - credit.at) / 1_000;
  credit.at = Math.max(credit.at, monotonicNow);
  credit.left = Math.max(credit.left, Math.min(burst, credit.left + seconds * perSecond));
  if (credit.left >= burst * REGAINED_PART) credit.hasSurplus = false;
}

function earn(credit: Credit, { earnedMax }: BucketTerms): void {
  credit.left = Math.min(earnedMax, credit.left + CREDIT_PER_CALL);
}

/**
 * Takes work from a credit.
 * @returns the amount that the credit covered.
 */
function take(credit: Credit, wanted: number): number {
  const taken = Math.min(wanted, credit.left);
  credit.left -= taken;
  if (taken < wanted) credit.hasSurplus = true;
  return taken;
}
