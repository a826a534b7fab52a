import { randomUUID } from 'node:crypto';
import type { KubeCall, KubeClient } from '../kube/kube-client.ts';
import { isKubeError } from '../kube/kube-error.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import { pause } from '#core/platform/process/pause.ts';
import { claimed, LEASES, released, type Lease } from './lease.ts';

/** Runs for the lease, and holds it. */
export type Elector = {
  /** The given name and a part of its own: a process that was restarted is another one. */
  readonly identity: string;
  /** Resolves when this process leads. Never rejects; pending for ever where it never does. */
  readonly elected: Promise<void>;
  /**
   * Whether this process may write now, by the clock alone: true only within the renew deadline of the last renewal, so
   * that a process that was stopped for a while knows before anything else runs.
   */
  readonly isLeading: () => boolean;
  /** Whether the lease was held and has run out, tolerance included, without an end of the process. For liveness. */
  readonly isOverdue: () => boolean;
  /** Runs until the signal or until the lease is lost, and never again. */
  readonly run: (signal: AbortSignal) => Promise<'stopped' | 'lost'>;
  /** Gives the lease up, so that the next one need not wait for its end. Call it after `run` and the last write. */
  readonly release: () => Promise<void>;
};

export type ElectorOptions = {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly namespace: string;
  readonly leaseName: string;
  /** Names the process for people, for example the pod. */
  readonly name: string;
  /** How long others wait after the last change that they saw. Default 15,000. */
  readonly durationMs?: number;
  /** How long the leader goes on without a renewal; well below the duration. Default 10,000. */
  readonly renewDeadlineMs?: number;
  /** Between two tries. Default 2,000. */
  readonly retryPeriodMs?: number;
  readonly log: Logger;
  /** Told of both changes, for `leader_election_master_status`. */
  readonly onChange?: (isLeading: boolean) => void;
};

const OVERDUE_TOLERANCE_MS = 20_000;
const RELEASE_MS = 5_000;

/**
 * Leader election over a Lease. Nobody's wall clock is compared with another's: a candidate takes the lease when it has
 * seen no change of it for its duration, by its own monotonic clock; the leader counts from before it sent the renewal
 * that succeeded, so it gives up before any candidate may begin. Writes are bound to the version that was read.
 *
 * It is not a fence: between the loss of a lease and its notice lies up to a retry period. What is written elsewhere needs
 * a guard of its own.
 */
export function createElector(options: ElectorOptions): Elector {
  const { client, namespace, leaseName, log, onChange } = options;
  const { durationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2_000 } = options;
  const identity = `${options.name}_${randomUUID()}`;
  const ref = { namespace, name: leaseName };
  const elected = Promise.withResolvers<void>();
  /** The lease as last read or written, and when its record was seen to change. */
  let seen: { readonly lease: Lease; readonly changedAt: number } | undefined;
  /** When the last successful claim was sent. */
  let claimedAt = -Infinity;
  let isOver = false;

  const leftMs = (): number => claimedAt + renewDeadlineMs - performance.now();
  const isLeading = (): boolean => !isOver && leftMs() > 0;

  const see = (lease: Lease): void => {
    const before = seen?.lease.spec;
    // The record alone counts: whoever labels the lease again and again does not keep it held.
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

  /** Whether the lease as it was last seen is ours, nobody's, or run out. */
  const isFree = (): boolean => {
    if (seen === undefined) return true;
    const { spec } = seen.lease;
    const holder = spec?.holderIdentity ?? '';
    if (holder === '' || holder === identity) return true;
    const heldMs = (spec?.leaseDurationSeconds ?? durationMs / 1_000) * 1_000;
    return performance.now() - seen.changedAt >= heldMs;
  };

  /** Writes the record that says: mine. @throws KubeError 409 where the lease is no longer as it was seen. */
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
        // An answer that took too long is no lease.
        if (isLeading()) return;
      } catch (error) {
        // Someone else was quicker, or the server is away: both are for the next try.
        if (!signal.aborted && !isKubeError(error, 409))
          log.warn({ err: error, lease: leaseName }, 'Could not run for the lease');
      }
      await pause(retryPeriodMs * (1 + 0.2 * Math.random()), signal);
    }
  };

  /** @returns false where the lease is another's now. */
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
        // Not as we wrote it last: it is read anew at once, as someone else may hold it.
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
        // The last renewal may have been cut off after it was written.
        await read(call);
        if (seen?.lease.spec?.holderIdentity !== identity) return;
        const { lease } = seen;
        await client.replace<Lease>(LEASES, { ...lease, spec: released(lease.spec, Date.now()) }, call);
        log.info({ lease: leaseName }, 'Gave up the lease');
      } catch (error) {
        // It runs out by itself.
        log.warn({ err: error, lease: leaseName }, 'Could not give up the lease');
      }
    },
  };
}
