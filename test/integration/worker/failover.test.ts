import { expect, test } from 'vitest';
import { failOver, reroutedTo, type FailedTry, type Rerouted } from '#core/domain/routing/failover.ts';
import type { FailureClass } from '#core/domain/sending/failure.ts';
import { orderOf, routeByAge, type Route } from '#core/domain/routing/route.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { findMessage, type MessageAddress } from '#core/store/messages/messages.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import type { Fault } from '#providers/stand-in.ts';
import { assignmentOf } from '#test/support/assignment.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { seedAccount } from '#test/support/seed.ts';
import { setupMessages, terms, transient } from '#test/support/setup-messages.ts';
import { toMessage } from '../../../services/api/messages/message-view.ts';

const POLL = { interval: 20 };
const down: Fault = { kind: 'reply', status: 503, body: 'down' };
const refusal = (status: number, code: number): Fault => ({
  kind: 'reply',
  status,
  body: { code, message: 'Refused', status },
});
const badSender = refusal(400, 21_606);
const badCredential = refusal(401, 20_003);

/** Sets up a tenant with three accounts and a route over them. The route's last account is the one that the bench made first. */
async function setup(failoverOn = ['provider_unavailable', 'auth_or_config', 'sender_rejected']) {
  const b = await setupWorkers();
  const { tenantId } = b.tenant;
  const account = async (digit: string) => {
    const accountSid = `AC${digit.repeat(32)}`;
    const config = { accountSid, from: '+15005550006' };
    const id = await seedAccount(b.admin, tenantId, { provider: 'twilio', config });
    return { id, path: new RegExp(`${accountSid}/Messages`) };
  };
  const accounts = {
    first: await account('1'),
    second: await account('2'),
    last: { id: b.accountId, path: new RegExp(`AC0{32}/Messages`) },
  };
  const order = [accounts.first, accounts.second, accounts.last];
  const steps = order.map(({ id }) => ({ accountId: id, weight: 1 }));
  await b.admin`insert into despatch.routes (tenant_id, channel, version, strategy, steps, failover_on)
    values (${tenantId}, 'sms', 4, 'priority', ${b.admin.json(steps)}, ${failoverOn})`;
  const names = new Map(Object.entries(accounts).map(([name, { id }]) => [id, name]));
  /** Sends a message through the first account, whose calls fail as planted. */
  const send = async (overrides: Record<string, unknown> = {}) => {
    const [sent] = await b.send(1, { account_id: accounts.first.id, ...overrides });
    return sent?.seq ?? 0;
  };
  /** Returns the account and the outcome of each attempt of a message. */
  const attempts = async (seq: number) => {
    const rows = await b.admin<{ account_id: string; outcome: string }[]>`
      select account_id, outcome from despatch.attempts where message_seq = ${seq} order by number`;
    return rows.map(({ account_id, outcome }) => `${names.get(account_id)} ${outcome}`);
  };
  /** Returns the accounts that the message's route considered. */
  const route = async (seq: number) => {
    const [place] = await b.admin<MessageAddress[]>`
      select id, seq, purge_on::text as "purgeOn" from despatch.messages where seq = ${seq}`;
    const id = tenantId as TenantId;
    const row = place && (await withTenant(b.api, id, (tx) => findMessage(id, tx, place)));
    return row === undefined
      ? []
      : toMessage(row).route.map(
          ({ providerId, verdict, reason, attempt }) =>
            `${names.get(providerId)} ${verdict} ${reason} ${attempt ?? '-'}`,
        );
  };
  const state = async (seq: number) => {
    const [row] = await b.admin`
      select s.status, s.reason, s.account_id, s.failure ->> 'code' as code, l.retries, l.provider_waits
      from despatch.message_states s left join despatch.live_messages l using (seq) where s.seq = ${seq}`;
    return { ...row, account: names.get(row?.['account_id'] as string) };
  };
  return { ...b, accounts, sendMany: b.send, send, attempts, route, state };
}

