import { randomUUID } from 'node:crypto';
import type { KubeCall, KubeClient } from '../kube/kube-client.ts';
import { isKubeError } from '../kube/kube-error.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import { pause } from '#core/platform/process/pause.ts';
import { claimed, LEASES, released, type Lease } from './lease.ts';

/** Acquires the lease and holds it. */
export type Elector = {
  /** The given name plus a random part: a restarted process has another identity. */
  readonly identity: string;
  /** Resolves when this process leads. Never rejects; stays pending if it never leads. */
  readonly elected: Promise<void>;
  /**
   * Returns whether this process may write now, by the clock alone: true only within the renew deadline of the last
   * renewal, so that a process that was suspended for a while knows before anything else runs.
   */
  readonly isLeading: () => boolean;
  /** Returns whether the held lease expired, plus a tolerance, without the process ending. For liveness. */
  readonly isOverdue: () => boolean;
  /** Runs once, until the signal aborts or the lease is lost. */
  readonly run: (signal: AbortSignal) => Promise<'stopped' | 'lost'>;
  /**
   * Releases the lease, so that the next leader need not wait for it to expire. Call it after `run` and after the last
   * write.
   */
  readonly release: () => Promise<void>;
};

export type ElectorOptions = {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly namespace: string;
  readonly leaseName: string;
  /** Display name of the process, for example the pod. */
  readonly name: string;
  /** How long other candidates wait after the last change of the lease that they saw. Default 15,000. */
  readonly durationMs?: number;
  /** How long the leader continues without a renewal; well below the duration. Default 10,000. */
  readonly renewDeadlineMs?: number;
  /** Interval between attempts. Default 2,000. */
  readonly retryPeriodMs?: number;
  readonly log: Logger;
  /** Called on gaining and on losing the lease, for `leader_election_master_status`. */
  readonly onChange?: (isLeading: boolean) => void;
};

const OVERDUE_TOLERANCE_MS = 20_000;
const RELEASE_MS = 5_000;

/**
 * Leader election over a Lease. Wall clocks of different processes are never compared: a candidate takes the lease when it
 * has seen no change of it for its duration, by its own monotonic clock; the leader counts from before it sent the last
 * successful renewal, so it stops before any candidate may start. Writes are compare-and-set on the version that was read.
 *
 * The lease is not a fence: a lost lease is noticed up to a retry period later. Writes to other systems need their own
 * guard.
 */
