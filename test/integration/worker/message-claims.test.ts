import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { assignmentOf } from '#test/support/assignment.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { moveSuspension, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupMessages, states, terms } from '#test/support/setup-messages.ts';

describe('claims', () => {
  test('messages of a lane are claimed by priority, even if others have waited longer', async () => {
    await using b = await setupMessages();
    await b.accept(500, { priority: 2 });
    const normal = await b.accept(2, { priority: 1 });
    const high = await b.accept(1, { priority: 0 });
    const claimed = await b.claimDue(4, 10_000);
    const seqs = claimed.map(({ seq }) => seq);
    expect(seqs).toEqual(expect.arrayContaining([...high, ...normal]));
    expect(seqs).toHaveLength(4);
    expect(await b.claimDue(1, 10_000)).toHaveLength(1);
  });

  test('concurrent workers claim each message once, with one attempt row', async () => {
    await using b = await setupMessages();
    const wakes = await b.accept(20);
    const claims = await Promise.all(
      Array.from({ length: 6 }, (_, i) => b.store.claim(wakes, terms({ worker: `w${i}` }))),
    );
    expect(claims.flat()).toHaveLength(20);
    expect(new Set(claims.flat().map((m) => m.id)).size).toBe(20);
    const [attempts] = await b.admin`select count(*) as n from despatch.attempts where outcome = 'started'`;
    expect(attempts?.['n']).toBe(20);
  });

  test.each([
    {
      while: 'another worker claims it',
      set: "status = 'sending', lease_until = now() + interval '1 minute'",
    },
    { while: 'another account is assigned', set: 'account_id = gen_random_uuid()' },
    { while: 'it is deferred', set: "status = 'deferred', next_attempt_at = now() + interval '1 minute'" },
    { while: 'it expires', set: 'expires_at = now()' },
    { while: 'it is held', set: "status = 'held'" },
  ])('a claim skips a message that changes while the claim waits for its lock: $while', async ({ set }) => {
    await using b = await setupMessages();
    const [changed = 0, other = 0] = await b.accept(2);
    const changing = Promise.withResolvers<void>();
    const commit = Promise.withResolvers<void>();
    const change = b.admin.begin(async (tx) => {
      await tx`update despatch.live_messages set ${tx.unsafe(set)} where seq = ${changed}`;
      changing.resolve();
      await commit.promise;
    });
    await changing.promise;
    const claim = b.store.claim([changed, other], terms());
    await expect.poll(() => lockWaits(b.admin, 'claim(')).toHaveLength(1);
    commit.resolve();
    await change;
    expect((await claim).map(({ seq }) => seq)).toEqual([other]);
  });

  test('all claims of a worker process have one worker id, even concurrent first ones', async () => {
    await using b = await setupMessages();
    const seqs = await b.accept(20);
    await Promise.all(seqs.map((seq, i) => b.store.claim([seq], terms({ worker: `w${i % 2}` }))));
    const workers = await b.admin`select w.name, count(*) as n from despatch.attempts a
      join despatch.workers w on w.id = a.worker group by 1 order by 1`;
    expect(workers).toEqual([
      { name: 'w0', n: 10 },
      { name: 'w1', n: 10 },
    ]);
  });

  test('a claim carries what the provider call needs', async () => {
    await using b = await setupMessages();
    const [message] = await b.store.claim(await b.accept(), terms());
    expect(message).toMatchObject({
      action: 'send',
      attempt: 1,
      channel: 'sms',
      address: '+15550000001',
      content: { body: 'Hello' },
      accountId: b.accountId,
      provider: 'simulator-sms',
      accountVersion: 1,
      isHealthStale: false,
      isAccountMoved: false,
      isAccountRefused: false,
    });
  });

  test('expired, early, suspended or accountless messages are not claimed', async () => {
    await using b = await setupMessages();
    const [expired = 0] = await b.accept(1, { expires_at: new Date(Date.now() - 1_000).toISOString() });
    const [gone = 0] = await b.accept(1, { account_id: randomUUID() });
    const [later = 0] = await b.accept();
    await b.admin`update despatch.live_messages set next_attempt_at = now() + interval '1 hour' where seq = ${later}`;
    const seqs = [expired, gone, later];
    expect(await b.store.claim(seqs, terms())).toEqual([]);
    expect(await b.claimDue(10, 10_000)).toEqual([]);
    const looked = (await b.store.findWaiting(seqs)).toSorted((one, other) => one.seq - other.seq);
    const usual = {
      tenantStatus: 'active',
      status: 'queued',
      isExpired: false,
      isDue: true,
      isLeaseOver: false,
    };
    expect(looked).toMatchObject([
      { ...usual, seq: expired, isExpired: true, accountStatus: 'unverified' },
      { ...usual, seq: gone, accountStatus: null },
      { ...usual, seq: later, isDue: false },
    ]);
    await moveSuspension(b.admin, b.tenant.tenantId, 'abuse');
    expect(await b.store.claim(await b.accept(), terms())).toEqual([]);
    expect(await states(b)).toEqual(['queued', 'queued', 'queued']);
  });

  test('a waiting message changes its state once; a message that is being sent does not change', async () => {
    await using b = await setupMessages();
    const [first = 0, second = 0, third = 0, begun = 0] = await b.accept(4);
    await b.store.claim([begun], terms());
    const failure = { class: 'expired', code: 'expired', retryable: false };
    expect(await b.store.moveMessages([first, begun], 'expired', failure)).toEqual(new Set([first]));
    expect(await b.store.moveMessages([first], 'expired', failure)).toEqual(new Set());
    expect(await b.store.moveMessages([first, second, begun], 'held', null)).toEqual(new Set([second]));
    const other = await seedAccount(b.admin, b.tenant.tenantId);
    const all = [first, second, third, begun];
    expect(await b.store.assignAccounts(all.map((seq) => assignmentOf(seq, b.accountId, other)))).toEqual(
      new Set([third]),
    );
    expect(await b.store.claim(all, terms())).toMatchObject([{ seq: third, accountId: other }]);
    expect(await states(b)).toEqual(['expired', 'held', 'sending', 'sending']);
    const [ended] = await b.admin`select failure ->> 'class' as class, final from despatch.message_results`;
    expect(ended).toEqual({ class: 'expired', final: true });
    expect((await b.gauges.messageTotals()).backlog).toBe(3);
  });

  test('accountsOf lists the accounts of a tenant by age, without disabled ones', async () => {
    await using b = await setupMessages();
    const { tenantId } = b.tenant;
    const [second, disabled] = [await seedAccount(b.admin, tenantId), await seedAccount(b.admin, tenantId)];
    await b.admin`update despatch.provider_accounts set status = 'disabled' where id = ${disabled}`;
    await seedAccount(b.admin, (await seedTenant(b.admin)).tenantId);
    expect(await b.store.accountsOf([tenantId])).toEqual(
      [b.accountId, second].map((id) => ({
        tenantId,
        id,
        channel: 'sms',
        provider: 'simulator-sms',
        status: 'unverified',
      })),
    );
  });

  test('a test message is claimed without a provider account', async () => {
    await using b = await setupMessages();
    const other = await seedTenant(b.admin);
    const [message] = await b.store.claim(await b.accept(1, { test: true }, other), terms());
    expect(message).toMatchObject({ accountId: null, provider: 'simulator-sms' });
  });

  test('the rate limit of an account is shared by all workers and counts segments', async () => {
    await using b = await setupMessages();
    await b.admin`update despatch.provider_accounts set rate_limit_per_second = 10`;
    const seqs = await b.accept(12, { segments: 2 });
    // A claim by name takes no message of an account with a rate limit.
    expect(await b.store.claim(seqs, terms())).toEqual([]);
    // Just before the end of a second of the clock: its next one permits nothing new.
    await b.admin`select pg_sleep(greatest(0, 0.9 - extract(epoch from clock_timestamp()) % 1)::float8)`;
    const started = performance.now();
    const first = await Promise.all([b.claimDue(6, 10_000), b.claimDue(12, 10_000, { worker: 'w2' })]);
    first.push(await b.claimDue(6, 10_000), await b.claimDue(6, 10_000, { worker: 'w2' }));
    await b.admin`select pg_sleep(0.2)`;
    first.push(await b.claimDue(6, 10_000));
    const seconds = Math.floor((performance.now() - started) / 1000) + 1;
    expect(first.flat().length).toBeLessThanOrEqual(5 * seconds);
    expect(first.flat().length).toBeGreaterThanOrEqual(5);
    expect(first.flat()[0]).toMatchObject({ attempt: 1, rateLimitPerSecond: 10 });
    // A trial takes the others, and leaves them as they were.
    const waiting = seqs.filter((seq) => !first.flat().some((message) => message.seq === seq));
    expect(await b.store.tryClaim(seqs, terms())).toEqual(waiting);
    expect(await b.store.tryClaim(seqs, terms())).toEqual(waiting);
  });
});
