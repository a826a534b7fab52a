import type {
  ClaimedEvent,
  DeliveryAttempt,
  DeliveryClaim,
  DeliveryCompletion,
  WebhookEndpoint,
} from '#core/store/webhook-deliveries.ts';

/** A claim of which some events are not done with. */
type OpenClaim = {
  readonly claim: DeliveryClaim;
  /** Of its events. */
  left: number;
  readonly attempts: DeliveryAttempt[];
  readonly again: DeliveryCompletion['again'][number][];
  /** Numbers of events that go back as they came. */
  readonly uncalled: Set<number>;
};

/** An event that is to be delivered now. */
export type Delivery = { readonly open: OpenClaim; readonly told: ClaimedEvent };

/** What is to become of an event after its call: nothing more, or another call. */
export type Afterwards = { readonly attempt: DeliveryAttempt; readonly againAt: Date | null };

/** What a worker has of one endpoint's claims: which event is next, and what became of them. */
export type EndpointRun = {
  readonly endpoint: WebhookEndpoint;
  add(claims: readonly DeliveryClaim[]): void;
  /** The next event; undefined while there is none that may be called for. */
  next(): Delivery | undefined;
  /** @param after undefined: no call was made, and the event is as due as before. */
  end(delivery: Delivery, after: Afterwards | undefined): void;
  /** Lets go of all that is not under way; it is as due as before. */
  giveBack(): void;
  readonly underWay: number;
  /** Nothing is left and nothing under way. */
  readonly isOver: boolean;
};

/**
 * Of an ordered endpoint the events of one message are delivered one after the other: a later one waits here while an earlier
 * one is under way, and in the database where that has failed.
 * @param onComplete all events of a claim are done with.
 */
export function createEndpointRun(
  first: WebhookEndpoint,
  onComplete: (completion: DeliveryCompletion) => void,
): EndpointRun {
  let endpoint = first;
  const opens: OpenClaim[] = [];
  /** Place of the next event in the first of them. */
  let place = 0;
  let underWay = 0;
  let isGivingBack = false;
  /** Messages with an event under way, and the later ones that wait for its end. */
  const busy = new Map<number, Delivery[]>();
  /** Free to go since the one before has succeeded. */
  const freed: Delivery[] = [];
  /** Messages with an event that goes back: no later one is called before it. */
  const behind = new Set<number>();
  /** Those of which it has a row of its own: so has each later one, which waits for it. */
  const apart = new Set<number>();

  function take(): Delivery | undefined {
    const known = freed.shift();
    if (known !== undefined) return known;
    for (let open = opens[0]; open !== undefined; open = opens[0]) {
      const told = open.claim.events[place++];
      if (told !== undefined) return { open, told };
      opens.shift();
      place = 0;
    }
    return undefined;
  }

  function messageOf({ told }: Delivery): number | null {
    return endpoint.ordered ? told.messageSeq : null;
  }

  function settle({ open }: Delivery): void {
    open.left--;
    if (open.left > 0) return;
    const { claim, attempts, again } = open;
    onComplete({ claim, attempts, again, uncalled: stretchesOf(claim, open.uncalled) });
  }

  function putBackFailed(delivery: Delivery, attempts: number, dueAt: Date): void {
    const messageSeq = messageOf(delivery);
    if (messageSeq !== null) {
      behind.add(messageSeq);
      apart.add(messageSeq);
    }
    delivery.open.again.push({ seq: delivery.told.seq, attempts, dueAt, messageSeq });
  }

  function putBackUncalled(delivery: Delivery): void {
    const { open, told } = delivery;
    const messageSeq = messageOf(delivery);
    if (messageSeq !== null) behind.add(messageSeq);
    if (messageSeq !== null && (apart.has(messageSeq) || open.claim.blocked.has(messageSeq)))
      open.again.push({ seq: told.seq, attempts: open.claim.attempts, dueAt: 'after_earlier', messageSeq });
    else open.uncalled.add(told.seq);
    settle(delivery);
  }

  /** Whether it has to wait for an earlier one of its message, where it is put then. */
  function isHeld(delivery: Delivery, message: number): boolean {
    if (behind.has(message) || delivery.open.claim.blocked.has(message)) {
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
    get isOver() {
      return underWay === 0 && opens.length === 0 && freed.length === 0 && busy.size === 0;
    },
    add(claims) {
      isGivingBack = false;
      for (const claim of claims) {
        endpoint = claim.endpoint;
        const open = {
          claim,
          left: claim.events.length,
          attempts: [],
          again: [],
          uncalled: new Set<number>(),
        };
        // All of its events are purged.
        if (open.left === 0) onComplete({ claim, attempts: [], again: [], uncalled: [] });
        else opens.push(open);
      }
    },
    next() {
      for (let delivery = take(); delivery !== undefined; delivery = take()) {
        const message = messageOf(delivery);
        if (message !== null && isHeld(delivery, message)) continue;
        if (message !== null) busy.set(message, []);
        underWay++;
        return delivery;
      }
      return undefined;
    },
    end(delivery, after) {
      underWay--;
      const message = messageOf(delivery);
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
      if (isGivingBack || behind.has(message)) {
        for (const one of later) putBackUncalled(one);
        return;
      }
      // One after the other: the others wait for this one now.
      freed.push(next, ...others);
    },
    giveBack() {
      isGivingBack = true;
      for (let delivery = take(); delivery !== undefined; delivery = take()) {
        const message = messageOf(delivery);
        const later = message === null ? undefined : busy.get(message);
        // The one under way decides about it at its end.
        if (later !== undefined) later.push(delivery);
        else putBackUncalled(delivery);
      }
    },
  };
}

/** Those of a claim's events that nobody called, neighbours together. */
function stretchesOf(
  { events }: DeliveryClaim,
  uncalled: ReadonlySet<number>,
): DeliveryCompletion['uncalled'] {
  const stretches: { readonly first: number; last: number }[] = [];
  let isGoingOn = false;
  for (const { seq } of events) {
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
