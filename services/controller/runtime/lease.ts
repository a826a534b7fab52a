import type { KubeObject, KubeResource } from '../kube/kube-object.ts';
import { microTime } from '../kube/kube-time.ts';

export const LEASES: KubeResource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
};

export type LeaseSpec = {
  /** Absent or empty: nobody holds it. */
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  /** Times of the holder's clock, which nobody else believes. */
  readonly acquireTime?: string;
  readonly renewTime?: string;
  readonly leaseTransitions?: number;
};

export type Lease = KubeObject & { readonly spec?: LeaseSpec };

export type Claim = {
  readonly identity: string;
  readonly durationMs: number;
  /** The claimant's clock, in milliseconds since the epoch. */
  readonly now: number;
};

/** The record that says: mine from now on, or still mine. */
export function claimed(spec: LeaseSpec | undefined, { identity, durationMs, now }: Claim): LeaseSpec {
  const isMine = spec?.holderIdentity === identity;
  const transitions = spec?.leaseTransitions ?? 0;
  return {
    holderIdentity: identity,
    leaseDurationSeconds: Math.ceil(durationMs / 1_000),
    acquireTime: isMine && spec.acquireTime !== undefined ? spec.acquireTime : microTime(now),
    renewTime: microTime(now),
    leaseTransitions: isMine || spec === undefined ? transitions : transitions + 1,
  };
}

/** The record that says: whoever wants it may have it. */
export function released(spec: LeaseSpec | undefined, now: number): LeaseSpec {
  return {
    holderIdentity: '',
    // Zero is not allowed.
    leaseDurationSeconds: 1,
    acquireTime: microTime(now),
    renewTime: microTime(now),
    leaseTransitions: spec?.leaseTransitions ?? 0,
  };
}
