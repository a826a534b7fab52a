import { describe, expect, test } from 'vitest';
import { encodeWakes } from '#core/domain/queue/wake.ts';
import { setupWorkers as setup } from '#test/support/setup-workers.ts';
import { seedAccount, seedTenant } from '#test/support/seed.ts';

const POLL = { interval: 20 };

describe('delivery', () => {
  test('a message with a wake-up is sent to its provider once, and the wake-up is acknowledged', async () => {
    await using b = await setup();
    b.startWorker();
    await b.send(100);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 100 });
    expect(b.twilio.received).toHaveLength(100);
    await expect.poll(() => b.broker.consumerLag(), POLL).toEqual({ pending: 0 });
  });

  test('a message with a lost wake-up is sent by the sweep', async () => {
    await using b = await setup();
    b.startWorker();
    await b.send(5, {}, { wake: false });
    await expect.poll(b.statuses, POLL).toEqual({ sent: 5 });
  });

  test('a deleted stream is created again, and messages with lost wake-ups are sent', async () => {
    await using b = await setup();
    await b.send(20);
    await b.deleteStream();
    b.startWorker();
    await expect.poll(b.statuses, POLL).toEqual({ sent: 20 });
    await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 21 });
  });

  test('several workers call the provider once for each message', async () => {
    await using b = await setup();
    for (let i = 0; i < 3; i++) b.startWorker();
    await b.send(120);
    await b.send(60, {}, { wake: false });
    await expect.poll(b.statuses, POLL).toEqual({ sent: 180 });
    expect(b.twilio.received).toHaveLength(180);
  });

  test('a wake-up delivered twice causes one call', async () => {
    await using b = await setup();
    const worker = b.startWorker();
    const wakes = await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
    worker.wake(encodeWakes(wakes), 'normal');
    await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 2 });
    expect(b.twilio.received).toHaveLength(2);
  });

  test('a backlog beyond the in-memory limit of a tenant is sent from the database', async () => {
    await using b = await setup({ queuedPerTenantMax: 10 });
    b.startWorker();
    await b.send(300);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 300 });
    expect(b.twilio.received).toHaveLength(300);
  });

  test('an invalid payload on the stream is acknowledged and delays no message', async () => {
    await using b = await setup();
    b.startWorker();
    await b.broker.publishWakes([{ kind: 'high', id: 'x', payload: '{"drop":"table"}' }]);
    await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
    await expect.poll(() => b.broker.consumerLag(), POLL).toEqual({ pending: 0 });
  });
});

test('a text above the length limit of the vendor fails without a call, with the reason', async () => {
  await using b = await setup();
  b.startWorker();
  const [refused] = await b.send(1, { content: { body: 'x'.repeat(1_601) } });
  await b.send(1, { content: { body: 'x'.repeat(1_600) } });
  await expect.poll(b.statuses, POLL).toEqual({ failed: 1, sent: 1 });
  const [row] = await b.admin`select failure from despatch.message_states where seq = ${refused?.seq ?? 0}`;
  expect(row?.['failure']).toMatchObject({
    class: 'content_rejected',
    code: 'body_too_long',
    retryable: false,
    providerMessage: 'Twilio Programmable Messaging takes at most 1600 characters',
  });
  expect(b.twilio.received).toHaveLength(1);
});

test('tenants with hanging provider calls leave slots in flight to other tenants', async () => {
  await using b = await setup({ inFlightMax: 16, deadlineMs: 100_000, leaseMs: 300_000 });
  const floods = await Promise.all(
    ['1', '2', '3'].map(async (digit) => {
      const of = await seedTenant(b.admin, { inFlightMax: 1_000, queueWeight: 20 });
      const accountSid = `AC${digit.repeat(32)}`;
      await seedAccount(b.admin, of.tenantId, {
        provider: 'twilio',
        config: { accountSid, from: '+15005550006' },
      });
      return { of, path: new RegExp(accountSid) };
    }),
  );
  b.startWorker();
  for (const { of, path } of floods) {
    const before = b.twilio.received.length;
    for (let i = 0; i < 40; i++) b.twilio.fail({ kind: 'hang' }, path);
    await b.send(40, {}, { of });
    await expect.poll(() => b.twilio.received.length, POLL).toBeGreaterThan(before);
  }
  await b.send(20);
  await expect.poll(b.statuses, POLL).toMatchObject({ sent: 20 });
  // No call of the other tenants has ended and released its slot.
  const [row] = await b.admin`select count(*)::integer as ended from despatch.attempts
    where tenant_id <> ${b.tenant.tenantId} and ended_at is not null`;
  expect(row?.['ended']).toBe(0);
  // Ends the hanging calls.
  await b.twilio[Symbol.asyncDispose]();
});

