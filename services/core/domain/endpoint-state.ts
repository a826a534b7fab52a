/** What a webhook endpoint may be until it is deleted. */
export const ENDPOINT_STATUSES = ['active', 'failing', 'paused', 'disabled'] as const;
export type EndpointStatus = (typeof ENDPOINT_STATUSES)[number];

/** How a webhook endpoint does, as it is stored. */
export type EndpointHealth = {
  readonly status: EndpointStatus;
  /** Of `disabled`: `gone` or `failing`. */
  readonly statusReason: string | null;
  /** Calls that failed since the last one that did not, and the first of them. */
  readonly failures: number;
  readonly failingSince: Date | null;
  /** No call is begun before; null where none is held back. */
  readonly callAt: Date | null;
};

export type EndpointMove = {
  /** `tenant`: a person, through the api, and the replay of what was asked for before a restore. `worker`: by what calls come to. */
  readonly by: 'tenant' | 'worker';
  readonly from: readonly EndpointStatus[];
  /** `same`: it only changes how the endpoint does. `deleted`: its row stays for a while, `disabled` and without secrets. */
  readonly to: EndpointStatus | 'same' | 'deleted';
  /** Of `disabled` alone. */
  readonly reason: 'gone' | 'failing' | null;
  /** What becomes of `failures` and `failingSince`. `counted`: one more, since the first one. */
  readonly failures: 'kept' | 'counted' | 'forgotten';
  /** When it is called next. `asked`: as the answer asks, else as before. `put_off`: not before a time that the move brings. */
  readonly calls: 'kept' | 'asked' | 'put_off' | 'at_once';
  /** The event that other endpoints of the tenant are told. */
  readonly tells: 'endpoint.failing' | 'endpoint.disabled' | null;
};

/**
 * The moves of a webhook endpoint. This table is the law: `services/ARCHITECTURE.md` draws it, `moveEndpoint` does what it says,
 * the SQL function `may_move_endpoint`, which is generated from it, is asked by every statement that stores a state, and a
 * test has those of the services meet an endpoint in every state. Only a person leads out of `paused` and `disabled`.
 */
export const ENDPOINT_MOVES = {
  /** A call has succeeded, after fewer failures than make it failing. What it has asked for holds. */
  clear: worker({ from: ['active'], to: 'same', failures: 'forgotten', calls: 'kept' }),
  /** A call has failed, and too few have before. */
  count: worker({ from: ['active'], to: 'same', failures: 'counted', calls: 'asked' }),
  /** The fourth call in a row has failed. */
  fail: worker({
    from: ['active'],
    to: 'failing',
    failures: 'counted',
    calls: 'put_off',
    tells: 'endpoint.failing',
  }),
  /** A worker has the one call that tries it; no other one is made before its lease is over. */
  probe: worker({ from: ['failing'], to: 'same', failures: 'kept', calls: 'put_off' }),
  /** That call was not made. */
  spare: worker({ from: ['failing'], to: 'same', failures: 'kept', calls: 'at_once' }),
  /** It has failed again. */
  fail_again: worker({ from: ['failing'], to: 'same', failures: 'counted', calls: 'put_off' }),
  /** A call has succeeded. */
  recover: worker({ from: ['failing'], to: 'active', failures: 'forgotten', calls: 'at_once' }),
  /** For five days all calls have failed. */
  give_up: worker({
    from: ['active', 'failing'],
    to: 'disabled',
    reason: 'failing',
    failures: 'counted',
    calls: 'at_once',
    tells: 'endpoint.disabled',
  }),
  /** It has answered 410. */
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
  /** What was to be tried again later is due now. */
  resume: tenant({
    from: ['failing', 'paused', 'disabled'],
    to: 'active',
    failures: 'forgotten',
    calls: 'at_once',
  }),
  /** Where it is called, or with what, has changed, which may be what was wrong. */
  readdress: tenant({ from: ENDPOINT_STATUSES, to: 'same', failures: 'kept', calls: 'at_once' }),
  /** Its row goes when nothing is left of what it was told; that of a tenant that is purged goes from any state. */
  delete: tenant({ from: ENDPOINT_STATUSES, to: 'deleted', failures: 'kept', calls: 'kept' }),
} satisfies Record<string, EndpointMove>;

export type EndpointMoveName = keyof typeof ENDPOINT_MOVES;
export const ENDPOINT_MOVE_NAMES = Object.keys(ENDPOINT_MOVES) as EndpointMoveName[];

export function canMoveEndpoint(name: EndpointMoveName, from: EndpointStatus): boolean {
  return ENDPOINT_MOVES[name].from.includes(from);
}

/**
 * How an endpoint does after a move of the table.
 * @param at when, in milliseconds since the epoch.
 * @param callAt for moves whose `calls` are `asked` or `put_off`.
 * @throws for a move that it may not make now: a bug, not an input error.
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
