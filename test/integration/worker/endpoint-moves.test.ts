import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  canMoveEndpoint,
  ENDPOINT_MOVE_NAMES,
  ENDPOINT_MOVES,
  ENDPOINT_STATUSES,
  moveEndpoint,
  type EndpointHealth,
  type EndpointMoveName,
  type EndpointStatus,
} from '#core/domain/webhooks/endpoint-state.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { deleteEndpoint, moveEndpointTo, updateEndpoint } from '#core/store/webhooks/webhook-endpoints.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { partsOf, setupWebhooks } from '#test/support/setup-webhooks.ts';

/**
 * Runs every statement that moves webhook endpoints on one endpoint in each state, and compares the result with the table of
 * moves.
 */
let b: Awaited<ReturnType<typeof setupWebhooks>>;
beforeAll(async () => (b = await setupWebhooks()));
afterAll(() => b[Symbol.asyncDispose]());

type State = EndpointStatus | 'deleted';
type Shown = EndpointHealth & { readonly isDeleted: boolean };
type Planted = Readonly<Record<State, string>>;

const SINCE = new Date('2026-01-02T03:04:05Z');
const MOVED_AT = new Date('2026-01-04T03:04:05Z');
const CALL_AT = new Date('2026-01-03T03:04:05Z');
const STATES: readonly State[] = [...ENDPOINT_STATUSES, 'deleted'];

/** Inserts an endpoint in each state, with failed calls, one due event and a postponed call. */
async function plant(): Promise<Planted> {
  await b.admin`update despatch.webhook_endpoints set deleted_at = now() where deleted_at is null`;
  const planted: Partial<Record<State, string>> = {};
  for (const state of STATES) {
    const id = await b.endpoint({
      status: state === 'deleted' ? 'disabled' : state,
      status_reason: state === 'disabled' ? 'gone' : null,
      failures: 3,
      failing_since: SINCE,
      call_at: CALL_AT,
      deleted_at: state === 'deleted' ? new Date() : null,
    });
    await b.admin`insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
      values (${id}, ${b.tenant.tenantId}, 1, 1, current_date + 30, now())`;
    planted[state] = id;
  }
  return planted as Planted;
}

async function shown(planted: Planted): Promise<Record<State, Shown>> {
  const rows = await b.admin<(Shown & { id: string })[]>`
    select id, status, status_reason as "statusReason", failures, failing_since as "failingSince",
      nullif(call_at, '-infinity') as "callAt", deleted_at is not null as "isDeleted"
    from despatch.webhook_endpoints where id = any (${Object.values(planted)}::uuid[])`;
  const of = (id: string) => {
    const { id: _, ...health } = rows.find((row) => row.id === id) as Shown & { id: string };
    return health;
  };
  return Object.fromEntries(Object.entries(planted).map(([state, id]) => [state, of(id)])) as Record<
    State,
    Shown
  >;
}

/** Returns the result for this state according to the table of moves. */
function tabled(name: EndpointMoveName, state: State, before: Shown, callAt: Date | null): Shown {
  if (state === 'deleted' || !canMoveEndpoint(name, state)) return before;
  return {
    ...moveEndpoint(before, name, MOVED_AT.getTime(), callAt),
    isDeleted: ENDPOINT_MOVES[name].to === 'deleted',
  };
}

/**
 * Runs `run` on an endpoint in each of these states. @returns the results and the expectations of the table; an endpoint to which
 * the move does not apply stays unchanged.
 */
