/** States of a webhook endpoint until it is deleted. */
export const ENDPOINT_STATUSES = ['active', 'failing', 'paused', 'disabled'] as const;
export type EndpointStatus = (typeof ENDPOINT_STATUSES)[number];

/** The stored health of a webhook endpoint. */
export type EndpointHealth = {
  readonly status: EndpointStatus;
  /** Only for `disabled`: `gone` or `failing`. */
  readonly statusReason: string | null;
  /** Failed calls since the last success, and the time of the first of them or, once `failing`, of the one that made it so. */
  readonly failures: number;
  readonly failingSince: Date | null;
  /** No call begins before this time; null if calls need not wait. */
  readonly callAt: Date | null;
};

export type EndpointMove = {
  /** `tenant`: a person through the api, or the replay of such a request after a restore. `worker`: from the results of calls. */
  readonly by: 'tenant' | 'worker';
  readonly from: readonly EndpointStatus[];
  /** `same`: only the health changes. `deleted`: the row stays for a while, as `disabled` and without secrets. */
  readonly to: EndpointStatus | 'same' | 'deleted';
  /** Only for moves to `disabled`. */
  readonly reason: 'gone' | 'failing' | null;
  /**
   * The effect on `failures` and `failingSince`. `counted`: increments `failures` and keeps the time of the first one. `begun`:
   * increments `failures`, whose time is that of the move.
   */
  readonly failures: 'kept' | 'counted' | 'begun' | 'forgotten';
  /**
   * When the endpoint is called next. `asked`: when the answer asks for it, else unchanged. `put_off`: not before the move's
   * `callAt`.
   */
  readonly calls: 'kept' | 'asked' | 'put_off' | 'at_once';
  /** The event that is sent to other endpoints of the tenant. */
  readonly tells: 'endpoint.failing' | 'endpoint.disabled' | null;
};

/**
 * The moves of a webhook endpoint. This table is authoritative: `services/ARCHITECTURE.md` draws it, `moveEndpoint` implements
 * it, and every statement that stores a state calls the SQL function `may_move_endpoint`, which is generated from it. A test
 * applies the services' moves to an endpoint in every state. Only a person can move an endpoint out of `paused` and `disabled`.
 */
export const ENDPOINT_MOVES = {
  /** A call has succeeded before the endpoint was failing. A wait that an answer requested stays in force. */
  clear: worker({ from: ['active'], to: 'same', failures: 'forgotten', calls: 'kept' }),
  /** A call has failed, but not yet often enough to make the endpoint failing. */
  count: worker({ from: ['active'], to: 'same', failures: 'counted', calls: 'asked' }),
  /** The fourth consecutive call has failed. The earlier ones may be days older, with no call between them. */
  fail: worker({
    from: ['active'],
    to: 'failing',
    failures: 'begun',
    calls: 'put_off',
    tells: 'endpoint.failing',
  }),
  /** A worker has claimed the single probe; no other call is made before its lease ends. */
  probe: worker({ from: ['failing'], to: 'same', failures: 'kept', calls: 'put_off' }),
  /** The probe was not made. */
  spare: worker({ from: ['failing'], to: 'same', failures: 'kept', calls: 'at_once' }),
  /** A call that began before the endpoint was failing has failed too, and asks for a wait. */
  wait: worker({ from: ['failing'], to: 'same', failures: 'kept', calls: 'put_off' }),
  /** The probe has failed again. */
  fail_again: worker({ from: ['failing'], to: 'same', failures: 'counted', calls: 'put_off' }),
  /** A call has succeeded. */
  recover: worker({ from: ['failing'], to: 'active', failures: 'forgotten', calls: 'at_once' }),
  /** All probes have failed for five days. */
  give_up: worker({
    from: ['failing'],
    to: 'disabled',
    reason: 'failing',
    failures: 'counted',
    calls: 'at_once',
    tells: 'endpoint.disabled',
  }),
  /** The endpoint has answered 410. */
  be_gone: worker({
    from: ['active', 'failing'],
    to: 'disabled',
    reason: 'gone',
    failures: 'counted',
    calls: 'at_once',
    tells: 'endpoint.disabled',
  }),
  /** Deliveries wait. */
  pause: tenant({ from: ['active', 'failing'], to: 'paused', failures: 'forgotten', calls: 'at_once' }),
  /** Deliveries that waited for a retry are due now. */
  resume: tenant({
    from: ['failing', 'paused', 'disabled'],
    to: 'active',
    failures: 'forgotten',
    calls: 'at_once',
  }),
  /** The URL or the secrets have changed, which may fix the cause of the failures. */
  readdress: tenant({ from: ENDPOINT_STATUSES, to: 'same', failures: 'kept', calls: 'at_once' }),
  /** The row is deleted once none of its deliveries is left; the purge of a tenant deletes it in any state. */
  delete: tenant({ from: ENDPOINT_STATUSES, to: 'deleted', failures: 'kept', calls: 'kept' }),
} satisfies Record<string, EndpointMove>;

export type EndpointMoveName = keyof typeof ENDPOINT_MOVES;
export const ENDPOINT_MOVE_NAMES = Object.keys(ENDPOINT_MOVES) as EndpointMoveName[];

export function canMoveEndpoint(name: EndpointMoveName, from: EndpointStatus): boolean {
  return ENDPOINT_MOVES[name].from.includes(from);
}

/**
 * Returns the health of an endpoint after a move of the table.
 * @param at time of the move, in milliseconds since the epoch.
 * @param callAt for moves whose `calls` are `asked` or `put_off`.
 * @throws for a move that is not allowed now, which is a bug and no input error.
 */
export function moveEndpoint(
  health: EndpointHealth,
  name: EndpointMoveName,
  at: number,
  callAt: Date | null = null,
): EndpointHealth {
  const move = ENDPOINT_MOVES[name];
  if (!canMoveEndpoint(name, health.status))
    throw new Error(`a webhook endpoint that is ${health.status} makes no move '${name}'`);
  return {
    status: statusAfter(health.status, move.to),
    statusReason: move.to === 'same' ? health.statusReason : move.reason,
    ...failuresAfter(health, move.failures, at),
    callAt: callAfter(health, move.calls, callAt),
  };
}

function statusAfter(status: EndpointStatus, to: EndpointMove['to']): EndpointStatus {
  if (to === 'same') return status;
  return to === 'deleted' ? 'disabled' : to;
}

function failuresAfter(
  { failures, failingSince }: EndpointHealth,
  become: EndpointMove['failures'],
  at: number,
): Pick<EndpointHealth, 'failures' | 'failingSince'> {
  if (become === 'kept') return { failures, failingSince };
  if (become === 'forgotten') return { failures: 0, failingSince: null };
  if (become === 'begun') return { failures: failures + 1, failingSince: new Date(at) };
  return { failures: failures + 1, failingSince: failingSince ?? new Date(at) };
}

function callAfter(
  health: EndpointHealth,
  calls: EndpointMove['calls'],
  callAt: Date | null,
): EndpointHealth['callAt'] {
  if (calls === 'at_once') return null;
  return calls === 'kept' ? health.callAt : (callAt ?? health.callAt);
}

type Said = Pick<EndpointMove, 'from' | 'to' | 'failures' | 'calls'> &
  Partial<Pick<EndpointMove, 'reason' | 'tells'>>;

function worker(move: Said): EndpointMove {
  return { by: 'worker', reason: null, tells: null, ...move };
}

function tenant(move: Said): EndpointMove {
  return { by: 'tenant', reason: null, tells: null, ...move };
}
