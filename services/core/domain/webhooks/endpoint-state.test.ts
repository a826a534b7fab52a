import { array, assert, boolean, constantFrom, integer, property, record } from 'fast-check';
import { expect, test } from 'vitest';
import { HOUR_MS } from '../text/duration.ts';
import { decideHealth } from './endpoint-health.ts';
import {
  canMoveEndpoint,
  ENDPOINT_MOVE_NAMES,
  ENDPOINT_MOVES,
  ENDPOINT_STATUSES,
  moveEndpoint,
  type EndpointHealth,
} from './endpoint-state.ts';

const FINE: EndpointHealth = {
  status: 'active',
  statusReason: null,
  failures: 0,
  failingSince: null,
  callAt: null,
};
const AT = Date.parse('2026-01-01T00:00:00Z');

/** Moves by name, an hour apart; moves that are not allowed are skipped. */
const moves = array(constantFrom(...ENDPOINT_MOVE_NAMES.filter((name) => name !== 'delete')), {
  maxLength: 40,
});
const calls = array(
  record({
    succeeded: boolean(),
    status: constantFrom(null, 200, 410, 429, 503),
    isProbe: boolean(),
    retryAfterMs: constantFrom(undefined, 30_000),
    afterMs: integer({ min: 0, max: 48 * HOUR_MS }),
  }),
  { maxLength: 40 },
);

function afterMoves(names: readonly (typeof ENDPOINT_MOVE_NAMES)[number][]): EndpointHealth[] {
  const all = [FINE];
  let health = FINE;
  for (const [i, name] of names.entries()) {
    if (!canMoveEndpoint(name, health.status)) continue;
    const at = AT + i * HOUR_MS;
    health = moveEndpoint(health, name, at, new Date(at + 60_000));
    all.push(health);
  }
  return all;
}

test('after any moves, the stored fields of an endpoint are consistent', () => {
  assert(
    property(moves, (names) => {
      for (const { status, statusReason, failures, failingSince, callAt } of afterMoves(names)) {
        expect(ENDPOINT_STATUSES).toContain(status);
        expect(statusReason !== null).toBe(status === 'disabled');
        expect(failingSince === null).toBe(failures === 0);
        if (status === 'failing' || status === 'disabled') expect(failures).toBeGreaterThan(0);
        if (status === 'paused') expect(failures).toBe(0);
        // An endpoint that is not called is called at once when it becomes active again.
        if (status === 'paused' || status === 'disabled') expect(callAt).toBeNull();
      }
    }),
  );
});

test('a call makes at most one transition, which is one that a worker may make', () => {
  assert(
    property(moves, calls, (names, made) => {
      let health = afterMoves(names).at(-1) ?? FINE;
      let at = AT + 40 * HOUR_MS;
      for (const { afterMs, ...call } of made) {
        at += afterMs;
        const before = health;
        health = decideHealth(before, { ...call, at }, 0.5);
        if (health === before) continue;
        const { callAt } = health;
        const possible = ENDPOINT_MOVE_NAMES.filter(
          (name) => ENDPOINT_MOVES[name].by === 'worker' && canMoveEndpoint(name, before.status),
        ).map((name) => moveEndpoint(before, name, at, callAt));
        expect(possible).toContainEqual(health);
      }
    }),
  );
});

test('a deleted endpoint is stored as disabled, without a reason', () => {
  expect(moveEndpoint(FINE, 'delete', AT)).toEqual({ ...FINE, status: 'disabled' });
});

test('only a tenant can resume or delete a paused or disabled endpoint', () => {
  const out = ENDPOINT_MOVE_NAMES.filter((name) => {
    const { from, to } = ENDPOINT_MOVES[name];
    return (from.includes('paused') || from.includes('disabled')) && to !== 'same';
  });
  expect(out).toEqual(['resume', 'delete']);
  expect(out.map((name) => ENDPOINT_MOVES[name].by)).toEqual(['tenant', 'tenant']);
});

test('each state is reachable from any other, and only failing and disabled emit an event', () => {
  for (const from of ENDPOINT_STATUSES) {
    const reached = new Set([from]);
    for (const state of reached) {
      for (const name of ENDPOINT_MOVE_NAMES) {
        const { to } = ENDPOINT_MOVES[name];
        if (canMoveEndpoint(name, state) && to !== 'same' && to !== 'deleted') reached.add(to);
      }
    }
    expect(reached.size).toBe(ENDPOINT_STATUSES.length);
  }
  for (const name of ENDPOINT_MOVE_NAMES) {
    const { to, tells } = ENDPOINT_MOVES[name];
    expect(tells).toBe(to === 'failing' || to === 'disabled' ? `endpoint.${to}` : null);
  }
});

test.each(['paused', 'disabled'] as const)('a move that a %s endpoint may not make is refused', (status) => {
  expect(() => moveEndpoint({ ...FINE, status }, 'recover', AT)).toThrow(`${status} makes no move 'recover'`);
});