test('a message whose account fails is sent through the next account of its route at once', async () => {
  await using b = await setup();
  b.startWorker();
  b.twilio.fail(down, b.accounts.first.path);
  b.twilio.fail(badCredential, b.accounts.second.path);
  const seq = await b.send();
  await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  expect(await b.attempts(seq)).toEqual([
    'first rejected_transient',
    'second rejected_transient',
    'last accepted',
  ]);
  expect(await b.state(seq)).toMatchObject({ status: 'sent', account: 'last' });
  const events = await b.admin<
    { type: string; details: { rerouted: { version: number; accountId: string } } }[]
  >`
    select type, details from despatch.events where message_seq = ${seq} order by event_seq`;
  expect(events.map(({ type }) => type)).toEqual([
    'message.failed_over',
    'message.failed_over',
    'message.sent',
  ]);
  expect(events.slice(0, 2).map(({ details }) => details.rerouted)).toEqual([
    { accountId: b.accounts.second.id, version: 4, skipped: [] },
    { accountId: b.accounts.last.id, version: 4, skipped: [] },
  ]);
});

test('failover skips disabled accounts', async () => {
  await using b = await setup();
  b.startWorker();
  await b.admin`update despatch.provider_accounts set status = 'disabled' where id = ${b.accounts.second.id}`;
  b.twilio.fail(badSender, b.accounts.first.path);
  const seq = await b.send();
  await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  expect(await b.attempts(seq)).toEqual(['first rejected_permanent', 'last accepted']);
});

test('an account that refused a message is not called again if all others are disabled', async () => {
  await using b = await setup();
  b.startWorker();
  b.twilio.fail(badSender, b.accounts.first.path);
  b.twilio.fail(badCredential, b.accounts.second.path);
  b.twilio.fail(badCredential, b.accounts.last.path);
  const seq = await b.send();
  await expect.poll(b.statuses, POLL).toEqual({ deferred: 1 });
  await expect.poll(() => b.attempts(seq), POLL).toHaveLength(3);
  const others = [b.accounts.second.id, b.accounts.last.id];
  await b.admin`update despatch.provider_accounts set status = 'disabled' where id = any (${others})`;
  await b.admin`update despatch.live_messages set due_at = now(), next_attempt_at = now() where seq = ${seq}`;
  await expect.poll(b.statuses, POLL).toEqual({ failed: 1 });
  expect(await b.attempts(seq)).toEqual([
    'first rejected_permanent',
    'second rejected_transient',
    'last rejected_transient',
  ]);
});

test('failover skips an invalid account, and the route of the message lists it as skipped', async () => {
  await using b = await setup();
  b.startWorker();
  await b.admin`update despatch.provider_accounts set status = 'invalid' where id = ${b.accounts.second.id}`;
  b.twilio.fail(badSender, b.accounts.first.path);
  const seq = await b.send();
  await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  expect(await b.attempts(seq)).toEqual(['first rejected_permanent', 'last accepted']);
  expect(await b.route(seq)).toEqual([
    'first failed sender_rejected 1',
    'second skipped invalid -',
    'last chosen next_in_route 2',
  ]);
});

test('the route of a failed message lists the accounts that could not be called', async () => {
  await using b = await setup();
  b.startWorker();
  await b.admin`update despatch.provider_accounts set status = 'disabled' where id = ${b.accounts.last.id}`;
  b.twilio.fail(badSender, b.accounts.first.path);
  b.twilio.fail(badSender, b.accounts.second.path);
  const seq = await b.send();
  await expect.poll(b.statuses, POLL).toEqual({ failed: 1 });
  expect(await b.route(seq)).toEqual([
    'first failed sender_rejected 1',
    'second failed sender_rejected 2',
    'last skipped disabled -',
  ]);
});

