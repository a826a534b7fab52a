import { databaseFaultOf } from '#core/domain/database-fault.ts';
import type { FairQueue, Turn } from '#core/domain/fair-queue.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
import type { Settlement } from '#core/domain/settle.ts';
import type { Wake } from '#core/domain/wake.ts';
import { withSpan } from '#core/platform/telemetry/telemetry.ts';
import type { ClaimedMessage, ClaimTerms, DeliveryStore } from '#core/store/deliveries.ts';
import type { Breakers } from '../accounts/breakers.ts';
import type { Delivered } from '../deliver/deliver.ts';
import { processSpan } from '../deliver/process-span.ts';
import type { Recorder } from '../deliver/recorder.ts';

export type DispatcherDeps = {
  readonly queue: FairQueue<Wake>;
  readonly store: Pick<DeliveryStore, 'claim' | 'claimDue' | 'waitingMessages' | 'endRefused'>;
  readonly breakers: Breakers;
  readonly deliver: (message: ClaimedMessage) => Promise<Delivered>;
  readonly recorder: Recorder;
  readonly worker: string;
  /** How long a claim is ours, in milliseconds; well above the deadline of one provider call. */
  readonly leaseMs: number;
  /** Provider calls at once in this process. */
  readonly inFlightMax: number;
  readonly events: {
    attemptFinished(message: ClaimedMessage, delivered: Delivered, settlement: Settlement | null): void;
    claimFailed(error: unknown): void;
    recordLost(message: ClaimedMessage, error: unknown): void;
    endedUncalled(message: ClaimedMessage, reason: 'expired' | 'no_route'): void;
    claimRefused(wake: Wake, error: unknown): void;
  };
};

export type Dispatcher = {
  /** Takes in a wake-up. One that finds its tenant's queue full is dropped: the database holds the message. */
  offer(wake: Wake): void;
  /** Notes that a tenant's messages wait in the database. */
  markDue(tenantId: string, ahead?: boolean): void;
  /** Looks for work now; called whenever something may have changed. */
  pump(): void;
  /** Stops claiming and waits for what is in flight. */
  stop(): Promise<void>;
  readonly inFlight: number;
};

const CLAIM_MAX = 128;
const CLAIMS_AT_ONCE = 2;
const LOOKS_AT_ONCE = 4;
/** With `ahead`: also messages whose wake-up should have come first. */
const AHEAD_MS = 10_000;
const CLAIM_PAUSE_MS = 500;
/** How long a worker whose places are mostly taken waits for more of them to become free. */
const GATHER_MS = 5;
/** A retry this near is worth a timer of our own; later ones are the sweep's. */
const NEAR_MS = 3_000;

/**
 * The heart of the worker: picks who is next, claims in batches, starts one delivery per claimed message, records, and
 * gives the place back. Holds nothing that the database could not tell again.
 */