describe('when a provider misbehaves', () => {
  test.each([{ wake: true }, { wake: false }])(
    'a message that the database refuses to claim fails, and others are sent: %o',
    async (how) => {
      await using b = await setup();
      const [, , poison] = await b.send(5, {}, how);
      const seq = poison?.seq ?? 0;
      await b.admin.unsafe(
        `alter table despatch.live_messages add constraint refused check (seq <> ${seq} or status <> 'sending')`,
      );
      b.startWorker();
      await expect.poll(b.statuses, POLL).toEqual({ sent: 4, failed: 1 });
      const [row] = await b.admin`select failure ->> 'code' as code,
        (select count(*)::int from despatch.live_messages) as live from despatch.message_results where seq = ${seq}`;
      expect(row).toEqual({ code: 'unprocessable', live: 0 });
    },
  );

  test('a fault that refuses every claim ends no message, and all are sent when it is repaired', async () => {
    await using b = await setup({ sweepMs: 200 });
    await b.admin.unsafe(`
      create function despatch.broken() returns trigger language plpgsql as 'begin raise exception ''broken''; end';
      create trigger broken before update on despatch.live_messages
        for each row when (new.status = 'sending') execute function despatch.broken()`);
    b.startWorker();
    await b.send(20);
    await b.send(20, {}, { wake: false });
    // By then the worker has tried to claim them several times.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(await b.statuses()).toEqual({ queued: 40 });
    await b.admin`drop trigger broken on despatch.live_messages`;
    await expect.poll(b.statuses, POLL).toEqual({ sent: 40 });
  });

  test('the messages beside a refused one are sent within the rate limit of their account', async () => {
    await using b = await setup();
    await b.admin`update despatch.provider_accounts set rate_limit_per_second = 1`;
    const [, , poison] = await b.send(20, {}, { wake: false });
    const seq = poison?.seq ?? 0;
    await b.admin.unsafe(
      `alter table despatch.live_messages add constraint refused check (seq <> ${seq} or status <> 'sending')`,
    );
    const started = Date.now();
    // Tokens are counted by the second of the clock.
    const seconds = () => Math.floor(Date.now() / 1_000) - Math.floor(started / 1_000) + 1;
    b.startWorker();
    await expect.poll(b.statuses, POLL).toMatchObject({ failed: 1 });
    const atOnce = b.twilio.received.length;
    expect(atOnce).toBeLessThanOrEqual(seconds());
    await expect.poll(() => b.twilio.received.length, POLL).toBeGreaterThan(atOnce + 1);
    expect(b.twilio.received.length).toBeLessThanOrEqual(seconds());
  });

  test("a permanent rejection fails the message with the provider's error code", async () => {
    await using b = await setup();
    b.twilio.fail({ kind: 'reply', status: 400, body: { code: 21211, message: 'Invalid To', status: 400 } });
    b.startWorker();
    await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ failed: 1 });
    const [row] = await b.admin`select failure from despatch.message_states`;
    expect(row?.['failure']).toMatchObject({
      class: 'invalid_recipient',
      providerCode: '21211',
      retryable: false,
    });
  });

  test('a server error is retried at once', async () => {
    await using b = await setup();
    b.twilio.fail({ kind: 'reply', status: 503, body: 'down' });
    b.startWorker();
    await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
    expect(b.twilio.received).toHaveLength(2);
  });

  test('an unanswered call is repeated, and the message shows a duplicate risk', async () => {
    await using b = await setup({ deadlineMs: 1_000 });
    b.twilio.fail({ kind: 'hang' });
    b.startWorker();
    await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
    const [row] = await b.admin`select duplicate_risk, attempt from despatch.message_states`;
    expect(row).toEqual({ duplicate_risk: true, attempt: 2 });
    const attempts = await b.admin`select outcome from despatch.attempts order by number`;
    expect(attempts.map((a) => a['outcome'])).toEqual(['ambiguous', 'accepted']);
  });

  test('an unanswered call is not repeated with at_most_once', async () => {
    await using b = await setup();
    b.twilio.fail({ kind: 'reset' });
    b.startWorker();
    await b.send(1, { delivery_guarantee: 'at_most_once' });
    await expect.poll(b.statuses, POLL).toEqual({ unknown: 1 });
    expect(b.twilio.received).toHaveLength(1);
  });

  test('an outage opens the circuit breaker after few calls, and other tenants are served', async () => {
    await using b = await setup();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId, { provider: 'simulator-sms' });
    for (let i = 0; i < 1_000; i++) b.twilio.fail({ kind: 'reply', status: 503, body: 'down' }, /Messages/);
    b.startWorker();
    await b.send(200);
    const health = async () =>
      (await b.admin`select health from despatch.provider_accounts where id = ${b.accountId}`)[0]?.['health'];
    await expect.poll(health, POLL).toBe('open');
    const spent = b.twilio.received.length;
    expect(spent).toBeLessThan(200);
    await b.send(20, {}, { of: other });
    await expect
      .poll(
        async () =>
          (
            await b.admin`select count(*) as n from despatch.message_states where tenant_id = ${other.tenantId} and status = 'delivered'`
          )[0]?.['n'],
        POLL,
      )
      .toBe(20);
    const [budget] =
      await b.admin`select max(retries) as retries from despatch.live_messages where tenant_id = ${b.tenant.tenantId}`;
    expect(budget?.['retries']).toBeLessThanOrEqual(2);
  });

  test('failures that recipients request from a simulator do not open its circuit breaker', async () => {
    await using b = await setup();
    const other = await seedTenant(b.admin);
    const accountId = await seedAccount(b.admin, other.tenantId, { provider: 'simulator-sms' });
    b.startWorker();
    const to = '+15550000003';
    await b.send(60, { recipient: to, address: to }, { of: other });
    await expect.poll(b.statuses, POLL).toEqual({ delivered: 60 });
    const [account] = await b.admin`select health from despatch.provider_accounts where id = ${accountId}`;
    expect(account?.['health']).toBe('healthy');
  });

  test('three refused credentials make the account invalid until it gets a new secret', async () => {
    await using b = await setup();
    for (let i = 0; i < 3; i++)
      b.twilio.fail({
        kind: 'reply',
        status: 401,
        body: { code: 20003, message: 'Authenticate', status: 401 },
      });
    b.startWorker();
    await b.send(3);
    const status = async () =>
      (await b.admin`select status from despatch.provider_accounts where id = ${b.accountId}`)[0]?.['status'];
    await expect.poll(status, POLL).toBe('invalid');
    expect(await b.statuses()).not.toHaveProperty('failed');
    await b.admin`update despatch.provider_accounts set secret_version = 2, version = version + 1, verify_requested_at = now() where id = ${b.accountId}`;
    await expect.poll(status, POLL).toBe('active');
    await expect.poll(b.statuses, POLL).toEqual({ sent: 3 });
  });

  test('messages of a provider unknown to this build wait, and its account keeps its status', async () => {
    await using b = await setup();
    const [before] = await b.admin<
      { provider: string; status: string }[]
    >`select provider, status from despatch.provider_accounts`;
    const become = (provider: string) =>
      b.admin`update despatch.provider_accounts set provider = ${provider}, version = version + 1`;
    await become('sms-of-tomorrow');
    b.startWorker();
    await b.send(1);
    const waits = () =>
      b.admin`select from despatch.attempts where outcome = 'not_started' and reason = 'credentials_unavailable'`;
    await expect.poll(async () => (await waits()).length, POLL).toBeGreaterThanOrEqual(1);
    const [account] = await b.admin`select status from despatch.provider_accounts`;
    expect(account).toEqual({ status: before?.status });
    await become(before?.provider ?? '');
    await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  });

  test('without credentials messages wait and use no retry', async () => {
    await using b = await setup();
    b.credentials.down = true;
    b.startWorker();
    await b.send(3);
    await expect
      .poll(
        async () =>
          (
            await b.admin`select count(*) as n from despatch.attempts where outcome = 'not_started' and reason = 'credentials_unavailable'`
          )[0]?.['n'],
        POLL,
      )
      .toBeGreaterThanOrEqual(3);
    b.credentials.down = false;
    await expect.poll(b.statuses, POLL).toEqual({ sent: 3 });
    const [row] =
      await b.admin`select count(*) as n from despatch.attempts where outcome not in ('not_started', 'accepted')`;
    expect(row?.['n']).toBe(0);
  });
});