test('the route of a message with an unanswered call lists the accounts excluded by it', async () => {
  await using b = await setup();
  b.startWorker();
  b.twilio.fail(down, b.accounts.first.path);
  b.twilio.fail({ kind: 'reset' }, b.accounts.second.path);
  b.twilio.fail(badSender, b.accounts.second.path);
  const seq = await b.send();
  await expect.poll(b.statuses, { ...POLL, timeout: 15_000 }).toEqual({ unknown: 1 });
  expect(await b.route(seq)).toEqual([
    'first failed provider_unavailable 1',
    'second chosen next_in_route 3',
    'last skipped ambiguous_elsewhere -',
  ]);
  await b.admin`delete from despatch.routes`;
  const others = (await b.route(seq)).filter((line) => line.includes('ambiguous_elsewhere'));
  expect(others).toEqual(['last skipped ambiguous_elsewhere -']);
});

test('a message that every account refused permanently fails with the last failure', async () => {
  await using b = await setup();
  b.startWorker();
  for (const { path } of Object.values(b.accounts)) b.twilio.fail(badSender, path);
  const seq = await b.send();
  await expect.poll(b.statuses, POLL).toEqual({ failed: 1 });
  expect(await b.attempts(seq)).toEqual([
    'first rejected_permanent',
    'second rejected_permanent',
    'last rejected_permanent',
  ]);
  expect(await b.state(seq)).toMatchObject({ code: 'invalid_sender', account: 'last' });
});

test('after a full round, retries start without the account that refused permanently', async () => {
  await using b = await setup();
  b.startWorker();
  b.twilio.fail(badSender, b.accounts.first.path);
  // The first retry follows at once, so each account fails twice.
  for (let i = 0; i < 2; i++) {
    b.twilio.fail(down, b.accounts.second.path);
    b.twilio.fail(down, b.accounts.last.path);
  }
  const seq = await b.send();
  await expect
    .poll(() => b.state(seq), POLL)
    .toMatchObject({ status: 'deferred', reason: 'retry', retries: 2, account: 'second' });
  expect(await b.attempts(seq)).toEqual([
    'first rejected_permanent',
    'second rejected_transient',
    'last rejected_transient',
    'second rejected_transient',
    'last rejected_transient',
  ]);
});

test('after a full round, an account is not called before the wait that it requested is over', async () => {
  await using b = await setup();
  b.startWorker();
  b.twilio.fail({ ...down, headers: { 'retry-after': '60' } }, b.accounts.first.path);
  for (const { path } of [b.accounts.second, b.accounts.last]) b.twilio.fail(down, path);
  const seq = await b.send();
  await expect.poll(() => b.attempts(seq), POLL).toHaveLength(3);
  await expect
    .poll(() => b.state(seq), POLL)
    .toMatchObject({ reason: 'retry', account: 'first', retries: 1 });
  const [wait] = await b.admin<{ seconds: number }[]>`
    select extract(epoch from l.next_attempt_at - a.ended_at)::float8 as seconds
    from despatch.live_messages l join despatch.attempt_log a on a.message_seq = l.seq and a.number = 1 where l.seq = ${seq}`;
  // The wait began with the answer of the first account.
  expect(wait?.seconds).toBeGreaterThan(59.9);
  expect(wait?.seconds).toBeLessThan(90);
});

test('in later rounds, an account in the middle is not called before the wait that it requested is over', async () => {
  await using b = await setup();
  b.startWorker();
  // The first retry follows at once, so the other accounts fail twice.
  for (let i = 0; i < 2; i++)
    for (const of of [b.accounts.first, b.accounts.last]) b.twilio.fail(down, of.path);
  b.twilio.fail({ ...down, headers: { 'retry-after': '60' } }, b.accounts.second.path);
  const seq = await b.send();
  await expect
    .poll(() => b.state(seq), POLL)
    .toMatchObject({ status: 'deferred', reason: 'retry', retries: 2, account: 'first' });
  expect(await b.attempts(seq)).toEqual([
    'first rejected_transient',
    'second rejected_transient',
    'last rejected_transient',
    'first rejected_transient',
    'last rejected_transient',
  ]);
  expect(await b.route(seq)).toContain('second skipped asked_to_wait -');
});