async function moved(
  name: EndpointMoveName,
  run: (id: string, before: Shown) => Promise<unknown>,
  states = STATES,
): Promise<{ readonly found: readonly Shown[]; readonly expected: readonly Shown[] }> {
  const planted = await plant();
  const before = await shown(planted);
  for (const state of states) await run(planted[state], before[state]);
  const after = await shown(planted);
  const isPutOff = (callAt: Date | null): boolean => callAt !== null && callAt.getTime() > Date.now();
  const expected = states.map((state) => {
    const { callAt } = after[state];
    return tabled(name, state, before[state], isPutOff(callAt) ? callAt : before[state].callAt);
  });
  const isLater = expected.some(({ callAt }) => isPutOff(callAt));
  expect(isLater).toBe(['asked', 'put_off'].includes(ENDPOINT_MOVES[name].calls));
  return { found: states.map((state) => after[state]), expected };
}

const inTenant = (work: (tx: TransactionSql, tenantId: TenantId) => Promise<unknown>) => {
  const tenantId = b.tenant.tenantId as TenantId;
  return withTenant(b.api, tenantId, (tx) => work(tx, tenantId));
};

test.each(['pause', 'resume'] as const)(
  'the API makes the transition %s only from the states of the table',
  async (name) => {
    const { found, expected } = await moved(name, (id) =>
      inTenant((tx, tenantId) => moveEndpointTo(tenantId, tx, id, name)),
    );
    expect(found).toEqual(expected);
  },
);

test('a new URL makes the transition readdress in any state', async () => {
  const { found, expected } = await moved('readdress', (id) =>
    inTenant((tx, tenantId) => updateEndpoint(tenantId, tx, id, { url: 'https://other.test/' })),
  );
  expect(found).toEqual(expected);
});

test('the API makes the transition delete from any state', async () => {
  const { found, expected } = await moved('delete', (id) =>
    inTenant((tx, tenantId) => deleteEndpoint(tenantId, tx, id)),
  );
  expect(found).toEqual(expected);
});

const STORED = ENDPOINT_MOVE_NAMES.filter(
  (name) => ENDPOINT_MOVES[name].by === 'worker' && name !== 'probe' && name !== 'spare',
);

test.each(STORED)('a worker stores the transition %s only from the states of the table', async (name) => {
  const { from } = ENDPOINT_MOVES[name];
  const states = STATES.filter((state) => state === 'deleted' || from.includes(state) || !isCalled(state));
  const store = async (id: string, before: Shown) => {
    // A worker whose copy of the endpoint has a state from which the move is allowed.
    const known = from.includes(before.status) ? before.status : (from[0] ?? before.status);
    const later = new Date(Date.now() + 60_000);
    const { status, statusReason, failures, failingSince, callAt } = moveEndpoint(
      { ...before, status: known },
      name,
      MOVED_AT.getTime(),
      later,
    );
    await b.worker`
      select store_endpoint_health(${id}, ${status}, ${statusReason}, ${failures}, ${failingSince}, ${callAt})`;
  };
  const { found, expected } = await moved(name, store, states);
  expect(found).toEqual(expected);
});

test('a claim for a failing endpoint makes the transition probe', async () => {
  let claims = 0;
  const { found, expected } = await moved('probe', async () => (claims += (await b.claims()).length));
  expect(found).toEqual(expected);
  expect(claims).toBe(2);
});

test('returning a claim for a failing endpoint without a call makes the transition spare', async () => {
  const planted = await plant();
  const claims = await b.claims();
  const before = await shown(planted);
  expect(before.failing.callAt?.getTime()).toBeGreaterThan(Date.now());
  await b.webhooks.completeDeliveries(
    claims.map((claim) => ({
      ...partsOf(claim),
      attempts: [],
      again: [],
      uncalled: [{ first: 1, last: 1 }],
    })),
  );
  const after = await shown(planted);
  // The next call is due at once, because the postponed call's time is dropped.
  expect(after.failing.callAt?.getTime()).toBeLessThanOrEqual(Date.now());
  const expected = Object.fromEntries(
    STATES.map((state) => [state, tabled('spare', state, before[state], null)]),
  );
  expect({ ...after, failing: { ...after.failing, callAt: null } }).toEqual(expected);
});

const isCalled = (status: EndpointStatus): boolean => status === 'active' || status === 'failing';