describe('simulators', () => {
  const ENDS: [string, Record<string, number>][] = [
    ['+15550000001', { delivered: 1 }],
    ['+15550000002', { failed: 1 }],
    ['+15550000003', { delivered: 1 }],
    ['+15550000004', { unknown: 1 }],
    ['+15550000005', { delivered: 1 }],
    ['+15550000006', { delivered: 1 }],
    ['+15550000007', { sent: 1 }],
    ['+15551234567', { delivered: 1 }],
  ];
  test.each(ENDS)('a test message to %s ends as %o', async (address, end) => {
    await using b = await setup();
    b.startWorker();
    await b.send(1, { test: true, address, recipient: address });
    await expect.poll(b.statuses, POLL).toEqual(end);
    expect(b.twilio.received).toEqual([]);
  });
});

describe('stopping and recovery', () => {
  test('a stopping worker completes its calls in flight and starts no others', async () => {
    await using b = await setup();
    const worker = b.startWorker();
    await b.send(200);
    await expect.poll(() => b.twilio.received.length, POLL).toBeGreaterThan(0);
    await worker.stop();
    const calls = b.twilio.received.length;
    const [open] =
      await b.admin`select count(*) filter (where outcome = 'started') as open, count(*) filter (where outcome = 'accepted') as done from despatch.attempts`;
    expect(open).toEqual({ open: 0, done: calls });
    b.startWorker();
    await expect.poll(b.statuses, POLL).toEqual({ sent: 200 });
    expect(b.twilio.received).toHaveLength(200);
  });

  test('claims with a lost answer are sent once, without waiting for the end of their lease', async () => {
    await using b = await setup();
    let lost = 0;
    const loseFirst = <T>(claim: Promise<T>): Promise<T> =>
      lost++ < 3 ? claim.then(() => Promise.reject(new Error('the answer was lost'))) : claim;
    b.startWorker(
      {},
      {
        ...b.store,
        claim: (...terms) => loseFirst(b.store.claim(...terms)),
        claimDue: (...terms) => loseFirst(b.store.claimDue(...terms)),
      },
    );
    await b.send(30);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 30 });
    expect(b.twilio.received).toHaveLength(30);
    const [states] =
      await b.admin`select bool_or(duplicate_risk) as risk, max(attempt) as attempts from despatch.message_states`;
    expect(states).toEqual({ risk: false, attempts: 1 });
  });

  test('a message sent while its worker searches for an unanswered claim is not sent again', async () => {
    await using b = await setup();
    const searched = Promise.withResolvers<void>();
    let claims = 0;
    let searches = 0;
    b.startWorker(
      {},
      {
        ...b.store,
        async claim(...terms) {
          const claimed = await b.store.claim(...terms);
          if (++claims === 2) throw new Error('the answer was lost');
          return claimed;
        },
        // The first message is still being recorded when the worker queries the database, and is done when the answer arrives.
        async complete(...terms) {
          await searched.promise;
          return b.store.complete(...terms);
        },
        async claimedBy(...terms) {
          const found = await b.store.claimedBy(...terms);
          // The search continues until it finds nothing more; by then the second message may be sent.
          if (++searches > 1) return found;
          searched.resolve();
          await expect.poll(b.statuses, POLL).toEqual({ sent: 1, sending: 1 });
          return found;
        },
      },
    );
    await b.send(1);
    await expect.poll(() => b.twilio.received.length, POLL).toBe(1);
    await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 2 });
    expect(b.twilio.received).toHaveLength(2);
  });

  test('a search for an unanswered claim takes no claims of another worker of the same name', async () => {
    await using b = await setup({ name: 'pod', sweepMs: 60_000, deadlineMs: 3_000 });
    b.twilio.fail({ kind: 'hang' });
    b.startWorker();
    await b.send(1, { delivery_guarantee: 'at_most_once' });
    await expect.poll(() => b.twilio.received.length, POLL).toBe(1);
    // As after the restart of a container: the new process has the same host name, and the answer to its first claim is lost.
    let claims = 0;
    const successor = b.startWorker(
      { deadlineMs: 10_000 },
      {
        ...b.store,
        async claim(...args) {
          const claimed = await b.store.claim(...args);
          if (++claims === 1) throw new Error('the answer was lost');
          return claimed;
        },
      },
    );
    successor.wake(encodeWakes(await b.send(1, {}, { wake: false })), 'normal');
    await expect.poll(b.statuses, POLL).toEqual({ sent: 1, unknown: 1 });
    expect(b.twilio.received).toHaveLength(2);
    const [names] = await b.admin`select count(distinct w.name) as n, bool_and(w.name like 'pod%') as told
        from despatch.attempts a left join despatch.workers w on w.id = a.worker`;
    expect(names).toEqual({ n: 2, told: true });
  });

  test('messages of a lost worker are taken over after its lease expires', async () => {
    await using b = await setup();
    const wakes = await b.send(2, {}, { wake: false });
    // A worker that claims and then disappears.
    await b.store.claim(
      wakes.map(({ seq }) => seq),
      { worker: 'gone', leaseMs: 300 },
    );
    b.startWorker();
    await expect.poll(b.statuses, POLL).toEqual({ sent: 2 });
    const [states] =
      await b.admin`select bool_and(duplicate_risk) as risk, max(attempt) as attempts from despatch.message_states`;
    expect(states).toEqual({ risk: true, attempts: 2 });
  });
});