test('a message left with only an account with a refused credential waits and uses no retry', async () => {
  await using b = await setup();
  b.startWorker();
  b.twilio.fail(badCredential, b.accounts.first.path);
  b.twilio.fail(badSender, b.accounts.second.path);
  b.twilio.fail(badSender, b.accounts.last.path);
  const seq = await b.send();
  await expect
    .poll(() => b.state(seq), POLL)
    .toMatchObject({ status: 'deferred', reason: 'provider_not_ready', retries: 0, account: 'first' });
});

test.each([
  ['an invalid recipient', refusal(400, 21_211), {}, { failed: 1 }],
  ['a failure class that the route does not list', refusal(429, 20_429), {}, { deferred: 1 }],
  ['a failure of a pinned account', down, { pinned: true }, { sent: 1 }],
])('%s causes no failover', async (_name, fault, { pinned }: { pinned?: boolean }, ends) => {
  await using b = await setup();
  b.startWorker();
  b.twilio.fail(fault, b.accounts.first.path);
  const seq = await b.send(pinned === true ? { pinned_account_id: b.accounts.first.id } : {});
  await expect.poll(b.statuses, POLL).toEqual(ends);
  const called = new Set((await b.attempts(seq)).map((attempt) => attempt.split(' ')[0]));
  expect([...called]).toEqual(['first']);
});

test('after an unanswered call no other account is called, even if the retry is refused', async () => {
  await using b = await setup();
  b.startWorker();
  b.twilio.fail({ kind: 'reset' }, b.accounts.first.path);
  b.twilio.fail(badSender, b.accounts.first.path);
  const seq = await b.send();
  await expect.poll(b.statuses, { ...POLL, timeout: 15_000 }).toEqual({ unknown: 1 });
  expect(await b.attempts(seq)).toEqual(['first ambiguous', 'first rejected_permanent']);
});

test('without a route, failover uses the accounts by age', async () => {
  await using b = await setup();
  await b.admin`delete from despatch.routes`;
  b.startWorker();
  b.twilio.fail(down, b.accounts.last.path);
  const [sent] = await b.sendMany(1);
  await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  expect(await b.attempts(sent?.seq ?? 0)).toEqual(['last rejected_transient', 'first accepted']);
});

test('a message shows its next account after a failover, even if it expires uncalled', async () => {
  await using b = await setupMessages();
  const { tenantId } = b.tenant;
  const next = await seedAccount(b.admin, tenantId, { provider: 'infobip' });
  const last = await seedAccount(b.admin, tenantId, { provider: 'plivo' });
  const [seq = 0] = await b.accept();
  const [message] = await b.store.claim([seq], terms());
  const failover = {
    messageId: message?.id ?? '',
    accountId: b.accountId,
    route: routeByAge(
      'sms',
      [b.accountId, next].map((id) => ({ id, channel: 'sms' })),
    ),
    usable: [b.accountId, next],
    tried: [],
  };
  await b.store.complete([completionOf(message as never, transient, { failover })]);
  const shown = async () => {
    const [row] = await b.admin`select account_id, provider from despatch.message_states where seq = ${seq}`;
    return row;
  };
  expect(await shown()).toEqual({ account_id: next, provider: 'infobip' });
  const called = await b.admin`select account_id, provider from despatch.attempts where message_seq = ${seq}`;
  expect(called).toEqual([{ account_id: b.accountId, provider: message?.provider }]);
  await b.store.assignAccounts([assignmentOf(seq, next, last)]);
  expect(await shown()).toEqual({ account_id: last, provider: 'plivo' });
  await b.store.moveMessages([seq], 'expired', { class: 'expired', code: 'expired', retryable: false });
  expect(await shown()).toEqual({ account_id: last, provider: 'plivo' });
});

