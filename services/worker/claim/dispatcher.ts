import { epochMs, monotonicMs } from '#core/domain/clock.ts';
import type { FairQueue } from '#core/domain/queue/fair-queue.ts';
import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import type { ClosedReason } from '#core/domain/routing/skipped-account.ts';
import type { Settlement } from '#core/domain/sending/settlement.ts';
import type { Wake } from '#core/domain/queue/wake.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Lane } from '#core/store/sending/lane.ts';
import type { Breakers } from '../accounts/breakers.ts';
import { createAttempts, type AttemptsDeps } from '../deliver/attempts.ts';
import type { Recorder } from '../deliver/recorder.ts';
import { createAccountGates } from './account-gates.ts';
import { createClaimLimiter } from './claim-limiter.ts';
import { createClaims, type ClaimsDeps } from './claims.ts';
import { createLanes, type DueMark } from './lanes.ts';
import { createUnansweredClaims } from './unanswered-claims.ts';

export type DispatcherDeps = {
  readonly queue: FairQueue<Wake>;
  readonly store: ClaimsDeps['store'];
  readonly resolve: ClaimsDeps['resolve'];
  readonly dueFrom: ClaimsDeps['dueFrom'];
  readonly breakers: Pick<Breakers, 'blockedUntil' | 'health'>;
  readonly deliver: AttemptsDeps['deliver'];
  readonly recorder: Recorder;
  readonly worker: string;
  /** Duration of a claim's lease in milliseconds; well above the deadline of one provider call. */
  readonly leaseMs: number;
  /** Maximum number of concurrent provider calls in this process. */
  readonly inFlightMax: number;
  readonly events: ClaimsDeps['events'] & AttemptsDeps['events'];
};

export type Dispatcher = {
  /** Queues a wake-up. If its tenant's queue is full, the wake-up is dropped: the message is in the database. */
  offer(wake: Wake): void;
  /** Notes that a lane has waiting messages in the database. */
  mark(lane: Lane, mark?: DueMark): void;
  /** Whether messages of this account may be sent now: its breaker is closed, and it has tokens. */
  isOpen(accountId: string): boolean;
  /** Why messages of this account are not sent now; undefined if they are. */
  whyClosed(accountId: string): ClosedReason | undefined;
  /** Decides about messages of a lane that no claim takes, if its review is due. @returns whether it was. */
  review(lane: Lane): Promise<boolean>;
  /** Resets the account's gate after a change of the account or a recovery of its provider. */
  accountChanged(accountId: string): void;
  /** Stops claiming, and waits for the attempts in flight. */
  stop(): Promise<void>;
  readonly inFlight: number;
  /** Whether messages are in flight or were claimed within BUSY_MS. */
  readonly isBusy: boolean;
};

const CLAIM_MAX = 128;
const CLAIMS_AT_ONCE = 2;
/** A retry due within this time gets a timer in this process; the sweep finds later ones. */
const NEAR_MS = 3_000;
/** How long the dispatcher counts as busy after its last claim, because more messages may follow. */
const BUSY_MS = 1_000;

/**
 * Creates the dispatcher. It picks the next tenants, claims their messages in batches, begins one attempt per claimed message,
 * and releases the slot when the attempt is recorded. All of its state can be read from the database again. A diagram of the calls
 * between its parts: `claims.ts`.
 */
