import { matchesEndpoint } from '#core/domain/webhooks/webhook-endpoint.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import type { EndpointCaller } from './endpoint-caller.ts';
import type { PaceClaims } from './pace-claims.ts';

export type EventMatcherDeps = {
  readonly store: Pick<WebhookStore, 'matchEvents'>;
  readonly caller: Pick<EndpointCaller, 'capacity' | 'take'>;
  readonly pace: PaceClaims;
  /** Duration of a claim's lease in milliseconds. */
  readonly leaseMs: number;
  readonly isStopping: () => boolean;
  /** Called when there may be due deliveries to claim. */
  readonly onDue: () => void;
  /** Called when tenants wait to be matched, now or after a delay. */
  readonly onBehind: (delayMs?: number) => void;
};

/** Matches new events of tenants with the filters of their endpoints. */
export type EventMatcher = {
  /** Notes tenants with new events. */
  matchSoon(tenantIds: readonly string[]): void;
  /** Matches the noted tenants. @throws after the others are matched, if some failed. */
  match(): Promise<void>;
};

const TENANTS_AT_ONCE = 50;
/** Delay before a locked endpoint is matched again; it doubles with each consecutive miss. */
const MISSED_MS_MIN = 50;
const MISSED_MS_MAX = 1_600;

export function createEventMatcher(deps: EventMatcherDeps): EventMatcher {
  const waiting = new Set<string>();
  let missedMs = MISSED_MS_MIN;

  /** Retries missed tenants after a delay; by then the endpoint's row is usually unlocked. */
  function matchMissed(tenantIds: ReadonlySet<string>): void {
    if (tenantIds.size === 0) {
      missedMs = MISSED_MS_MIN;
      return;
    }
    for (const id of tenantIds) waiting.add(id);
    deps.onBehind(missedMs);
    missedMs = Math.min(2 * missedMs, MISSED_MS_MAX);
  }

  return {
    matchSoon(tenantIds) {
      if (tenantIds.length === 0) return;
      for (const id of tenantIds) waiting.add(id);
      deps.onBehind();
    },
    async match() {
      const failed: unknown[] = [];
      const missed = new Set<string>();
      try {
        while (waiting.size > 0 && !deps.isStopping()) {
          const ids = [...waiting].slice(0, TENANTS_AT_ONCE);
          for (const id of ids) waiting.delete(id);
          const terms = { match: matchesEndpoint, ...deps.caller.capacity(), leaseMs: deps.leaseMs };
          const matched = await deps.pace(
            () => deps.store.matchEvents(ids, terms),
            () => ids,
          );
          failed.push(...matched.failures);
          deps.caller.take(matched.claims);
          for (const id of matched.behind) waiting.add(id);
          for (const id of matched.missed) missed.add(id);
          if (matched.isLeftDue) deps.onDue();
        }
      } finally {
        matchMissed(missed);
      }
      if (failed.length > 0) throw new AggregateError(failed, `${failed.length} tenants are not matched`);
    },
  };
}
