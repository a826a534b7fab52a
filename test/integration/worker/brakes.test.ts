import { expect, test } from 'vitest';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { acceptBatch, acceptRow, moveSuspension, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';
import { createBrakeChannels } from '../../../services/worker/upkeep/brake-channels.ts';
import { resolveWaiting } from '../../../services/worker/claim/resolve-waiting.ts';

const TERMS = { worker: 'w1', leaseMs: 60_000 };
const SENT: AttemptOutcome = { kind: 'accepted', providerMessageId: 'p-1' };
const BOUNCED: AttemptOutcome = {
  kind: 'rejected_permanent',
  failure: { class: 'invalid_recipient', code: 'unknown_recipient' },
};
const REJECTED: AttemptOutcome = {
  kind: 'rejected_permanent',
  failure: { class: 'content_rejected', code: 'spam' },
};
const AT_ONCE = 250;
let addresses = 0;

async function setup(limits: Partial<Limits> = {}) {
  const stores = await setupStores();
  const { admin, api, store } = stores;
  const tenant = await seedTenant(admin, limits);
  const { tenantId } = tenant;
  const brakeChannels = createBrakeChannels(store);
  const accounts = {
    sms: await seedAccount(admin, tenantId, { provider: 'twilio' }),
    email: await seedAccount(admin, tenantId, { provider: 'sendgrid', channel: 'email' }),
  };

  async function accept(n = 1, over: Record<string, unknown> = {}): Promise<number[]> {
    const rows = Array.from({ length: n }, () => {
      const address = `+1555${String(1_000_000 + addresses++)}`;
      return acceptRow(tenant, { recipient: address, address, rate_per_minute: 60_000, ...over });
    });
    await acceptBatch(api, rows, 0);
    return rows.map(({ seq }) => seq);
  }
  /** Sends this many messages that await no receipt. */
  async function send(n: number, outcome = SENT, over: Record<string, unknown> = {}): Promise<number[]> {
    const seqs: number[] = [];
    for (let left = n; left > 0; left -= AT_ONCE) {
      const some = await accept(Math.min(left, AT_ONCE), over);
      const claimed = await store.claim(some, TERMS);
      expect(claimed).toHaveLength(some.length);
      await store.complete(claimed.map((message) => completionOf(message, outcome)));
      seqs.push(...some);
    }
    return seqs;
  }
  /** Runs a counting pass and the decision after it. */
  async function pass(): Promise<string[]> {
    const { windows } = await store.countUsage(100_000, 0);
    const entries = await brakeChannels(windows);
    return entries.map(({ facts }) => [facts['channel'], facts['level'], facts['rate']].join(' '));
  }
  const lift = (channel: string | null = null) =>
    api.begin(async (tx) => {
      await tx`select set_config('app.tenant', ${tenantId}, true)`;
      return tx`select channel, level from lift_brake(${tenantId}, ${channel})`;
    });
  const claimDue = (most: number, channel: keyof typeof accounts = 'sms') =>
    store.claimDue([{ tenantId, accountId: accounts[channel], most, aheadMs: 10_000 }], TERMS);
  const shown = async (seqs: readonly number[]) => {
    const rows = await admin<{ shown: string }[]>`
      select concat_ws(' ', status, reason) as shown from despatch.message_states where seq = any (${[...seqs]}::bigint[]) order by seq`;
    return rows.map((row) => row.shown);
  };
  const resolve = async (seqs: readonly number[]) =>
    resolveWaiting(await store.findWaiting(seqs), {
      store,
      endedUncalled: () => undefined,
      failedOver: () => undefined,
    });
  return {
    ...stores,
    brakeChannels,
    tenantId,
    accounts,
    accept,
    send,
    pass,
    lift,
    claimDue,
    shown,
    resolve,
    hold: () => store.holdTenant(tenantId, 1_000),
    release: () => store.releaseTenant(tenantId, 1_000),
    brake: (channel: keyof typeof accounts, level: string) => admin`
      insert into despatch.brakes (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at)
      values (${tenantId}, ${channel}, ${level}, 'hard_bounce_rate', 0.2, 0.05, now(), 1000, now())`,
    brakeHard: async () => {
      await send(200, BOUNCED);
      await send(800);
      return pass();
    },
    told: async () => {
      const events = await admin`
        select type, details from despatch.tenant_events where tenant_id = ${tenantId} and type like 'tenant.brake%' order by event_seq`;
      return events.map(({ type, details }) => `${String(type)} ${(details as { level: string }).level}`);
    },
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

function reportComplaint(b: Awaited<ReturnType<typeof setup>>, seq: number) {
  return b.admin`
    insert into despatch.receipts (tenant_id, message_seq, purge_on, account_id, engagement, report_key, apply_at)
    select tenant_id, seq, purge_on, ${b.accounts.sms}, 'complained', gen_random_uuid()::text, now()
    from despatch.messages where seq = ${seq}`;
}

test('messages behind an abuse brake count as braked, not as backlog; channels count by level', async () => {
  await using b = await setup();
  const totals = async () => {
    const { backlog, braked } = await b.gauges.messageTotals();
    return [backlog, braked];
  };
  const channels = () => b.gauges.brakedChannels();
  await b.accept(4);
  await b.accept(3, { channel: 'email' });
  await b.accept(2, { test: true });
  const sendAt = new Date(Date.now() + 3_600_000).toISOString();
  await b.accept(1, { status: 'scheduled', send_at: sendAt });
  expect(await totals()).toEqual([9, 0]);
  expect(await channels()).toEqual([]);

  await b.brake('sms', 'held');
  expect(await totals()).toEqual([5, 4]);
  expect(await channels()).toEqual([{ level: 'held', channels: 1 }]);
  expect(await b.hold()).toBe(4);
  expect(await totals()).toEqual([5, 4]);

  // A slowed channel continues at a tenth of its rate; its waiting messages count as braked too.
  await b.brake('email', 'slowed');
  expect(await totals()).toEqual([2, 7]);
  expect(await channels()).toEqual([
    { level: 'held', channels: 1 },
    { level: 'slowed', channels: 1 },
  ]);

  expect(await b.lift('sms')).toHaveLength(1);
  await b.release();
  expect(await totals()).toEqual([6, 3]);
  // Workers do not wait for messages of a suspended tenant.
  await moveSuspension(b.admin, b.tenantId, 'billing');
  expect(await totals()).toEqual([0, 0]);
  expect(await channels()).toEqual([]);
});

test('a claim returns when a held message was released and whether its channel is slowed', async () => {
  await using b = await setup();
  const [seq = 0] = await b.accept(1);
  await b.brake('sms', 'held');
  expect(await b.hold()).toBe(1);
  await b.lift();
  const before = Date.now() - 1_000;
  await b.release();
  const [released] = await b.store.claim([seq], TERMS);
  expect(released).toMatchObject({ seq, isSlowed: false });
  expect(released?.releasedAt?.getTime()).toBeGreaterThan(before);

  await b.brake('email', 'slowed');
  const [mail = 0] = await b.accept(1, { channel: 'email' });
  expect(await b.claimDue(1, 'email')).toMatchObject([{ seq: mail, isSlowed: true, releasedAt: null }]);
});

test('a bounce rate above the limit slows a channel from 1,000 final messages on, not with 999', async () => {
  await using b = await setup();
  await b.send(101, BOUNCED);
  await b.send(898);
  expect(await b.pass()).toEqual([]);
  // Messages of another channel, test messages, and messages without a call do not count.
  await b.send(1, SENT, { channel: 'email' });
  await b.send(1, SENT, { test: true });
  await b.store.moveMessages(await b.accept(3), 'canceled', null);
  expect(await b.pass()).toEqual([]);
  await b.send(1, REJECTED);
  expect(await b.pass()).toEqual(['sms slowed 0.101']);
  expect(await b.pass()).toEqual([]);
  expect(await b.told()).toEqual(['tenant.brake_applied slowed']);
});

test('a bounce rate of twice the limit holds the channel at once; a plan can set the limit', async () => {
  await using b = await setup();
  expect(await b.brakeHard()).toEqual(['sms held 0.2']);
  await using lenient = await setup({ hardBounceRateMax: 0.15 });
  expect(await lenient.brakeHard()).toEqual(['sms slowed 0.2']);
  await using off = await setup({ hardBounceRateMax: 1 });
  expect(await off.brakeHard()).toEqual([]);
});

test('the window of the bounce rate covers the last 1,000 to 1,049 final messages', async () => {
  await using b = await setup();
  const windowOf = async () => {
    const { windows } = await b.store.countUsage(10_000, 0);
    return windows.map(({ finals, hardBounces }) => [finals, hardBounces]);
  };
  await b.send(60, BOUNCED);
  await b.send(940);
  expect(await windowOf()).toEqual([[1_000, 60]]);
  await b.send(49);
  expect(await windowOf()).toEqual([[1_049, 60]]);
  // The oldest fifty leave the window; all of them had bounced.
  await b.send(1);
  expect(await windowOf()).toEqual([[1_000, 10]]);
  await b.send(50);
  expect(await windowOf()).toEqual([[1_000, 0]]);
  const [kept] =
    await b.admin`select count(*)::int as n, sum(finals)::int as finals from despatch.final_stretches`;
  expect(kept).toEqual({ n: 20, finals: 1_000 });
});

test('two workers that decide the same brake apply it once, with one event and one audit entry', async () => {
  await using b = await setup();
  await b.send(200, BOUNCED);
  await b.send(800);
  const { windows } = await b.store.countUsage(10_000, 0);
  const both = await Promise.all([b.brakeChannels(windows), createBrakeChannels(b.store)(windows)]);
  expect(both.flat()).toHaveLength(1);
  expect(await b.told()).toEqual(['tenant.brake_applied held']);
  const entries =
    await b.admin`select actor, action, target, changes from despatch.audit_log where tenant_id = ${b.tenantId}`;
  expect(entries).toEqual([
    {
      actor: 'service',
      action: 'tenant.brake_applied',
      target: b.tenantId,
      changes: [{ field: 'brake.sms', from: null, to: 'held' }],
    },
  ]);
});

/** Lets days pass for all that has been counted. */
async function ageDays({ admin }: Awaited<ReturnType<typeof setup>>, days: number): Promise<void> {
  const by = `${days} days`;
  await admin`update despatch.final_hours set hour = hour - ${by}::interval`;
  await admin`update despatch.message_results set completed_at = completed_at - ${by}::interval`;
  await admin`update despatch.brakes set lifted_at = lifted_at - ${by}::interval`;
}

/** Sends so many messages, of which these were really sent and can be reported. */
async function mail(b: Awaited<ReturnType<typeof setup>>, n: number, reportable: number): Promise<number[]> {
  const seqs = await b.send(reportable);
  await b.admin`insert into despatch.usage_moves (at, purge_on, tells, seqs, account_ids)
    select clock_timestamp(), current_date, 'final', array_agg(-i), array_agg(${b.accounts.sms}::uuid)
    from generate_series(1, ${n - reportable}::int) i`;
  return seqs;
}

async function complain(b: Awaited<ReturnType<typeof setup>>, seqs: readonly number[]): Promise<void> {
  await b.admin`
    insert into despatch.receipts (tenant_id, message_seq, purge_on, account_id, engagement, report_key, apply_at)
    select tenant_id, seq, purge_on, ${b.accounts.sms}, 'complained', gen_random_uuid()::text, now()
    from despatch.messages where seq = any (${[...seqs]}::bigint[])`;
  while ((await b.store.applyReceipts(500, decideReceipts)).events.length > 0);
}

const hoursOf = async ({ admin }: Awaited<ReturnType<typeof setup>>) =>
  admin`select finals, rated, hard_bounces as bounces, complaints from despatch.final_hours order by hour`;

test('fifty late complaints about 50,000 messages do not brake a channel, and 1,500 do', async () => {
  await using b = await setup();
  const seqs = await mail(b, 50_000, 1_500);
  expect(await b.pass()).toEqual([]);
  await ageDays(b, 3);
  await b.send(1_100);
  expect(await b.pass()).toEqual([]);
  const some = seqs.splice(0, 50);
  await complain(b, some);
  // A report that is repeated counts once.
  await complain(b, some);
  expect(await b.pass()).toEqual([]);
  const [mailing] = await hoursOf(b);
  expect(mailing).toMatchObject({ rated: 50_000, complaints: 50 });
  await complain(b, seqs);
  expect(await b.pass()).toEqual(['sms held 0.03']);
});

test('late reports about messages before a lift do not brake the channel again, later ones do', async () => {
  await using b = await setup();
  const seqs = await mail(b, 2_000, 100);
  await b.pass();
  await ageDays(b, 2);
  await complain(b, seqs.splice(0, 20));
  expect(await b.pass()).toEqual(['sms held 0.01']);
  await b.lift();
  const later = await b.send(1_000);
  await b.pass();
  await complain(b, seqs);
  expect(await b.pass()).toEqual([]);
  // The hours of before are still the channel's throughput.
  const hours = await hoursOf(b);
  expect(hours[0]).toEqual({ finals: 2_000, rated: 0, bounces: 0, complaints: 0 });
  await complain(b, later.slice(0, 4));
  expect(await b.pass()).toEqual(['sms slowed 0.004']);
});

test('a channel that sends little is rated over as many days as have 1,000 messages', async () => {
  await using b = await setup();
  const first = await b.send(500);
  await b.pass();
  await ageDays(b, 20);
  await b.send(500);
  await b.pass();
  await ageDays(b, 9);
  await complain(b, first.slice(0, 4));
  expect(await b.pass()).toEqual(['sms slowed 0.004']);
  // Once newer hours have enough, older ones are dropped.
  await mail(b, 1_000, 0);
  await b.pass();
  const sums = async () => {
    const [sum] = await b.admin`
      select sum(finals)::int as finals, sum(complaints)::int as complaints from despatch.final_hours`;
    return sum;
  };
  expect(await sums()).toEqual({ finals: 1_000, complaints: 0 });
  await complain(b, first.slice(4, 20));
  expect(await b.pass()).toEqual([]);
  expect(await sums()).toEqual({ finals: 1_000, complaints: 0 });
});

test('reports that come together and apart count once each, while passes run', async () => {
  await using b = await setup({ complaintRateMax: 1, hardBounceRateMax: 1 });
  const seqs = await b.send(100);
  const over = new AbortController();
  const passes = [0, 1].map(async () => {
    while (!over.signal.aborted) await b.store.countUsage(7, 0);
  });
  await Promise.all([complain(b, seqs.slice(0, 50)), b.send(60, BOUNCED), b.send(40)]);
  await complain(b, seqs.slice(50));
  over.abort();
  await Promise.all(passes);
  while ((await b.store.countUsage(7, 0)).outcome === 'more');
  const [sum] = await b.admin`
    select sum(finals)::int as finals, sum(rated)::int as rated, sum(hard_bounces)::int as bounces,
      sum(complaints)::int as complaints from despatch.final_hours`;
  expect(sum).toEqual({ finals: 200, rated: 200, bounces: 60, complaints: 100 });
});

test('late complaints first slow the channel, then hold it', async () => {
  await using b = await setup();
  const seqs = await b.send(1_000);
  expect(await b.pass()).toEqual([]);
  const complain = async (n: number) => {
    for (const seq of seqs.splice(0, n)) await reportComplaint(b, seq);
    await b.store.applyReceipts(100, decideReceipts);
    return b.pass();
  };
  expect(await complain(3)).toEqual([]);
  expect(await complain(1)).toEqual(['sms slowed 0.004']);
  expect(await complain(1)).toEqual([]);
  expect(await complain(1)).toEqual(['sms held 0.006']);
  expect(await b.told()).toEqual(['tenant.brake_applied slowed', 'tenant.brake_applied held']);
});

test("complaints days after a mailing slow the channel to a tenth of that mailing's rate", async () => {
  await using b = await setup();
  const seqs = await b.send(1_000);
  await b.pass();
  await ageDays(b, 6);
  for (const seq of seqs.slice(0, 4)) await reportComplaint(b, seq);
  await b.store.applyReceipts(100, decideReceipts);
  expect(await b.pass()).toEqual(['sms slowed 0.004']);
  const [brake] = await b.admin<{ gap: number; busiest: number }[]>`
    select gap_ms as gap, (select max(finals) from despatch.final_hours) as busiest from despatch.brakes`;
  expect(brake?.gap).toBe(36_000_000 / (brake?.busiest ?? 0));
});

test("a brake holds its channel's messages as abuse_brake, but no others and no test messages", async () => {
  await using b = await setup();
  expect(await b.brakeHard()).toEqual(['sms held 0.2']);
  const [first = 0, second = 0, third = 0] = await b.accept(3);
  const [mail = 0] = await b.accept(1, { channel: 'email' });
  const [tried = 0] = await b.accept(1, { test: true });

  expect(await b.claimDue(10)).toEqual([]);
  expect(await b.store.claim([first, second, third], TERMS)).toEqual([]);
  // Holds the message of the wake-up first, then the others.
  await b.resolve([first]);
  expect(await b.hold()).toBe(2);
  expect(await b.hold()).toBe(0);
  expect(await b.release()).toBe(0);
  expect(await b.shown([first, second, third, mail, tried])).toEqual([
    'held abuse_brake',
    'held abuse_brake',
    'held abuse_brake',
    'queued',
    'queued',
  ]);
  expect(await b.claimDue(10, 'email')).toMatchObject([{ seq: mail }]);
  expect(await b.store.claim([tried], TERMS)).toMatchObject([{ seq: tried }]);

  // A held message can be canceled.
  await b.api.begin(async (tx) => {
    await tx`select set_config('app.tenant', ${b.tenantId}, true)`;
    await tx`select * from cancel_messages(${[third]}::bigint[])`;
  });
  expect(await b.shown([third])).toEqual(['canceled']);

  expect(await b.lift()).toEqual([{ channel: 'sms', level: 'held' }]);
  expect(await b.shown([first])).toEqual(['held']);
  expect(await b.release()).toBe(2);
  expect(await b.claimDue(10)).toHaveLength(2);
  expect(await b.told()).toEqual(['tenant.brake_applied held', 'tenant.brake_lifted held']);
});

test('a due message of a slowed channel shows the brake as its reason, and another wait its own', async () => {
  await using b = await setup();
  const [due = 0, later = 0] = await b.accept(2);
  const [mail = 0] = await b.accept(1, { channel: 'email' });
  const [tried = 0] = await b.accept(1, { test: true });
  const all = [due, later, mail, tried];
  await b.admin`update despatch.live_messages set status = 'deferred', reason = 'retry',
    next_attempt_at = now() + case when seq = ${later} then interval '1 hour' else '0' end where seq = any (${[due, later]})`;
  expect(await b.shown(all)).toEqual(['deferred retry', 'deferred retry', 'queued', 'queued']);
  await b.brake('sms', 'slowed');
  expect(await b.shown(all)).toEqual(['deferred abuse_brake', 'deferred retry', 'queued', 'queued']);
  await b.brake('email', 'slowed');
  expect(await b.shown([mail])).toEqual(['queued abuse_brake']);
  await b.lift();
  expect(await b.shown(all)).toEqual(['deferred retry', 'deferred retry', 'queued', 'queued']);
});

test('time that a message is held by a brake does not count toward its expiry', async () => {
  await using b = await setup();
  await b.brakeHard();
  const [seq = 0] = await b.accept();
  await b.hold();
  await b.admin`update despatch.live_messages set expires_at = now() + interval '1 hour', held_at = now() - interval '2 hours'`;
  await b.lift();
  await b.release();
  const [row] =
    await b.admin`select expires_at > now() + interval '2 hours' as extended from despatch.live_messages where seq = ${seq}`;
  expect(row).toEqual({ extended: true });
});

test('a scheduled message of a held channel is held once due and queued after the lift', async () => {
  await using b = await setup();
  await b.brakeHard();
  const [seq = 0] = await b.accept(1, {
    status: 'scheduled',
    send_at: new Date(Date.now() + 3_600_000).toISOString(),
  });
  expect(await b.hold()).toBe(0);
  await b.admin`update despatch.live_messages set due_at = now(), next_attempt_at = now() where seq = ${seq}`;
  await b.resolve([seq]);
  expect(await b.shown([seq])).toEqual(['held abuse_brake']);
  await b.lift();
  expect(await b.release()).toBe(1);
  await b.resolve([seq]);
  expect(await b.shown([seq])).toEqual(['queued']);
});

test('scheduled messages of a held channel are scheduled again when their tenant is resumed', async () => {
  await using b = await setup();
  await b.brake('sms', 'held');
  const sendAt = new Date(Date.now() + 3_600_000).toISOString();
  const [early = 0, late = 0] = await b.accept(2, { status: 'scheduled', send_at: sendAt });
  const [text = 0] = await b.accept();
  await moveSuspension(b.admin, b.tenantId, 'billing');
  expect(await b.hold()).toBe(3);
  await b.admin`update despatch.live_messages set next_attempt_at = now() where seq = ${early}`;
  const releases = async () => (await b.store.dueLanes()).filter(({ task }) => task === 'release');
  expect(await b.release()).toBe(0);
  expect(await releases()).toEqual([]);
  await moveSuspension(b.admin, b.tenantId, null);
  expect(await releases()).toHaveLength(1);
  expect(await b.release()).toBe(1);
  // The instant of one message has come meanwhile: the brake holds it.
  const waiting = await b.shown([early, late, text]);
  expect(waiting.map((status) => status.split(' ')[0])).toEqual(['held', 'scheduled', 'held']);
  expect(await releases()).toEqual([]);
  expect(await b.hold()).toBe(0);
});

test('messages under both a brake and a suspension are released only when both have ended', async () => {
  await using b = await setup();
  await b.brakeHard();
  const [text = 0] = await b.accept();
  const [mail = 0] = await b.accept(1, { channel: 'email' });
  await moveSuspension(b.admin, b.tenantId, 'billing');
  expect(await b.hold()).toBe(2);
  expect(await b.shown([text, mail])).toEqual(['held abuse_brake', 'held']);
  await moveSuspension(b.admin, b.tenantId, null);
  expect((await b.store.dueLanes()).filter(({ task }) => task === 'release')).toHaveLength(1);
  expect(await b.release()).toBe(1);
  expect(await b.shown([text, mail])).toEqual(['held abuse_brake', 'queued']);
  expect((await b.store.dueLanes()).filter(({ task }) => task === 'release')).toEqual([]);

  await moveSuspension(b.admin, b.tenantId, 'billing');
  await b.lift();
  expect(await b.release()).toBe(0);
  await moveSuspension(b.admin, b.tenantId, null);
  expect(await b.release()).toBeGreaterThanOrEqual(1);
  expect(await b.shown([text])).toEqual(['queued']);
});

test('lifting a brake resets the window, including finals that no pass has counted yet', async () => {
  await using b = await setup();
  await b.brakeHard();
  await b.lift();
  await b.send(100, BOUNCED);
  await b.admin`update despatch.brakes set level = 'held'`;
  expect(await b.lift('email')).toEqual([]);
  expect(await b.lift('sms')).toEqual([{ channel: 'sms', level: 'held' }]);
  await b.send(998);
  expect(await b.pass()).toEqual([]);
  await b.send(1, BOUNCED);
  await b.send(1);
  expect(await b.pass()).toEqual([]);
  const [row] =
    await b.admin`select sum(finals)::int as finals, sum(hard_bounces)::int as bounces from despatch.final_stretches`;
  expect(row).toEqual({ finals: 1_000, bounces: 1 });
});

test('a brake that failed to apply is applied after the next pass, even without a change', async () => {
  await using b = await setup();
  await b.send(200, BOUNCED);
  await b.send(800);
  let isAway = true;
  const brakeChannels = createBrakeChannels({
    applyBrakes: (decided) => (isAway ? Promise.reject(new Error('away')) : b.store.applyBrakes(decided)),
  });
  await expect(brakeChannels((await b.store.countUsage(10_000, 0)).windows)).rejects.toThrow('away');
  isAway = false;
  const { windows } = await b.store.countUsage(10_000, 0);
  expect(windows).toEqual([]);
  expect(await brakeChannels(windows)).toHaveLength(1);
  expect(await brakeChannels(windows)).toEqual([]);
  expect(await b.told()).toEqual(['tenant.brake_applied held']);
});

test('a rate that was measured before a brake was lifted does not apply it again', async () => {
  await using b = await setup();
  await b.send(200, BOUNCED);
  await b.send(800);
  const { windows } = await b.store.countUsage(10_000, 0);
  await b.brakeChannels(windows);
  await b.lift();
  expect(await b.brakeChannels(windows)).toEqual([]);
  expect(await b.shown(await b.accept())).toEqual(['queued']);
});

test("a slowed channel is claimed only from its lane, at a tenth of its busiest hour's rate", async () => {
  await using b = await setup();
  await b.send(150, BOUNCED);
  await b.send(850);
  expect(await b.pass()).toEqual(['sms slowed 0.15']);
  const [brake] = await b.admin<{ gap: number; busiest: number }[]>`
    select gap_ms as gap, (select max(finals) from despatch.final_hours) as busiest from despatch.brakes`;
  expect(brake?.gap).toBe(36_000_000 / (brake?.busiest ?? 0));
  await b.admin`update despatch.brakes set gap_ms = 36000`;

  const seqs = await b.accept(60);
  expect(await b.store.claim(seqs, TERMS)).toEqual([]);
  expect(await b.store.findWaiting(seqs.slice(0, 1))).toMatchObject([
    { brake: 'slowed', rateLimitPerSecond: 1 },
  ]);
  // One claim at once, then one per gap, however often workers ask. Unused turns accumulate for ten seconds at most.
  expect(await b.claimDue(50)).toMatchObject([{ rateLimitPerSecond: 1 }]);
  expect(await b.claimDue(50)).toEqual([]);
  await b.admin`update despatch.brakes set next_at = next_at - interval '36 seconds'`;
  expect(await b.claimDue(50)).toHaveLength(1);
  await b.admin`update despatch.brakes set next_at = now() - interval '1 hour'`;
  expect(await b.claimDue(50)).toHaveLength(1);
  expect(await b.claimDue(50)).toEqual([]);
  // The clock was set back: the turn is no further ahead than one gap.
  await b.admin`update despatch.brakes set next_at = now() + interval '2 hours'`;
  expect(await b.claimDue(50)).toHaveLength(1);
  expect(await b.claimDue(50)).toEqual([]);
  const [turn] =
    await b.admin`select next_at <= clock_timestamp() + interval '36 seconds' as is_near from despatch.brakes`;
  expect(turn).toEqual({ is_near: true });

  await b.admin`update despatch.brakes set gap_ms = 400, next_at = now() - interval '1 hour'`;
  const burst = await b.claimDue(50);
  expect(burst.length).toBeGreaterThanOrEqual(25);
  expect(burst.length).toBeLessThanOrEqual(27);

  await b.lift();
  expect(await b.claimDue(50)).toHaveLength(60 - 4 - burst.length);
});

test('concurrent workers together claim from a slowed channel no faster than its gap allows', async () => {
  await using b = await setup();
  await b.send(150, BOUNCED);
  await b.send(850);
  await b.pass();
  await b.accept(AT_ONCE);
  await b.admin`update despatch.brakes set gap_ms = 50, next_at = clock_timestamp()`;
  const begun = performance.now();
  let taken = 0;
  while (performance.now() - begun < 1_500) {
    const both = await Promise.all([b.claimDue(20), b.claimDue(20)]);
    taken += both.flat().length;
  }
  const seconds = (performance.now() - begun) / 1_000;
  expect(taken).toBeLessThanOrEqual(1 + Math.ceil(seconds * 20));
  expect(taken).toBeGreaterThanOrEqual(Math.floor(seconds * 20) - 5);
});
