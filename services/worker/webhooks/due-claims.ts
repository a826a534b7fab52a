import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import type { EndpointCaller } from './endpoint-caller.ts';
import type { PaceClaims } from './pace-claims.ts';

export type DueClaimsDeps = {
  readonly store: Pick<WebhookStore, 'claimDeliveries'>;
  readonly caller: Pick<EndpointCaller, 'capacity' | 'take'>;
  readonly pace: PaceClaims;
  /** Duration of a claim's lease in milliseconds. */
  readonly leaseMs: number;
  readonly isStopping: () => boolean;
};

/** Claims due deliveries, as far as there is capacity. */
export type DueClaims = {
  /** @throws after the others are claimed, if the events of an endpoint cannot be read. */
  claim(): Promise<void>;
  /** Whether the last query left due deliveries for lack of capacity. */
  readonly isLeftDue: boolean;
};

const ENDPOINTS_AT_ONCE = 64;
/** Queries of one `claim`; the next `claim` continues from the cursor. */
const QUERIES_MAX = 16;

export function createDueClaims({ store, caller, pace, leaseMs, isStopping }: DueClaimsDeps): DueClaims {
  let cursor: string | null = null;
  let isLeftDue = false;

  /** @returns an error for each endpoint whose events cannot be read. */
  async function claimDue(): Promise<readonly Error[]> {
    const failed: Error[] = [];
    for (let queries = 0; queries < QUERIES_MAX && !isStopping(); queries++) {
      const capacity = caller.capacity();
      if (capacity.claimsMax === 0) {
        isLeftDue = true;
        break;
      }
      const ask = { after: cursor, endpointsMax: ENDPOINTS_AT_ONCE, ...capacity, leaseMs };
      const { claims, next, failures } = await pace(
        () => store.claimDeliveries(ask),
        (claimed) => claimed.claims.map(({ endpoint }) => endpoint.tenantId),
      );
      failed.push(...failures);
      caller.take(claims);
      // The rest of an endpoint's events is claimed when a present claim of it is finished.
      const mayBeLeft = claims.length > 0 || ask.busy.length > 0;
      isLeftDue = cursor === null ? mayBeLeft : isLeftDue || mayBeLeft;
      cursor = next;
      if (cursor === null) break;
    }
    return failed;
  }

  return {
    async claim() {
      const failed = await claimDue();
      if (failed.length > 0)
        throw new AggregateError(failed, `events of ${failed.length} endpoints cannot be read`);
    },
    get isLeftDue() {
      return isLeftDue;
    },
  };
}
