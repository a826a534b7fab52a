import { afterAll, beforeAll, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import { RECEIPT_TIMEOUT_MS } from '#core/domain/sending/settle.ts';
import {
  canMove,
  LIVE_STATES,
  MESSAGE_MOVES,
  MESSAGE_STATES,
  type MessageState,
} from '#core/domain/message/message-state.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { asJson } from '#core/platform/postgres/postgres.ts';
import { cancelMessages } from '#core/store/messages/cancellation.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { acceptBatch, acceptRow, moveSuspension, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

/** Runs every function that moves messages on one message in each state, and compares the moves with the table of moves. */
let b: Awaited<ReturnType<typeof setupStores>>;
beforeAll(async () => (b = await setupStores()));
afterAll(() => b[Symbol.asyncDispose]());

const TERMS = { worker: 'w1', leaseMs: 60_000 };
const RECEIPTS = ['sent', 'delivered', 'undelivered'] as const;
const isLive = (state: MessageState) => (LIVE_STATES as readonly MessageState[]).includes(state);

type Planted = {
  readonly tenantId: string;
  readonly accountId: string;
  readonly places: readonly { readonly seq: number; readonly day: string }[];
  readonly seqs: number[];
};

/** Inserts messages of a new tenant, one in each of these states. */
async function plant(states: readonly MessageState[] = MESSAGE_STATES): Promise<Planted> {
  const tenant = await seedTenant(b.admin);
  const accountId = await seedAccount(b.admin, tenant.tenantId);
  const rows = states.map(() => acceptRow(tenant));
  await acceptBatch(b.api, rows, 0);
  for (const [i, state] of states.entries()) {
    const { seq } = rows[i] as (typeof rows)[number];
    await b.admin`
      update despatch.live_messages set status = ${state}, attempt = 1, worker = 0,
        provider = 'simulator-sms', started_at = now(), lease_until = now() + interval '1 minute'
      where seq = ${seq}`;
    if (state === 'held') {
      await b.admin`update despatch.live_messages set held_from = 'queued', held_at = now(), due_at = 'infinity'
        where seq = ${seq}`;
    }
    if (isLive(state)) continue;
    await b.admin`
      with gone as (delete from despatch.live_messages where seq = ${seq} returning *)
      insert into despatch.message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at,
        updated_at)
      select seq, purge_on, tenant_id, status, attempt, false, false, expires_at, now() from gone`;
  }
  const places = rows.map(({ seq, purge_on }) => ({ seq, day: purge_on }));
  return { tenantId: tenant.tenantId, accountId, places, seqs: rows.map(({ seq }) => seq) };
}

async function statesOf({ seqs }: Planted): Promise<Map<number, MessageState>> {
  const rows = await b.admin<{ seq: number; status: MessageState }[]>`
    select seq, status from despatch.message_states where seq = any (${seqs}::bigint[])`;
  return new Map(rows.map(({ seq, status }) => [seq, status]));
}

/** Returns the moves that `work` makes among planted messages. */
async function movesOf(planted: Planted, work: () => Promise<unknown>): Promise<string[]> {
  const before = await statesOf(planted);
  await work();
  const after = await statesOf(planted);
  expect(after.size, 'no message is lost, and none is in two states').toBe(before.size);
  return [...before].flatMap(([seq, from]) =>
    after.get(seq) === from ? [] : [`${from} -> ${after.get(seq)}`],
  );
}

const tabled = (from: readonly MessageState[], to: readonly MessageState[]): string[] =>
  from.flatMap((one) => to.filter((next) => canMove(one, next)).map((next) => `${one} -> ${next}`));

async function makeReceipts({ tenantId, places }: Planted, receipt: string): Promise<void> {
  for (const { seq, day } of places) {
    await b.admin`insert into despatch.receipts (tenant_id, message_seq, purge_on, attempt, receipt, apply_at)
      values (${tenantId}, ${seq}, ${day}, 1, ${receipt}, now())`;
  }
}

type Mover = {
  readonly name: string;
  readonly states?: readonly MessageState[];
  readonly run: (planted: Planted) => Promise<unknown>;
  readonly moves: readonly string[];
};

const WAITING = LIVE_STATES.filter((state) => state !== 'sending');
const ENDED = MESSAGE_STATES.filter((state) => !isLive(state));
/** A waiting message is first moved to `sent`, then on from there. */
const foundAs = (receipt: MessageState): string[] =>
  WAITING.filter((state) => canMove(state, 'sent')).map((state) => `${state} -> ${receipt}`);

const MOVERS: readonly Mover[] = [
  {
    name: 'claim',
    run: ({ seqs }) => b.store.claim(seqs, TERMS),
    moves: tabled(['queued', 'deferred'], ['sending']),
  },
  {
    name: 'claim_due',
    run: (lane) => b.store.claimDue([{ ...lane, most: 100, aheadMs: 0 }], TERMS),
    moves: tabled(['queued', 'deferred'], ['sending']),
  },
  ...MESSAGE_STATES.map((status): Mover => ({
    name: `complete as ${status}`,
    run: ({ places }) =>
      b.worker`select complete(${asJson(
        b.worker,
        places.map(({ seq, day }) => ({
          seq,
          purge_on: day,
          attempt: 1,
          outcome: 'ambiguous',
          status,
          retries: 0,
          ambiguous: 0,
          provider_waits: 0,
          duplicate_risk: false,
          final: false,
          next_attempt_ms: 60_000,
        })),
      )})`,
    moves: tabled(['sending'], [status]),
  })),
  ...MESSAGE_STATES.map((status): Mover => ({
    name: `move_messages to ${status}`,
    run: ({ seqs }) => b.store.moveMessages(seqs, status, null),
    moves: tabled(WAITING, [status]),
  })),
  {
    name: 'hold_tenant',
    async run({ tenantId }) {
      await moveSuspension(b.admin, tenantId, 'billing');
      await b.store.holdTenant(tenantId, 100);
    },
    moves: tabled(WAITING, ['held']),
  },
  ...MESSAGE_STATES.map((origin): Mover => ({
    name: `release_tenant to ${origin}`,
    states: ['held'],
    async run({ tenantId }) {
      await b.admin`update despatch.live_messages set held_from = ${origin} where tenant_id = ${tenantId}`;
      await b.store.releaseTenant(tenantId, 100);
    },
    moves: tabled(['held'], [origin]),
  })),
  {
    name: 'cancel_messages',
    async run({ tenantId, seqs }) {
      await withTenant(b.api, tenantId as TenantId, (tx) => cancelMessages(tx, seqs));
    },
    moves: tabled(WAITING, ['canceled']),
  },
  {
    name: 'end_outlived of messages sent before',
    async run({ seqs }) {
      await b.admin`update despatch.live_messages set purge_on = current_date, sent_attempt = 1,
        sent_account_id = account_id where seq = any (${seqs}::bigint[])`;
      await b.store.endOutlived({ readsMax: 100, most: 100 });
    },
    moves: tabled(WAITING, ['sent']),
  },
  {
    name: 'end_outlived',
    async run({ seqs }) {
      await b.admin`update despatch.live_messages set purge_on = current_date where seq = any (${seqs}::bigint[])`;
      await b.store.endOutlived({ readsMax: 100, most: 100 });
    },
    moves: tabled(WAITING, ['canceled']),
  },
  ...RECEIPTS.map((receipt): Mover => ({
    name: `record_receipts with ${receipt}`,
    async run(planted) {
      await makeReceipts(planted, receipt);
      await b.store.applyReceipts(100, decideReceipts);
    },
    moves: [...tabled(ENDED, [receipt]), ...(receipt === 'sent' ? [] : foundAs(receipt))],
  })),
  {
    name: 'record_receipts of unanswered calls',
    async run(planted) {
      await b.admin`update despatch.live_messages set ambiguous = 1 where tenant_id = ${planted.tenantId}`;
      await makeReceipts(planted, 'sent');
      await b.store.applyReceipts(100, decideReceipts);
    },
    moves: tabled([...WAITING, 'unknown'], ['sent']),
  },
  {
    name: 'record_receipts of final messages',
    async run(planted) {
      await b.admin`update despatch.message_results set final = true where tenant_id = ${planted.tenantId}`;
      await makeReceipts(planted, 'delivered');
      await b.store.applyReceipts(100, decideReceipts);
    },
    // A final `undelivered` stays: the only move that the table alone does not decide.
    moves: [...tabled(['sent', 'unknown'], ['delivered']), ...foundAs('delivered')],
  },
  {
    name: 'fail_over_silent',
    async run({ accountId, places }) {
      await b.admin`update despatch.message_results set event_seq = nextval('despatch.event_seq'), worker = 0,
        started_at = now(), sent_at = now(), account_id = ${accountId}, provider = 'simulator-sms'
        where seq = any (${places.map(({ seq }) => seq)}::bigint[])`;
      const moves = places.map(({ seq, day }) => ({
        seq,
        purge_on: day,
        to: accountId,
        address_key: '00',
        details: { reason: 'failed_over' },
      }));
      await b.worker`select fail_over_silent(${asJson(b.worker, moves)}, '[]', '{}')`;
    },
    moves: tabled(ENDED, ['queued']),
  },
  {
    name: 'move_messages of messages sent before',
    async run({ tenantId, seqs }) {
      await b.admin`update despatch.live_messages set sent_attempt = 1, sent_account_id = account_id
        where tenant_id = ${tenantId}`;
      for (const status of MESSAGE_STATES.filter((state) => !isLive(state) && state !== 'sent'))
        await b.store.moveMessages(seqs, status, null);
      await b.store.returnSent(seqs, 'expired');
    },
    moves: tabled(WAITING, ['sent']),
  },
  {
    name: 'move_messages to failed after a call without an answer',
    async run({ tenantId, seqs }) {
      await b.admin`update despatch.live_messages set ambiguous = 1 where tenant_id = ${tenantId}`;
      await b.store.moveMessages(seqs, 'failed', null);
    },
    moves: tabled(
      WAITING.filter((state) => !canMove(state, 'unknown')),
      ['failed'],
    ),
  },
  {
    name: 'cancel_messages of messages sent before',
    async run({ tenantId, seqs }) {
      await b.admin`update despatch.live_messages set sent_attempt = 1, sent_account_id = account_id
        where tenant_id = ${tenantId}`;
      await withTenant(b.api, tenantId as TenantId, (tx) => cancelMessages(tx, seqs));
    },
    moves: [],
  },
  {
    name: 'expire_receipts',
    async run({ tenantId, places }) {
      for (const { seq, day } of places) {
        await b.admin`insert into despatch.awaited_receipts (seq, purge_on, tenant_id, due_at)
          values (${seq}, ${day}, ${tenantId}, now())`;
      }
      await b.store.expireReceipts(100, [], RECEIPT_TIMEOUT_MS);
    },
    moves: tabled(['sent'], ['unknown']),
  },
];

test.each(MOVERS)(
  '$name makes its transitions of the table and no others',
  async ({ states, run, moves }) => {
    const planted = await plant(states);
    expect((await movesOf(planted, () => run(planted))).toSorted()).toEqual([...moves].toSorted());
  },
);

test('these functions together make every state transition of the table', () => {
  const all = Object.keys(MESSAGE_MOVES).flatMap((from) => tabled([from as MessageState], MESSAGE_STATES));
  const made = new Set(MOVERS.flatMap(({ moves }) => moves));
  expect(all.filter((move) => !made.has(move))).toEqual([]);
});

test('messages that wait or are held on the day of their purge are canceled with an event, and none before', async () => {
  const planted = await plant(['queued', 'held', 'deferred', 'sending']);
  const { seqs, tenantId } = planted;
  const backlog = (await b.gauges.messageTotals()).backlog;
  // In pages, each of which may be full of messages that are to be kept or ended.
  const end = () => b.store.endOutlived({ readsMax: 2, most: 1 });
  const outlive = (days: number) =>
    b.admin`update despatch.live_messages set purge_on = (now() at time zone 'UTC')::date + ${days}::int
      where seq = any (${seqs}::bigint[])`;

  await outlive(1);
  expect(await end()).toBe(0);
  await outlive(0);
  expect(await end()).toBe(3);
  const ended = await b.admin`
    select r.status, r.failure ->> 'code' as code, r.final, e.type, e.source from despatch.message_results r
    join despatch.events e on e.message_seq = r.seq where r.tenant_id = ${tenantId}`;
  const told = { code: 'retention_over', final: true, type: 'message.canceled', source: 'worker' };
  expect(ended).toEqual(Array.from({ length: 3 }, () => ({ status: 'canceled', ...told })));
  expect((await b.gauges.messageTotals()).backlog).toBe(backlog - 3);
  expect((await statesOf(planted)).get(seqs[3] ?? 0)).toBe('sending');
});

test('one worker at a time ends messages that have outlived their retention', async () => {
  const { seqs } = await plant(['queued']);
  await b.admin`update despatch.live_messages set purge_on = current_date where seq = any (${seqs}::bigint[])`;
  const end = () => b.store.endOutlived({ readsMax: 100, most: 100 });
  await b.admin.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('despatch.maintain'))`;
    expect(await end()).toBe('elsewhere');
  });
  expect(await end()).toBe(1);
});

const NO_ROUTE = { class: 'no_route', code: 'no_route', retryable: false };

test.each([
  { end: 'failed', failure: NO_ROUTE, reason: null },
  { end: 'expired', failure: { ...NO_ROUTE, class: 'expired', code: 'expired' }, reason: null },
  { end: 'canceled', failure: { ...NO_ROUTE, class: 'expired', code: 'retention_over' }, reason: null },
  { end: 'canceled', failure: null, reason: null },
  { end: 'suppressed', failure: null, reason: 'opt_out' },
  { end: 'unknown', failure: null, reason: 'ambiguous_attempt' },
  { end: 'sent', failure: null, reason: null },
] as const)(
  'a deferred message that becomes $end has the reason $reason, and not the one for which it waited',
  async ({ end, failure, reason }) => {
    const { tenantId, seqs } = await plant(['deferred']);
    await b.admin`update despatch.live_messages set reason = 'retry' where tenant_id = ${tenantId}`;
    await b.store.moveMessages(seqs, end, failure, reason);
    const rows =
      await b.admin`select status, reason from despatch.message_states where tenant_id = ${tenantId}`;
    expect(rows).toEqual([{ status: end, reason }]);
  },
);
