import type { ClaimedEvent, DeliveryClaim, WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import type { DeliveryAttempt, DeliveryCompletion } from '#core/store/webhooks/delivery-completion.ts';

/** A claim with events that are not finished. */
type OpenClaim = {
  readonly claim: DeliveryCompletion['claim'];
  /** Numbers of all its events, in their order. */
  readonly seqs: readonly number[];
  readonly messages: readonly number[];
  /** Its events that are not begun, the next one last. An event's content is not kept beyond its call. */
  readonly waiting: ClaimedEvent[];
  /** Number of its unfinished events. */
  left: number;
  readonly attempts: DeliveryAttempt[];
  readonly again: DeliveryCompletion['again'][number][];
  /** Numbers of events that go back uncalled and unchanged. */
  readonly uncalled: Set<number>;
};

/** An event that is to be delivered now. */
export type Delivery = {
  readonly open: OpenClaim;
  readonly claimed: ClaimedEvent;
  /** The message whose later events wait for its end; null if the endpoint was not ordered when it was claimed. */
  readonly message: number | null;
};

/** What follows a call: nothing more, or a retry at `againAt`. */
export type Afterwards = { readonly attempt: DeliveryAttempt; readonly againAt: Date | null };

/** One worker's claims of one endpoint: which event is next, and what became of the events. */
export type EndpointRun = {
  readonly endpoint: WebhookEndpoint;
  add(claims: readonly DeliveryClaim[]): void;
  /** Returns the next event; undefined if there is none that may be called for. */
  next(): Delivery | undefined;
  /**
   * Records the end of a delivery.
   * @param after undefined if no call was made; the event is then due as before.
   */
  end(delivery: Delivery, after: Afterwards | undefined): void;
  /** Returns all events that are not under way; they are due as before. */
  giveBack(): void;
  readonly underWay: number;
  /** Number of claims with events that are not begun, and number of these events. */
  readonly waitingClaims: number;
  readonly waitingEvents: number;
  /** Whether no event is left or under way. */
  readonly isOver: boolean;
};

/**
 * Creates the run of an endpoint. If the endpoint is ordered, the events of one message are delivered one after the other: a
 * later event waits here while an earlier one is under way, and in the database after an earlier one has failed.
 * @param onComplete called when all events of a claim are finished.
 */
export function createEndpointRun(
  first: WebhookEndpoint,
  onComplete: (completion: DeliveryCompletion) => void,
): EndpointRun {
  let endpoint = first;
  const opens: OpenClaim[] = [];
  let underWay = 0;
  let isGivingBack = false;
  /** Messages with an event under way, and the later events that wait for its end. */
  const busy = new Map<number, Delivery[]>();
  /** Deliveries that may begin because the preceding event succeeded. */
  const freed: Delivery[] = [];
  /** Messages with an event that goes back; no later event of the message is called for in this run. */
  const putBack = new Set<number>();
  /** Messages with a failed event in a row of its own; each later event waits for it and gets a row of its own too. */
  const apart = new Set<number>();

  function take(): Delivery | undefined {
    const known = freed.shift();
    if (known !== undefined) return known;
    for (let open = opens[0]; open !== undefined; open = opens[0]) {
      const claimed = open.waiting.pop();
      if (claimed !== undefined)
        return { open, claimed, message: open.claim.endpoint.ordered ? claimed.messageSeq : null };
      opens.shift();
    }
    return undefined;
  }

  function settle({ open }: Delivery): void {
    open.left--;
    if (open.left > 0) return;
    const { claim, seqs, messages, attempts, again } = open;
    onComplete({ claim, messages, attempts, again, uncalled: stretchesOf(seqs, open.uncalled) });
  }

  function putBackFailed(delivery: Delivery, attempts: number, dueAt: Date): void {
    const { message, claimed } = delivery;
    if (message !== null) {
      putBack.add(message);
      apart.add(message);
    }
    // With its message even if nothing waits for it now: the endpoint may become ordered before the retry.
    delivery.open.again.push({ seq: claimed.seq, attempts, dueAt, messageSeq: claimed.messageSeq });
  }

  function putBackUncalled(delivery: Delivery): void {
    const { open, claimed } = delivery;
    const { message: messageSeq } = delivery;
    if (messageSeq !== null) putBack.add(messageSeq);
    if (messageSeq !== null && (apart.has(messageSeq) || open.claim.blocked.has(messageSeq)))
      open.again.push({
        seq: claimed.seq,
        attempts: open.claim.attempts,
        dueAt: 'after_earlier',
        messageSeq,
      });
    else open.uncalled.add(claimed.seq);
    settle(delivery);
  }

  /** Whether the delivery must wait for an earlier event of its message; if so, it is put where it waits. */
  function isHeld(delivery: Delivery, message: number): boolean {
    if (putBack.has(message) || delivery.open.claim.blocked.has(message)) {
      putBackUncalled(delivery);
      return true;
    }
    const later = busy.get(message);
    later?.push(delivery);
    return later !== undefined;
  }

  return {
    get endpoint() {
      return endpoint;
    },
    get underWay() {
      return underWay;
    },
    get waitingClaims() {
      const [first] = opens;
      return first === undefined || first.waiting.length > 0 ? opens.length : opens.length - 1;
    },
    get waitingEvents() {
      return opens.reduce((sum, { waiting }) => sum + waiting.length, 0);
    },
    get isOver() {
      return underWay === 0 && opens.length === 0 && freed.length === 0 && busy.size === 0;
    },
    add(claims) {
      isGivingBack = false;
      for (const { events, ...claim } of claims) {
        endpoint = claim.endpoint;
        const open = {
          claim,
          seqs: events.map(({ seq }) => seq),
          messages: events.flatMap(({ messageSeq }) => messageSeq ?? []),
          waiting: events.toReversed(),
          left: events.length,
          attempts: [],
          again: [],
          uncalled: new Set<number>(),
        };
        // All events of the claim are purged.
        if (open.left === 0) onComplete({ claim, messages: [], attempts: [], again: [], uncalled: [] });
        else opens.push(open);
      }
    },
    next() {
      for (let delivery = take(); delivery !== undefined; delivery = take()) {
        const { message } = delivery;
        if (message !== null && isHeld(delivery, message)) continue;
        if (message !== null) busy.set(message, []);
        underWay++;
        return delivery;
      }
      return undefined;
    },
    end(delivery, after) {
      underWay--;
      const { message } = delivery;
      const later = message === null ? [] : (busy.get(message) ?? []);
      if (message !== null) busy.delete(message);
      if (after === undefined) putBackUncalled(delivery);
      else {
        delivery.open.attempts.push(after.attempt);
        if (after.againAt !== null) putBackFailed(delivery, after.attempt.attempt, after.againAt);
        settle(delivery);
      }
      const [next, ...others] = later;
      if (message === null || next === undefined) return;
      if (isGivingBack || putBack.has(message)) {
        for (const one of later) putBackUncalled(one);
        return;
      }
      // The first waiting delivery may begin; the others then wait for it.
      freed.push(next, ...others);
    },
    giveBack() {
      isGivingBack = true;
      for (let delivery = take(); delivery !== undefined; delivery = take()) {
        const { message } = delivery;
        const later = message === null ? undefined : busy.get(message);
        // The end of the delivery under way decides about this one.
        if (later !== undefined) later.push(delivery);
        else putBackUncalled(delivery);
      }
    },
  };
}

/** Returns the uncalled events of a claim as ranges of consecutive events. */
function stretchesOf(seqs: readonly number[], uncalled: ReadonlySet<number>): DeliveryCompletion['uncalled'] {
  const stretches: { readonly first: number; last: number }[] = [];
  let isGoingOn = false;
  for (const seq of seqs) {
    const current = stretches.at(-1);
    if (!uncalled.has(seq)) isGoingOn = false;
    else if (isGoingOn && current !== undefined) current.last = seq;
    else {
      stretches.push({ first: seq, last: seq });
      isGoingOn = true;
    }
  }
  return stretches;
}