test('a message without a provider call shows no account, even after an assignment', async () => {
  await using b = await setupMessages();
  const next = await seedAccount(b.admin, b.tenant.tenantId, { provider: 'infobip' });
  const [seq = 0] = await b.accept();
  await b.store.assignAccounts([assignmentOf(seq, b.accountId, next)]);
  const [row] = await b.admin`select account_id, provider from despatch.message_states where seq = ${seq}`;
  expect(row).toEqual({ account_id: null, provider: null });
});

test('many messages that fail over concurrently are sent once, with one call at a time each', async () => {
  await using b = await setup();
  for (let i = 0; i < 3; i++) b.startWorker();
  for (let i = 0; i < 15; i++) b.twilio.fail(down, b.accounts.first.path);
  for (let i = 0; i < 7; i++) b.twilio.fail(badSender, b.accounts.second.path);
  await b.sendMany(60, { account_id: b.accounts.first.id });
  await expect.poll(b.statuses, POLL).toEqual({ sent: 60 });
  const [row] = await b.admin`
    select count(*) filter (where outcome = 'accepted')::integer as accepted, count(*)::integer as calls
    from despatch.attempts where outcome <> 'not_started'`;
  expect(row).toEqual({ accepted: 60, calls: 60 + 15 + 7 });
  const overlapping = await b.admin`
    select from despatch.attempts x join despatch.attempts y using (message_seq)
    where x.number < y.number and y.started_at < x.ended_at`;
  expect(overlapping).toEqual([]);
});

test('each failover can be decided again from the stored attempts', async () => {
  await using b = await setup();
  await b.admin`update despatch.routes set strategy = 'weighted'`;
  b.startWorker();
  for (let i = 0; i < 40; i++) {
    b.twilio.fail(i % 3 === 0 ? badSender : down, b.accounts.first.path);
    b.twilio.fail(i % 2 === 0 ? badSender : down, b.accounts.second.path);
  }
  await b.sendMany(30, { account_id: b.accounts.first.id });
  await b.sendMany(30, { account_id: b.accounts.second.id });
  await expect.poll(b.statuses, POLL).toEqual({ sent: 60 });
  const [route] = await b.admin<Route[]>`
    select channel, version, strategy, steps, failover_on as "failoverOn" from despatch.routes`;
  const rows = await b.admin<
    {
      id: string;
      account_id: string;
      outcome: string;
      class: FailureClass;
      reason: string;
      rerouted: Rerouted | null;
    }[]
  >`
    select m.id, a.account_id, a.outcome, a.failure ->> 'class' as class, a.message_reason as reason, a.rerouted
    from despatch.attempt_log a join despatch.messages m on m.seq = a.message_seq
    where a.outcome <> 'not_started' order by m.id, a.number`;
  const decided = rows.filter(({ rerouted }) => rerouted !== null);
  expect(decided.length).toBeGreaterThan(60);
  for (const [messageId, attempts] of Map.groupBy(rows, ({ id }) => id)) {
    let tried: FailedTry[] = [];
    for (const { account_id: accountId, outcome, class: of, reason, rerouted } of attempts) {
      const refusal = { isPermanent: outcome === 'rejected_permanent', class: of };
      const usable = [...orderOf(route as Route, messageId)].filter(
        (id) => rerouted?.skipped.some((one) => one.accountId === id && one.reason === 'disabled') !== true,
      );
      const facts = { messageId, accountId, route: route as Route, usable, tried };
      const decision = failOver(refusal, facts);
      if (rerouted !== null) {
        expect(
          decision === undefined || decision.kind === 'none' ? null : reroutedTo(decision, facts.route),
        ).toEqual(rerouted);
      }
      tried = [...tried, { ...refusal, accountId }].filter(
        ({ isPermanent }) => isPermanent || reason === 'failed_over',
      );
    }
  }
});