export function createDispatcher(deps: DispatcherDeps): Dispatcher {
  const { queue, store, breakers } = deps;
  /** Messages that this process holds right now, so that it does not meet itself in the database. */
  const held = new Set<string>();
  /** Attempts that ended and could not be recorded: whatever the database shows, they are not to be begun again. */
  const unrecorded = new Set<string>();
  /** Tenants of claims whose answer was lost: what they claimed is ours, and nobody has begun with it. */
  const doubtful = new Set<string>();
  /** Those of them that this turn has looked for with success. */
  const cleared: string[] = [];
  let claiming = 0;
  let pausedUntil = 0;
  let gathering: NodeJS.Timeout | undefined;
  let gathered = false;
  /** Fewer free places than this mean that most are taken. */
  const claimMin = Math.min(CLAIM_MAX, Math.floor(deps.inFlightMax / 4));
  /** A look for work is due at the end of this tick. */
  let pumping = false;
  let stopping = false;
  let idle: (() => void) | undefined;

  const terms = (): ClaimTerms => ({
    worker: deps.worker,
    leaseMs: deps.leaseMs,
    blocked: breakers.blocked(),
  });

  function pump(): void {
    // In doubt one claim at a time: only then is what the database shows as ours, and is not in hand, a lost answer.
    const claimsMax = doubtful.size > 0 ? 1 : CLAIMS_AT_ONCE;
    if (stopping || claiming >= claimsMax || !queue.hasWork()) return;
    const free = Math.min(deps.inFlightMax - queue.inFlight, CLAIM_MAX);
    if (free < 1) return;
    // A busy worker gathers places for a while: one claim of many costs the database far less than many of one.
    if (free < claimMin && !gathered) {
      gathering ??= setTimeout(() => {
        gathering = undefined;
        gathered = true;
        pump();
      }, GATHER_MS);
      return;
    }
    gathered = false;
    const now = performance.now();
    if (now < pausedUntil) {
      setTimeout(pump, pausedUntil - now);
      return;
    }
    const turn = queue.take(free);
    claiming++;
    void runTurn(turn).finally(() => {
      claiming--;
      if (isIdle()) idle?.();
      pump();
    });
    pump();
  }

  /** What comes together, as the messages of one commit do, is claimed together. */
  function pumpSoon(): void {
    if (pumping) return;
    pumping = true;
    setImmediate(() => {
      pumping = false;
      pump();
    });
  }

  async function runTurn(turn: ReturnType<FairQueue<Wake>['take']>): Promise<void> {
    if (turn.items.length > 0) await claimWakes(turn.items);
    for (let i = 0; i < turn.due.length; i += LOOKS_AT_ONCE) {
      await Promise.all(turn.due.slice(i, i + LOOKS_AT_ONCE).map(claimDue));
    }
    // Not before the turn's end: the doubt is what keeps other claims away from its looks.
    for (const tenantId of cleared.splice(0)) doubtful.delete(tenantId);
  }

  async function claimWakes(wakes: readonly Wake[]): Promise<void> {
    let claimed: ClaimedMessage[];
    try {
      claimed = await store.claim(wakes, terms());
    } catch (error) {
      if (databaseFaultOf(error) === 'row') return claimApart(wakes, error);
      pause(error);
      for (const wake of wakes) {
        queue.release(wake.tenantId);
        queue.markDue(wake.tenantId, true);
        doubtful.add(wake.tenantId);
      }
      return;
    }
    const started = new Map(claimed.map((message) => [message.id, message]));
    for (const { id, tenantId } of wakes) {
      const message = started.get(id);
      // The others are somebody else's, settled long ago, or put off by the database with a due time.
      if (message === undefined) queue.release(tenantId);
      // The place was taken in the name of whom the wake-up named, and is given back in the same.
      else start(message, tenantId);
      started.delete(id);
    }
  }

  /** One message that the database refuses must not keep the others from being claimed: alone it is ended. */
  async function claimApart(wakes: readonly Wake[], refusal: unknown): Promise<void> {
    if (wakes.length > 1) {
      const half = wakes.length >> 1;
      await claimWakes(wakes.slice(0, half));
      await claimWakes(wakes.slice(half));
      return;
    }
    for (const wake of wakes) {
      try {
        if (await store.endRefused(wake)) deps.events.claimRefused(wake, refusal);
      } catch (error) {
        pause(error);
      }
      queue.release(wake.tenantId);
    }
  }

  /** Names a tenant's messages, so that the one which makes a look fail is found among them. */
  async function lookApart(look: Look, refusal: unknown): Promise<void> {
    const { tenantId, places } = look;
    let waiting: readonly Wake[] = [];
    try {
      waiting = await store.waitingMessages(tenantId, places, aheadMs(look));
    } catch (error) {
      pause(error);
    }
    if (waiting.length === 0) pause(refusal);
    queue.release(tenantId, places - waiting.length);
    queue.looked(tenantId, true);
    if (waiting.length > 0) await claimWakes(waiting);
  }

  async function claimDue(look: Look): Promise<void> {
    let found: { messages: ClaimedMessage[]; more: boolean };
    const again = claiming === 1 && doubtful.has(look.tenantId);
    // What is in hand as the database looks may have ended by the time that its answer is here.
    const inHand = new Set(again ? held : []);
    try {
      found = await store.claimDue(look.tenantId, look.places, aheadMs(look), terms(), again);
    } catch (error) {
      if (databaseFaultOf(error) === 'row') return lookApart(look, error);
      pause(error);
      queue.release(look.tenantId, look.places);
      queue.looked(look.tenantId, true);
      doubtful.add(look.tenantId);
      return;
    }
    if (again) cleared.push(look.tenantId);
    const messages = found.messages.filter(({ id }) => !inHand.has(id));
    // More than there were places for may have ended, so that the places that come back are fewer than none.
    queue.release(look.tenantId, look.places - messages.length);
    queue.looked(look.tenantId, found.more);
    for (const message of messages) start(message, look.tenantId);
  }

  function pause(error: unknown): void {
    pausedUntil = performance.now() + CLAIM_PAUSE_MS;
    deps.events.claimFailed(error);
  }

  function start(message: ClaimedMessage, placeOf: string): void {
    if (message.action === 'expired' || message.action === 'no_route') {
      deps.events.endedUncalled(message, message.action);
      queue.release(placeOf);
      return;
    }
    // Our own attempt, under way or still being recorded while the database came back: it settles itself.
    if (held.has(message.id) || (message.action === 'send' && unrecorded.has(attemptOf(message)))) {
      queue.release(placeOf);
      return;
    }
    held.add(message.id);
    unrecorded.delete(attemptOf(message));
    void withSpan('process message', processSpan(message), () => finish(message))
      .catch((error: unknown) => {
        unrecorded.add(attemptOf(message));
        deps.events.recordLost(message, error);
      })
      .finally(() => {
        held.delete(message.id);
        queue.release(placeOf);
        if (isIdle()) idle?.();
        pumpSoon();
      });
  }

  async function finish(message: ClaimedMessage): Promise<void> {
    const delivered: Delivered =
      message.action === 'lost' ? { outcome: WORKER_LOST, provider: undefined } : await deps.deliver(message);
    const settlement = await deps.recorder.record(message, delivered.outcome, delivered.provider);
    deps.events.attemptFinished(message, delivered, settlement);
    if (settlement?.nextAttemptAt == null) return;
    const delayMs = settlement.nextAttemptAt - Date.now();
    if (delayMs < NEAR_MS) setTimeout(() => markDue(message.tenantId), Math.max(0, delayMs) + 5).unref();
  }

  const isIdle = () => claiming === 0 && queue.inFlight === 0;

  function markDue(tenantId: string, ahead?: boolean): void {
    queue.markDue(tenantId, ahead);
    pump();
  }

  return {
    offer(wake) {
      if (!held.has(wake.id)) queue.offer(wake.tenantId, wake.priority, wake);
      pumpSoon();
    },
    markDue,
    pump,
    async stop() {
      stopping = true;
      if (!isIdle()) await new Promise<void>((resolve) => (idle = resolve));
      await deps.recorder.drain();
    },
    get inFlight() {
      return queue.inFlight;
    },
  };
}

type Look = Turn<Wake>['due'][number];

const aheadMs = ({ ahead }: Look): number => (ahead ? AHEAD_MS : 0);

const attemptOf = ({ id, attempt }: ClaimedMessage): string => `${id} ${attempt}`;

/** The process that held the attempt is gone; whether bytes had left nobody knows. */
const WORKER_LOST: AttemptOutcome = { kind: 'ambiguous', failure: { class: 'unknown', code: 'worker_lost' } };