test('an attempt of a lost worker ends as ambiguous although its tenant is suspended', async () => {
  await using b = await setup();
  const wakes = await b.send(1, {}, { wake: false });
  await b.store.claim(
    wakes.map(({ seq }) => seq),
    { worker: 'gone', leaseMs: 300 },
  );
  await b.admin`update despatch.tenants set status = 'suspended', suspension_reason = 'billing'`;
  b.startWorker();
  await expect.poll(b.statuses, POLL).toEqual({ held: 1 });
  const [attempt] = await b.admin`select outcome from despatch.attempts`;
  expect(attempt).toEqual({ outcome: 'ambiguous' });
});

test('a successful call makes an account healthy whose breaker was opened by an ended worker', async () => {
  await using b = await setup();
  await b.admin`update despatch.provider_accounts set health = 'open', updated_at = now() - interval '6 minutes'`;
  b.startWorker();
  await b.send(1);
  await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  const health = async () => (await b.admin`select health from despatch.provider_accounts`)[0]?.['health'];
  await expect.poll(health, POLL).toBe('healthy');
});

test('a worker holds a channel with too many hard bounces until its brake is lifted', async () => {
  await using b = await setup();
  const { tenantId } = b.tenant;
  // The window lacks only its last message, whose report is stored but not counted yet.
  await b.admin`insert into despatch.final_stretches (tenant_id, channel, stretch, finals, hard_bounces, complaints)
    select ${tenantId}, 'sms', n, case n when 19 then 49 else 50 end, case n when 0 then 199 else 0 end, 0
    from generate_series(0, 19) n`;
  await b.admin`insert into despatch.usage_moves (at, purge_on, tells, seqs, account_ids)
    select clock_timestamp(), current_date, tells, '{1}', array[${b.accountId}::uuid]
    from unnest('{final,hard_bounce}'::text[]) tells`;
  await b.admin`update despatch.usage_passes set at = now() - interval '1 minute'`;
  const worker = b.startWorker();
  const brakes = () => b.admin`select channel, level, rate::float8 from despatch.brakes`;
  await expect.poll(brakes, POLL).toEqual([{ channel: 'sms', level: 'held', rate: 0.2 }]);

  await b.send(3);
  await b.send(2, {}, { wake: false });
  await expect.poll(b.statuses, POLL).toEqual({ held: 5 });
  expect(b.twilio.received).toEqual([]);

  await b.api.begin(async (tx) => {
    await tx`select set_config('app.tenant', ${tenantId}, true)`;
    await tx`select * from lift_brake(${tenantId}, 'sms')`;
  });
  worker.notice('tenant', { tenantId });
  await expect.poll(b.statuses, POLL).toEqual({ sent: 5 });
  expect(b.twilio.received).toHaveLength(5);
});

test('partitions for a longer retention are made as soon as a tenant has it', async () => {
  await using b = await setup();
  const worker = b.startWorker();
  const due = () => b.admin`select task from despatch.partitions_due()`;
  await expect.poll(due, POLL).toEqual([]);
  await b.admin`update despatch.tenant_limits set limits = jsonb_set(limits, '{retentionDays}', '180')`;
  expect(await due()).toEqual([{ task: 'make' }]);
  worker.notice('tenant', { tenantId: b.tenant.tenantId });
  await expect.poll(due, { ...POLL, timeout: 20_000 }).toEqual([]);
});

test('a worker sends all messages of a slowed channel, no faster than its gap allows', async () => {
  await using b = await setup();
  await b.admin`insert into despatch.brakes (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at)
    values (${b.tenant.tenantId}, 'sms', 'slowed', 'complaint_rate', 0.005, 0.003, now(), 100, now())`;
  b.startWorker();
  const begun = performance.now();
  await b.send(20);
  await expect.poll(b.statuses, { ...POLL, timeout: 20_000 }).toEqual({ sent: 20 });
  // Twenty turns of 100 ms, the first at once. Unused turns accumulate for at most ten seconds.
  expect(performance.now() - begun).toBeGreaterThan(1_500);
});
