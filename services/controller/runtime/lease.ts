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
  /** Absent or empty: no holder. */
  readonly holderIdentity?: string;
  readonly leaseDurationSeconds?: number;
  /** Times by the holder's clock; other processes do not rely on them. */
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

/** Returns the spec with which a process claims or renews the lease. */
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

/** Returns the spec with which the holder releases the lease. */
export function released(spec: LeaseSpec | undefined, now: number): LeaseSpec {
  return {
    holderIdentity: '',
    // The API does not allow zero.
    leaseDurationSeconds: 1,
    acquireTime: microTime(now),
    renewTime: microTime(now),
    leaseTransitions: spec?.leaseTransitions ?? 0,
  };
}
