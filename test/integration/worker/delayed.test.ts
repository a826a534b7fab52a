import { describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { findMessage, type MessageAddress } from '#core/store/messages/messages.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { toMessage } from '../../../services/api/messages/message-view.ts';
import { toEnvelope } from '#core/domain/webhooks/event-envelope.ts';
import { createEventIds } from '#core/domain/webhooks/event-id.ts';
import { scanFeed } from '#core/store/webhooks/feed.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { decideWaiting } from '#core/domain/sending/decide-waiting.ts';
import type { Rerouted } from '#core/domain/routing/failover.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { ClosedReason } from '#core/domain/routing/skipped-account.ts';
import type { DelayedMessage } from '#core/store/sending/waiting-messages.ts';
import type { Fault } from '#providers/stand-in.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { seedAccount } from '#test/support/seed.ts';
import type { FailoverLabels } from '#core/platform/telemetry/worker-labels.ts';
import { createDelayedMoves } from '../../../services/worker/claim/delayed-moves.ts';
import { createResolveWaiting, resolveWaiting } from '../../../services/worker/claim/resolve-waiting.ts';

const POLL = { interval: 20, timeout: 10_000 };
const down: Fault = { kind: 'reply', status: 503, body: 'down' };

/** Sets up a tenant with three accounts and a route over them that moves messages on after `maxWaitMs`. */
async function setup(maxWaitMs: number | null = 0, failoverOn: string[] = []) {
  const b = await setupWorkers();
  const { tenantId } = b.tenant;
  const account = async (digit: string) => {
    const accountSid = `AC${digit.repeat(32)}`;
    const config = { accountSid, from: '+15005550006' };
    const id = await seedAccount(b.admin, tenantId, { provider: 'twilio', config });
    return { id, path: new RegExp(`${accountSid}/Messages`) };
  };
  const accounts = { first: await account('1'), second: await account('2'), third: await account('3') };
  const ids = Object.values(accounts).map(({ id }) => id);
  const steps = ids.map((accountId) => ({ accountId, weight: 1 }));
  await b.admin`insert into despatch.routes (tenant_id, channel, version, strategy, steps, failover_on, max_wait_ms)
    values (${tenantId}, 'sms', 4, 'priority', ${b.admin.json(steps)}, ${failoverOn}, ${maxWaitMs})`;
  const closed = new Map<string, ClosedReason>([[accounts.first.id, 'breaker_open']]);
  const counted: FailoverLabels[] = [];
  /** The moves of a worker for which the accounts in `closed` are closed. */
  const moves = () => {
    const marked = new Set<string>();
    const own = createDelayedMoves({
      store: b.store,
      dueFrom: () => undefined,
      whyClosed: (id) => closed.get(id),
      mark: ({ accountId }) => marked.add(accountId),
      resolve: createResolveWaiting({
        store: b.store,
        endedUncalled: () => undefined,
        failedOver: (failover) => void counted.push(failover),
      }),
      isStopping: () => false,
    });
    const run = async () => {
      for (const id of closed.keys()) own.add({ tenantId, accountId: id });
      await own.run();
    };
    return { run, marked };
  };
  /** Accepts messages that are already due. */
  const accept = async (n: number, overrides: Record<string, unknown> = {}) => {
    const sent = await b.send(n, { account_id: accounts.first.id, ...overrides }, { wake: false });
    const seqs = sent.map(({ seq }) => seq);
    await b.admin`update despatch.live_messages set due_at = now() where seq = any (${seqs}::bigint[])`;
    return seqs;
  };
  const events = (): Promise<{ message_seq: number; details: Details }[]> =>
    b.admin`select message_seq, details from despatch.event_log where type = 'message.failed_over' order by event_seq`;
  /** Counts the waiting messages in the lane of each account. */
  const lanes = async () => {
    const rows = await b.admin<{ account_id: string; n: number }[]>`
      select account_id, count(*)::integer as n from despatch.live_messages group by account_id`;
    const names = new Map(Object.entries(accounts).map(([name, { id }]) => [id, name]));
    return Object.fromEntries(rows.map(({ account_id, n }) => [names.get(account_id), n]));
  };
  return { ...b, tenantId, accounts, closed, counted, moves, accept, events, lanes };
}

type Details = { why: string; from: string; waitedMs: number; rerouted: Rerouted };

describe('messages that wait for an account with an open circuit breaker', () => {
  test('fail over to the next usable account of the route, with an event in log and feed', async () => {
    await using b = await setup();
    const [seq] = await b.accept(1);
    b.closed.set(b.accounts.second.id, 'rate_used_up');
    const { run, marked } = b.moves();
    await run();
    expect(await b.lanes()).toEqual({ third: 1 });
    expect([...marked]).toEqual([b.accounts.third.id]);
    const [event] = await b.events();
    expect(event).toMatchObject({
      message_seq: seq,
      details: {
        why: 'breaker_open',
        from: b.accounts.first.id,
        rerouted: {
          accountId: b.accounts.third.id,
          version: 4,
          skipped: [{ accountId: b.accounts.second.id, reason: 'rate_used_up' }],
        },
      },
    });
    const [change] =
      await b.admin`select count(*)::integer as n from despatch.changes where ${seq ?? 0} = any (seqs)
      and numbers is not null`;
    expect(change?.['n']).toBe(1);
    const [row] =
      await b.admin`select status, reason, reassigned from despatch.live_messages where seq = ${seq ?? 0}`;
    expect(row).toEqual({ status: 'queued', reason: 'failed_over', reassigned: 1 });
  });

  test.each([
    ['the request pinned the account', { pinned_account_id: 'first' }, ''],
    ['an earlier call had no answer', {}, 'ambiguous = 1'],
    ['they are test messages', { test: true }, ''],
    [
      'they are not due yet',
      {},
      `due_at = now() + interval '1 hour', next_attempt_at = now() + interval '1 hour'`,
    ],
    ['they are held', {}, `status = 'held', held_from = 'queued', held_at = now(), due_at = 'infinity'`],
    ['they have reached the maximum number of reassignments', {}, 'reassigned = 50'],
  ])('stay with their account if %s', async (_name, overrides, change) => {
    await using b = await setup();
    const named = 'pinned_account_id' in overrides ? { pinned_account_id: b.accounts.first.id } : overrides;
    const [seq] = await b.accept(1, named);
    if (change !== '') await b.admin.unsafe(`update despatch.live_messages set ${change} where seq = ${seq}`);
    await b.moves().run();
    expect(await b.lanes()).toEqual({ first: 1 });
    expect(await b.events()).toEqual([]);
  });

  test.each([
    ['the route sets no maximum wait', null],
    ['the maximum wait of the route is not over', 60_000],
  ])('stay with their account while %s', async (_name, maxWaitMs) => {
    await using b = await setup(maxWaitMs);
    await b.accept(1);
    await b.moves().run();
    expect(await b.lanes()).toEqual({ first: 1 });
  });

  test('stay with their account if no other account of the route can be called', async () => {
    await using b = await setup();
    b.closed.set(b.accounts.second.id, 'breaker_open');
    await b.admin`update despatch.provider_accounts set status = 'disabled' where id = ${b.accounts.third.id}`;
    await b.accept(1);
    await b.moves().run();
    expect(await b.lanes()).toEqual({ first: 1 });
  });

  test('fail over even from behind full pages of pinned messages', async () => {
    await using b = await setup();
    for (let i = 0; i < 6; i++) await b.accept(100, { pinned_account_id: b.accounts.first.id });
    await b.accept(3);
    const { run } = b.moves();
    await run();
    expect(await b.lanes()).toEqual({ first: 603 });
    await run();
    expect(await b.lanes()).toEqual({ first: 600, second: 3 });
  });

  test('are read page by page, by priority and then by due time', async () => {
    await using b = await setup();
    const later = await b.accept(30);
    const urgent = await b.accept(2, { priority: 0 });
    await b.admin`update despatch.live_messages set due_at = due_at - interval '1 minute' where seq = ${later[7] ?? 0}`;
    const lane = { tenantId: b.tenantId, accountId: b.accounts.first.id };
    const seen: number[] = [];
    let after: DelayedMessage | undefined;
    for (;;) {
      const page = await b.store.findDelayed(lane, 5, after);
      seen.push(...page.map(({ seq }) => seq));
      after = page.at(-1);
      if (after === undefined) break;
    }
    expect(new Set(seen.slice(0, 2))).toEqual(new Set(urgent));
    expect(seen[2]).toBe(later[7]);
    expect(seen.toSorted((x, y) => x - y)).toEqual([...later, ...urgent].toSorted((x, y) => x - y));
  });
});

test('failovers are counted by both providers and reason, except if the message was canceled', async () => {
  await using b = await setup();
  await b.admin`update despatch.provider_accounts set provider = 'plivo' where id = ${b.accounts.second.id}`;
  await b.accept(2);
  b.closed.set(b.accounts.first.id, 'rate_used_up');
  await b.moves().run();
  const left = { channel: 'sms', provider: 'twilio', to: 'plivo', because: 'rate_used_up' };
  expect(b.counted).toEqual([left, left]);

  const [seq = 0, other = 0] = await b.accept(2);
  const rows = await b.store.findWaiting([seq, other]);
  await b.store.moveMessages([seq], 'canceled', null);
  await resolveWaiting(rows, {
    store: b.store,
    endedUncalled: () => undefined,
    failedOver: (failover) => void b.counted.push(failover),
    whyClosed: (id) => (id === b.accounts.first.id ? 'breaker_open' : undefined),
  });
  expect(b.counted.slice(2)).toEqual([{ ...left, because: 'breaker_open' }]);
});

test('with two workers and a concurrent cancel, each message fails over once or is canceled', async () => {
  await using b = await setup();
  const seqs = await b.accept(200);
  const canceled = seqs.slice(0, 100);
  const [, , ended] = await Promise.all([
    b.moves().run(),
    b.moves().run(),
    b.store.moveMessages(canceled, 'canceled', null),
  ]);
  expect(ended.size).toBe(100);
  expect(await b.statuses()).toEqual({ queued: 100, canceled: 100 });
  await b.moves().run();
  expect(await b.lanes()).toEqual({ second: 100 });
  const moved = (await b.events()).map(({ message_seq }) => message_seq);
  expect(new Set(moved).size).toBe(moved.length);
  expect(seqs.slice(100).every((seq) => moved.includes(seq))).toBe(true);
});

test('messages that left an account for its rate limit do not fail over back to it', async () => {
  await using b = await setup();
  b.closed.clear();
  b.closed.set(b.accounts.first.id, 'rate_used_up');
  await b.accept(20);
  await b.moves().run();
  expect(await b.lanes()).toEqual({ second: 20 });
  b.closed.clear();
  b.closed.set(b.accounts.second.id, 'rate_used_up');
  await b.moves().run();
  expect(await b.lanes()).toEqual({ third: 20 });
  b.closed.clear();
  b.closed.set(b.accounts.third.id, 'rate_used_up');
  await b.moves().run();
  expect(await b.lanes()).toEqual({ third: 20 });
});

test('failover skips an account that refused the message, even if its own is disabled', async () => {
  await using b = await setup(0, ['sender_rejected']);
  b.startWorker();
  b.twilio.fail(
    { kind: 'reply', status: 400, body: { code: 21_606, message: 'Refused', status: 400 } },
    b.accounts.first.path,
  );
  b.twilio.fail(down, b.accounts.second.path);
  b.twilio.fail(down, b.accounts.second.path);
  await b.send(1, { account_id: b.accounts.first.id });
  const retries = async () => (await b.admin`select retries from despatch.live_messages`)[0]?.['retries'];
  await expect.poll(retries, POLL).toBe(2);
  await b.admin`update despatch.provider_accounts set status = 'disabled' where id = ${b.accounts.second.id}`;
  await b.admin`update despatch.live_messages set due_at = now(), next_attempt_at = now()`;
  await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  const calls =
    await b.admin`select account_id from despatch.attempts where outcome <> 'not_started' order by number`;
  expect(calls.map((call) => call['account_id'])).toEqual([
    b.accounts.first.id,
    b.accounts.second.id,
    b.accounts.second.id,
    b.accounts.third.id,
  ]);
});

test("when an account's breaker opens, the rest of its lane is sent through the next account", async () => {
  await using b = await setup(0);
  b.startWorker();
  for (let i = 0; i < 300; i++) b.twilio.fail(down, b.accounts.first.path);
  await b.send(120, { account_id: b.accounts.first.id });
  await expect.poll(async () => (await b.statuses())['sent'] ?? 0, POLL).toBeGreaterThan(40);
  const events = await b.events();
  expect(events.length).toBeGreaterThan(40);
  expect(new Set(events.map(({ details }) => details.why))).toEqual(new Set(['breaker_open']));
  const [{ n } = { n: 0 }] = await b.admin<{ n: number }[]>`
    select count(*)::integer as n from despatch.message_results where status = 'sent' and account_id = ${b.accounts.first.id}`;
  expect(n).toBe(0);
});

test('the route of a message lists each account considered, before and after its call', async () => {
  await using b = await setup();
  const [seq = 0] = await b.accept(1);
  const [place] = await b.admin<{ id: string; seq: number; purgeOn: string }[]>`
    select id, seq, purge_on::text as "purgeOn" from despatch.messages where seq = ${seq}`;
  const record = async () => {
    const tenantId = b.tenantId as TenantId;
    const row = await withTenant(b.api, tenantId, (tx) => findMessage(tenantId, tx, place as MessageAddress));
    if (row === undefined) throw new Error('no such message');
    return toMessage(row);
  };
  const route = async () =>
    (await record()).route.map(({ providerId, verdict, reason, attempt }) => [
      providerId,
      verdict,
      reason,
      attempt,
    ]);
  expect(await route()).toEqual([]);
  b.closed.set(b.accounts.second.id, 'rate_used_up');
  await b.moves().run();
  const skipped = [
    [b.accounts.first.id, 'skipped', 'breaker_open', undefined],
    [b.accounts.second.id, 'skipped', 'rate_used_up', undefined],
  ];
  expect(await route()).toEqual(skipped);
  b.startWorker();
  await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  expect(await route()).toEqual([...skipped, [b.accounts.third.id, 'chosen', 'next_in_route', 1]]);
  expect(await record()).toMatchObject({ routeVersion: 4, attemptCount: 1, status: 'sent' });
});

test('failover events in the feed name both accounts and the reason, before and after a call', async () => {
  await using b = await setup();
  const [, called = 0] = await b.accept(2);
  const failure = { class: 'provider_unavailable', code: 'http_503' } as const;
  const [claimed] = await b.store.claim([called], { worker: 'w', leaseMs: 60_000 });
  if (claimed === undefined) throw new Error('nothing was claimed');
  await b.store.complete([completionOf(claimed, { kind: 'rejected_transient', failure })]);
  await b.admin`update despatch.live_messages set due_at = now(), next_attempt_at = now() where seq = ${called}`;
  await b.moves().run();
  await b.store.numberChanges(100, 0);
  const ids = createEventIds(await b.store.messageIdKey());
  const tenantId = b.tenantId as TenantId;
  const range = { before: undefined, rows: 100, most: 100 };
  const { found } = await withTenant(b.api, tenantId, (tx) =>
    scanFeed(tenantId, tx, ids, { type: 'message.failed_over' }, range),
  );
  const moved = {
    why: 'breaker_open',
    fromProviderId: b.accounts.first.id,
    toProviderId: b.accounts.second.id,
  };
  const told = found.map((event) => toEnvelope(event).data);
  expect(told).toHaveLength(2);
  expect(told).toContainEqual(
    expect.objectContaining({ ...moved, routeVersion: 4, attempt: null, providerId: null, failure: null }),
  );
  expect(told).toContainEqual(
    expect.objectContaining({ ...moved, routeVersion: 4, attempt: 1, providerId: b.accounts.first.id }),
  );
});

test('messages over the rate limit of an account are sent through the next account', async () => {
  await using b = await setup(1_000);
  await b.admin`update despatch.provider_accounts set rate_limit_per_second = 1 where id = ${b.accounts.first.id}`;
  b.startWorker();
  await b.send(40, { account_id: b.accounts.first.id });
  await expect.poll(b.statuses, POLL).toEqual({ sent: 40 });
  const rows = await b.admin<{ account_id: string; n: number }[]>`
    select account_id, count(*)::integer as n from despatch.message_results group by 1`;
  const through = new Map(rows.map(({ account_id, n }) => [account_id, n]));
  expect(through.get(b.accounts.first.id)).toBeLessThan(10);
  expect(through.get(b.accounts.second.id)).toBeGreaterThan(30);
  expect((await b.events())[0]?.details).toMatchObject({ why: 'rate_used_up' });
  expect((await b.events())[0]?.details.waitedMs).toBeGreaterThanOrEqual(1_000);
});

test('each failover can be decided again from its stored event', async () => {
  await using b = await setup();
  await b.admin`update despatch.routes set strategy = 'weighted'`;
  await b.accept(50);
  b.closed.set(b.accounts.second.id, 'rate_used_up');
  await b.admin`update despatch.provider_accounts set status = 'invalid' where id = ${b.accounts.first.id}`;
  await b.moves().run();
  const [route] = await b.admin<Route[]>`
    select channel, version, strategy, steps, failover_on as "failoverOn", max_wait_ms as "maxWaitMs" from despatch.routes`;
  const rows = await b.admin<{ id: string; details: Details }[]>`
    select m.id, e.details from despatch.event_log e join despatch.messages m on m.seq = e.message_seq
    where e.type = 'message.failed_over'`;
  expect(rows).toHaveLength(50);
  const state = { status: 'queued', tenantStatus: 'active', channel: 'sms', suppression: null } as const;
  const facts = {
    isDue: true,
    isExpired: false,
    isLeaseOver: false,
    test: false,
    pinned: false,
    ambiguous: 0,
  };
  for (const { id, details } of rows) {
    const { from, why, waitedMs, rerouted } = details;
    const closed = new Map<string, ClosedReason>([[from, 'breaker_open']]);
    for (const { accountId, reason } of rerouted.skipped) closed.set(accountId, reason as ClosedReason);
    const own = [...rerouted.skipped, rerouted].map(({ accountId }) => ({
      id: accountId,
      channel: 'sms',
      status: 'active',
    }));
    const accountStatus = why === 'invalid' ? 'invalid' : 'active';
    const waiting = {
      id,
      accountId: from,
      accountStatus,
      waitedMs,
      refusedBy: [],
      leftForRate: [],
      brake: null,
    };
    const message = { ...state, ...facts, ...waiting };
    expect(decideWaiting(message, own, [route as Route], closed)).toEqual({ kind: 'assign', rerouted, why });
  }
});
