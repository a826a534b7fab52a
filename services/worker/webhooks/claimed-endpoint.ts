import type { HeldClaims } from '#core/domain/webhooks/claim-room.ts';
import type { DeliveryClaim, WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import type { ReadyEndpoint } from './deliver-event.ts';
import type { EndpointRun } from './endpoint-run.ts';

/** An endpoint with claims in this process. */
export type ClaimedEndpoint = {
  readonly run: EndpointRun;
  readonly tenantId: string;
  /** Undefined while the secrets are being loaded. */
  ready: ReadyEndpoint | undefined;
  isLoading: boolean;
  /** Claims that are not recorded. */
  claims: number;
  /** Consecutive failures that this process has seen. */
  failures: number;
  /** Whether calls are blocked until the endpoint's stored health is known. */
  isHeld: boolean;
  /** When it last had as many calls as an endpoint may have, in milliseconds since the epoch: until then it waited for itself. */
  fullAt: number;
};

export function claimedEndpoint(run: EndpointRun): ClaimedEndpoint {
  return {
    run,
    tenantId: run.endpoint.tenantId,
    ready: undefined,
    isLoading: false,
    claims: 0,
    failures: 0,
    isHeld: false,
    fullAt: 0,
  };
}

/** Whether calls may be made: the endpoint may have been paused, or have failed, between the claim and the read of its settings. */
export function mayBeCalled({ endpoint: { status }, isProbe }: DeliveryClaim): boolean {
  return status === 'active' || (status === 'failing' && isProbe);
}

/**
 * Whether two versions of an endpoint sign with the same keys. Neither a change of the tenant's signing key nor the end of a
 * previous secret changes the endpoint's version.
 */
export function hasSameKeys(one: WebhookEndpoint, other: WebhookEndpoint): boolean {
  return (
    one.version === other.version &&
    one.previousSecret === other.previousSecret &&
    one.signingKey?.id === other.signingKey?.id
  );
}

export function heldClaims({ run, tenantId, claims, ready, isHeld }: ClaimedEndpoint): HeldClaims {
  return {
    endpointId: run.endpoint.id,
    tenantId,
    claims,
    waitingClaims: run.waitingClaims,
    waitingEvents: run.waitingEvents,
    // The claims of one query form one sequence for an ordered endpoint.
    isClosed: run.endpoint.ordered || ready === undefined || isHeld,
  };
}