export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  const { queue, store, events } = deps;
  const attempts = createAttempts(deps);
  const gates = createAccountGates(deps.breakers, { monotonicMs, epochMs });
  const unanswered = createUnansweredClaims(markDue, 2 * deps.leaseMs);
  const limiter = createClaimLimiter(Math.min(CLAIM_MAX, Math.floor(deps.inFlightMax / 4)), pump);
  const lanes = createLanes({ closedUntil: gates.closedUntil, onOpen: markDue, monotonicMs });
  const claims = createClaims({
    store,
    resolve: deps.resolve,
    dueFrom: deps.dueFrom,
    terms: { worker: deps.worker, leaseMs: deps.leaseMs },
    queue,
    lanes,
    gates,
    unanswered,
    inHand: attempts.inHand,
    begin,
    events,
    pause: limiter.pause,
  });
  /** Whether `pump` is scheduled for the end of this tick. */
  let isPumping = false;
  let isStopping = false;
  let begunAt = Number.NEGATIVE_INFINITY;
  let idle: (() => void) | undefined;

  function pump(): void {
    if (isStopping || !queue.hasWork()) return;
    const free = Math.min(deps.inFlightMax - queue.inFlight, CLAIM_MAX);
    const size = queue.queued > 0 ? Math.min(free, queue.queued) : free;
    // One claim at a time while a claim is unanswered: otherwise its messages cannot be told from those of a concurrent claim.
    if (!limiter.admits(size, unanswered.size > 0 ? 1 : CLAIMS_AT_ONCE)) return;
    const turn = queue.take(free);
    limiter.begin();
    void claims
      .run(withoutClosed(turn), () => limiter.underWay === 1)
      .finally(() => {
        limiter.end();
        endIfIdle();
        pump();
      });
    pump();
  }

  function markDue(tenantId: string): void {
    queue.markDue(tenantId);
    pumpSoon();
  }

  /** Delays `pump` to the end of the tick, so that wake-ups of one commit are claimed together. */
  function pumpSoon(): void {
    if (isPumping) return;
    isPumping = true;
    setImmediate(() => {
      isPumping = false;
      pump();
    });
  }

  /** Removes wake-ups whose account gate has closed since they were queued, and marks their lanes instead. */
  function withoutClosed(turn: ReturnType<typeof queue.take>): typeof turn {
    const items = turn.items.filter((wake) => {
      const isFree = gates.isFree(wake.accountId);
      if (!isFree) {
        queue.release(wake.tenantId);
        lanes.mark(wake, { ahead: true });
      }
      return isFree;
    });
    return { ...turn, items };
  }

  function begin(message: ClaimedMessage, slotOf: string | null): void {
    const begun = monotonicMs();
    begunAt = begun;
    const leave = (): void => {
      if (slotOf !== null) queue.release(slotOf);
    };
    const isBegun = attempts.begin(message, (settlement) => {
      if (gates.noteEnd(message, settlement, begun)) lanes.recheck();
      leave();
      if (settlement?.nextAttemptAt != null) retryAt(settlement, settlement.nextAttemptAt, message);
      endIfIdle();
      pumpSoon();
    });
    if (!isBegun) leave();
  }

  function retryAt({ rerouted }: Settlement, at: number, { tenantId, accountId }: ClaimedMessage): void {
    const delayMs = at - Date.now();
    if (delayMs > NEAR_MS) return;
    const lane = { tenantId, accountId: rerouted?.accountId ?? accountId ?? NO_ACCOUNT };
    setTimeout(() => lanes.mark(lane), Math.max(0, delayMs) + 5).unref();
  }

  function endIfIdle(): void {
    if (isIdle()) idle?.();
  }

  const isIdle = (): boolean => limiter.underWay === 0 && attempts.size === 0 && queue.inFlight === 0;

  return {
    offer(wake) {
      if (attempts.has(wake.seq)) return;
      // Messages of an account that is closed or rate-limited are claimed only from its lane.
      const isTaken = gates.isFree(wake.accountId) && queue.offer(wake.tenantId, wake.priority, wake);
      if (!isTaken) lanes.mark(wake, { ahead: true });
      pumpSoon();
    },
    mark: lanes.mark,
    isOpen: (accountId) => gates.closedUntil(accountId) <= monotonicMs(),
    whyClosed: gates.whyClosed,
    review: claims.review,
    accountChanged(accountId) {
      gates.forget(accountId);
      lanes.recheck();
    },
    async stop() {
      isStopping = true;
      lanes.stop();
      unanswered.stop();
      if (!isIdle()) await new Promise<void>((resolve) => (idle = resolve));
      await deps.recorder.drain();
    },
    get inFlight() {
      return queue.inFlight;
    },
    get isBusy() {
      return attempts.size > 0 || monotonicMs() - begunAt < BUSY_MS;
    },
  };
}