export function createElector(options: ElectorOptions): Elector {
  const { client, namespace, leaseName, log, onChange } = options;
  const { durationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2_000 } = options;
  const identity = `${options.name}_${randomUUID()}`;
  const ref = { namespace, name: leaseName };
  const elected = Promise.withResolvers<void>();
  /** The lease as last read or written, and when its spec was last seen to change. */
  let seen: { readonly lease: Lease; readonly changedAt: number } | undefined;
  /** When the last successful claim was sent. */
  let claimedAt = -Infinity;
  let isOver = false;

  const leftMs = (): number => claimedAt + renewDeadlineMs - performance.now();
  const isLeading = (): boolean => !isOver && leftMs() > 0;

  const see = (lease: Lease): void => {
    const before = seen?.lease.spec;
    // Only the spec counts: changing the lease's labels does not keep it held.
    const isSame = JSON.stringify(before) === JSON.stringify(lease.spec);
    const holder = lease.spec?.holderIdentity ?? '';
    if (holder !== '' && holder !== identity && holder !== before?.holderIdentity)
      log.info({ lease: leaseName, leader: holder }, 'Another process leads');
    seen = { lease, changedAt: seen !== undefined && isSame ? seen.changedAt : performance.now() };
  };

  const read = async (call: KubeCall): Promise<void> => {
    const lease = await client.get<Lease>(LEASES, ref, call);
    if (lease === undefined) seen = undefined;
    else see(lease);
  };

  /** Returns whether the lease as last seen is ours, has no holder, or has expired. */
  const isFree = (): boolean => {
    if (seen === undefined) return true;
    const { spec } = seen.lease;
    const holder = spec?.holderIdentity ?? '';
    if (holder === '' || holder === identity) return true;
    const heldMs = (spec?.leaseDurationSeconds ?? durationMs / 1_000) * 1_000;
    return performance.now() - seen.changedAt >= heldMs;
  };

  /** Writes a spec that names this process as holder. @throws KubeError 409 when the lease changed since it was read. */
  const claim = async (call: KubeCall): Promise<void> => {
    const sentAt = performance.now();
    const spec = claimed(seen?.lease.spec, { identity, durationMs, now: Date.now() });
    const lease =
      seen === undefined
        ? await client.create<Lease>(LEASES, { metadata: ref, spec }, call)
        : await client.replace<Lease>(LEASES, { ...seen.lease, spec }, call);
    claimedAt = sentAt;
    see(lease);
  };

  const acquire = async (signal: AbortSignal): Promise<void> => {
    const call = { signal, deadlineMs: renewDeadlineMs, attemptMs: renewDeadlineMs / 2 };
    while (!signal.aborted) {
      try {
        await read(call);
        if (isFree()) await claim(call);
        // A claim that was answered after its renew deadline does not count.
        if (isLeading()) return;
      } catch (error) {
        // A conflict with another candidate or an unavailable server: the next attempt handles both.
        if (!signal.aborted && !isKubeError(error, 409))
          log.warn({ err: error, lease: leaseName }, 'Could not run for the lease');
      }
      await pause(retryPeriodMs * (1 + 0.2 * Math.random()), signal);
    }
  };

  /** @returns false when another process holds the lease. */
  const renew = async (signal: AbortSignal): Promise<boolean> => {
    for (let isStale = false; isLeading() && !signal.aborted; isStale = true) {
      const call = { signal, deadlineMs: leftMs(), attemptMs: renewDeadlineMs / 3 };
      try {
        if (isStale) await read(call);
        if (!isFree()) return false;
        await claim(call);
        return true;
      } catch (error) {
        if (signal.aborted) return true;
        // The lease changed since our last write: read it again immediately, because another process may hold it.
        if (isKubeError(error, 409) || isKubeError(error, 404)) continue;
        log.warn({ err: error, lease: leaseName }, 'Could not renew the lease');
        return true;
      }
    }
    return true;
  };

  const hold = async (signal: AbortSignal): Promise<'stopped' | 'lost'> => {
    for (;;) {
      await pause(Math.max(0, Math.min(retryPeriodMs, leftMs())), signal);
      if (signal.aborted) return 'stopped';
      if (!isLeading() || !(await renew(signal))) return 'lost';
    }
  };

  return {
    identity,
    elected: elected.promise,
    isLeading,
    isOverdue: () =>
      !isOver &&
      Number.isFinite(claimedAt) &&
      performance.now() - claimedAt > durationMs + OVERDUE_TOLERANCE_MS,
    async run(signal) {
      await acquire(signal);
      if (!isLeading()) return 'stopped';
      log.info({ lease: leaseName, identity }, 'Leading');
      onChange?.(true);
      elected.resolve();
      const end = await hold(signal);
      isOver = true;
      onChange?.(false);
      return end;
    },
    async release() {
      if (seen?.lease.spec?.holderIdentity !== identity) return;
      using deadline = new Deadline(RELEASE_MS);
      const call = { signal: deadline.signal };
      try {
        // The last renewal may have been written although its call was aborted.
        await read(call);
        if (seen?.lease.spec?.holderIdentity !== identity) return;
        const { lease } = seen;
        await client.replace<Lease>(LEASES, { ...lease, spec: released(lease.spec, Date.now()) }, call);
        log.info({ lease: leaseName }, 'Gave up the lease');
      } catch (error) {
        // The lease expires by itself.
        log.warn({ err: error, lease: leaseName }, 'Could not give up the lease');
      }
    },
  };
}
