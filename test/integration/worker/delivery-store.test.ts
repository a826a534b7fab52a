import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/decide-receipts.ts';
import { NO_ACCOUNT } from '#core/domain/choose-account.ts';
import type { ClaimedMessage, Completion, ClaimTerms } from '#core/store/deliveries.ts';
import { RECEIPT_TIMEOUT_MS, settle } from '#core/domain/settle.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
import {
  acceptBatch,
  acceptRow,
  moveSuspension,
  seedAccount,
  seedTenant,
  type SeededTenant,
} from '#test/support/seed.ts';
import { setupStores } from '#test/support/worker.ts';
import { toCompletion } from '../../../services/worker/deliver/completion.ts';

const terms = (overrides: Partial<ClaimTerms> = {}): ClaimTerms => ({
  worker: 'w1',
  leaseMs: 60_000,
  ...overrides,
});

async function setup() {
  const stores = await setupStores();
  const tenant = await seedTenant(stores.admin);
  const accountId = await seedAccount(stores.admin, tenant.tenantId);
  /** @returns the numbers of the messages. */
  async function accept(n = 1, overrides: Record<string, unknown> = {}, of: SeededTenant = tenant) {
    const rows = Array.from({ length: n }, () => acceptRow(of, overrides));
    await acceptBatch(stores.api, rows);
    return rows.map(({ seq }) => seq);
  }
  /** Claims out of the tenant's lane for its account. */
  const claimDue = (most: number, aheadMs: number, more: Partial<ClaimTerms> = {}) =>
    stores.store.claimDue([{ tenantId: tenant.tenantId, accountId, most, aheadMs }], terms(more));
  return {
    ...stores,
    tenant,
    accountId,
    accept,
    claimDue,
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

function completion(message: ClaimedMessage, outcome: AttemptOutcome, receiptsExpected = false): Completion {
  const now = Date.now();
  const attempted = {
    ...message,
    expiresAt: message.expiresAt.getTime(),
    dedupe: 'none',
    receiptsExpected,
  } as const;
  return toCompletion(message, outcome, settle(outcome, attempted, now, 0), now);
}

const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: 'p-1' };
const transient: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'provider_unavailable', code: 'http_503' },
};

describe('claims', () => {
  test('of a lane the more urgent is claimed first, however many have waited longer', async () => {
    await using b = await setup();
    await b.accept(500, { priority: 2 });
    const normal = await b.accept(2, { priority: 1 });
    const high = await b.accept(1, { priority: 0 });
    const claimed = await b.claimDue(4, 10_000);
    const seqs = claimed.map(({ seq }) => seq);
    expect(seqs).toEqual(expect.arrayContaining([...high, ...normal]));
    expect(seqs).toHaveLength(4);
    expect(await b.claimDue(1, 10_000)).toHaveLength(1);
  });

  test('a message is claimed by one of many workers that try at the same time, with its attempt row', async () => {
    await using b = await setup();
    const wakes = await b.accept(20);
    const claims = await Promise.all(
      Array.from({ length: 6 }, (_, i) => b.store.claim(wakes, terms({ worker: `w${i}` }))),
    );
    expect(claims.flat()).toHaveLength(20);
    expect(new Set(claims.flat().map((m) => m.id)).size).toBe(20);
    const [attempts] = await b.admin`select count(*) as n from despatch.attempts where outcome = 'started'`;
    expect(attempts?.['n']).toBe(20);
  });

  test('a claim carries what the provider call needs', async () => {
    await using b = await setup();
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
    });
  });

  test('what is expired, without an account, suspended or not due is not claimed, and a look says which', async () => {
    await using b = await setup();
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

  test('of what waits each is moved once, and what is under way not at all', async () => {
    await using b = await setup();
    const [first = 0, second = 0, third = 0, begun = 0] = await b.accept(4);
    await b.store.claim([begun], terms());
    const failure = { class: 'expired', code: 'expired', retryable: false };
    expect(await b.store.moveMessages([first, begun], 'expired', failure)).toEqual(new Set([first]));
    expect(await b.store.moveMessages([first], 'expired', failure)).toEqual(new Set());
    expect(await b.store.moveMessages([first, second, begun], 'held', null)).toEqual(new Set([second]));
    const other = await seedAccount(b.admin, b.tenant.tenantId);
    const all = [first, second, third, begun];
    expect(
      await b.store.assignAccounts(
        all,
        all.map(() => other),
      ),
    ).toEqual(new Set([third]));
    expect(await b.store.claim(all, terms())).toMatchObject([{ seq: third, accountId: other }]);
    expect(await states(b)).toEqual(['expired', 'held', 'sending', 'sending']);
    const [ended] = await b.admin`select failure ->> 'class' as class, final from despatch.message_results`;
    expect(ended).toEqual({ class: 'expired', final: true });
    expect(await b.store.backlogTotal()).toBe(3);
  });

  test('the accounts of a tenant come by age, without those that cannot be used', async () => {
    await using b = await setup();
    const { tenantId } = b.tenant;
    const [second, disabled] = [await seedAccount(b.admin, tenantId), await seedAccount(b.admin, tenantId)];
    await b.admin`update despatch.provider_accounts set status = 'disabled' where id = ${disabled}`;
    await seedAccount(b.admin, (await seedTenant(b.admin)).tenantId);
    expect(await b.store.accountsOf([tenantId])).toEqual(
      [b.accountId, second].map((id) => ({ tenantId, id, channel: 'sms' })),
    );
  });

  test('a test-mode message needs no provider', async () => {
    await using b = await setup();
    const other = await seedTenant(b.admin);
    const [message] = await b.store.claim(await b.accept(1, { test: true }, other), terms());
    expect(message).toMatchObject({ accountId: null, provider: 'simulator-sms' });
  });

  test("a provider's rate is shared by all workers, counted in segments", async () => {
    await using b = await setup();
    await b.admin`update despatch.provider_accounts set rate_limit_per_second = 10`;
    const seqs = await b.accept(12, { segments: 2 });
    // By name no message of such an account is claimed, unless to find the one that cannot be.
    expect(await b.store.claim(seqs, terms())).toEqual([]);
    const started = Date.now();
    const first = await Promise.all([b.claimDue(6, 10_000), b.claimDue(12, 10_000, { worker: 'w2' })]);
    // Two calls may straddle a second's edge, never more than two seconds' worth.
    const seconds = Math.floor(Date.now() / 1000) - Math.floor(started / 1000) + 1;
    expect(first.flat().length).toBeLessThanOrEqual(5 * seconds);
    expect(first.flat().length).toBeGreaterThanOrEqual(5);
    expect(first.flat()[0]).toMatchObject({ attempt: 1, rateLimitPerSecond: 10 });
    expect(await b.store.claim(seqs, terms(), true)).toHaveLength(12 - first.flat().length);
  });
});

describe('completions', () => {
  test('an accepted attempt makes the message sent and takes it out of the backlog', async () => {
    await using b = await setup();
    const claimed = await b.store.claim(await b.accept(3), terms());
    const applied = await b.store.complete(claimed.map((m) => completion(m, accepted)));
    expect(applied.size).toBe(3);
    expect(await states(b)).toEqual(['sent', 'sent', 'sent']);
    expect(await liveCount(b)).toBe(0);
    expect(await b.store.backlogTotal()).toBe(0);
    const [attempt] =
      await b.admin`select outcome, ended_at is not null as ended from despatch.attempts limit 1`;
    expect(attempt).toEqual({ outcome: 'accepted', ended: true });
  });

  test('a second record of the same attempt changes nothing', async () => {
    await using b = await setup();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([completion(message, accepted)]);
    expect((await b.store.complete([completion(message, transient)])).size).toBe(0);
    expect(await states(b)).toEqual(['sent']);
    expect(await b.store.backlogTotal()).toBe(0);
  });

  test('a worker paused past its lease cannot overwrite what came after it', async () => {
    await using b = await setup();
    const [zombie] = await b.store.claim(await b.accept(), terms({ leaseMs: 0 }));
    if (zombie === undefined) throw new Error('not claimed');
    const [lost] = await b.store.lost([zombie.seq]);
    expect(lost).toMatchObject({ action: 'lost', attempt: 1 });
    if (lost === undefined) throw new Error('not found');
    const failure = { class: 'unknown', code: 'worker_lost' } as const;
    await b.store.complete([{ ...completion(lost, { kind: 'ambiguous', failure }), next_attempt_ms: 0 }]);
    const [second] = await b.claimDue(10, 0, { worker: 'w2' });
    expect(second).toMatchObject({ action: 'send', attempt: 2, ambiguous: 1, duplicateRisk: true });
    expect((await b.store.complete([completion(zombie, accepted)])).size).toBe(0);
    expect(await states(b)).toEqual(['sending']);
  });

  test('an answer that comes after the message was given up still makes it sent', async () => {
    await using b = await setup();
    const [zombie] = await b.store.claim(
      await b.accept(1, { delivery_guarantee: 'at_most_once' }),
      terms({ leaseMs: 0 }),
    );
    const [lost] = await b.store.lost([zombie?.seq ?? 0]);
    if (zombie === undefined || lost === undefined) throw new Error('not claimed');
    await b.store.complete([
      completion(lost, { kind: 'ambiguous', failure: { class: 'unknown', code: 'worker_lost' } }),
    ]);
    expect(await states(b)).toEqual(['unknown']);
    await b.store.complete([completion(zombie, accepted)]);
    await b.store.applyReceipts(10, decideReceipts);
    expect(await states(b)).toEqual(['sent']);
  });

  test('a transient rejection waits for its time in the database', async () => {
    await using b = await setup();
    const wakes = await b.accept();
    const [message] = await b.store.claim(wakes, terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([{ ...completion(message, transient), next_attempt_ms: 60_000 }]);
    expect(await b.store.claim(wakes, terms())).toEqual([]);
    await b.admin`update despatch.live_messages set next_attempt_at = now()`;
    expect(await b.store.claim(wakes, terms())).toHaveLength(1);
  });

  test('content that was to be discarded is gone once the provider has it, and stays until then', async () => {
    await using b = await setup();
    const wakes = await b.accept(1, { content_retention: 'discard' });
    const [message] = await b.store.claim(wakes, terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([{ ...completion(message, transient), next_attempt_ms: 0 }]);
    const content = async () => (await b.admin`select content from despatch.messages`)[0]?.['content'];
    expect(await content()).toEqual({ body: 'Hello' });
    const [again] = await b.store.claim(wakes, terms());
    if (again === undefined) throw new Error('not claimed');
    await b.store.complete([completion(again, accepted)]);
    expect(await content()).toBeNull();
  });
});

describe('receipts', () => {
  async function sent(b: Awaited<ReturnType<typeof setup>>) {
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([completion(message, accepted, true)]);
    return message;
  }
  async function receive(
    b: Awaited<ReturnType<typeof setup>>,
    m: ClaimedMessage,
    receipt: string,
    temporary = false,
    attempt = m.attempt,
  ) {
    await b.admin`insert into despatch.receipts (tenant_id, message_seq, purge_on, attempt, receipt, temporary, apply_at)
      values (${m.tenantId}, ${m.seq}, ${m.purgeOn}, ${attempt}, ${receipt}, ${temporary}, now())`;
    await b.store.applyReceipts(10, decideReceipts);
  }

  const ORDERS: { receipts: string[]; end: string }[] = [
    { receipts: ['delivered'], end: 'delivered' },
    { receipts: ['delivered', 'delivered'], end: 'delivered' },
    { receipts: ['delivered', 'sent'], end: 'delivered' },
    { receipts: ['sent', 'delivered', 'undelivered'], end: 'delivered' },
    { receipts: ['undelivered', 'delivered'], end: 'undelivered' },
    { receipts: ['undelivered', 'sent'], end: 'undelivered' },
  ];
  test.each(ORDERS)(
    '$receipts end as $end, and every receipt is in the event log',
    async ({ receipts, end }) => {
      await using b = await setup();
      const message = await sent(b);
      for (const receipt of receipts) await receive(b, message, receipt);
      expect(await states(b)).toEqual([end]);
      const [logged] = await b.admin`select count(*) as n from despatch.events where source = 'receipt'`;
      expect(logged?.['n']).toBe(receipts.length);
      expect(await awaitedCount(b)).toBe(0);
    },
  );

  test('a temporary failure may still turn into delivered, by the same attempt only', async () => {
    await using b = await setup();
    const message = await sent(b);
    await receive(b, message, 'undelivered', true);
    await receive(b, message, 'delivered', false, 99);
    expect(await states(b)).toEqual(['undelivered']);
    await receive(b, message, 'delivered');
    expect(await states(b)).toEqual(['delivered']);
  });

  test('a message without a receipt becomes unknown after 72 hours, and a late receipt still counts', async () => {
    await using b = await setup();
    const message = await sent(b);
    const [due] =
      await b.admin`select round(extract(epoch from due_at - now()) / 3600)::int as hours from despatch.awaited_receipts`;
    expect(due?.['hours']).toBe(72);
    expect(await b.store.expireReceipts(10, [], RECEIPT_TIMEOUT_MS)).toEqual({ seen: 0, silent: [] });
    await b.admin`update despatch.awaited_receipts set due_at = now()`;
    const [row] = await b.admin`select tenant_id, account_id, provider from despatch.message_results`;
    const { tenant_id: tenantId, account_id: accountId, provider } = row ?? {};
    expect(await b.store.expireReceipts(10, [], RECEIPT_TIMEOUT_MS)).toEqual({
      seen: 1,
      silent: [{ tenantId, accountId, provider, messages: 1 }],
    });
    expect(await states(b)).toEqual(['unknown']);
    await receive(b, message, 'delivered');
    expect(await states(b)).toEqual(['delivered']);
  });

  test('a receipt that overtakes its own attempt is kept and applied later', async () => {
    await using b = await setup();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    await receive(b, message, 'delivered');
    expect(await states(b)).toEqual(['sending']);
    await b.store.complete([completion(message, accepted, true)]);
    await b.admin`update despatch.receipts set apply_at = now()`;
    await b.store.applyReceipts(10, decideReceipts);
    expect(await states(b)).toEqual(['delivered']);
  });
});

describe('lanes', () => {
  test('each lane with something due is told once, however much is due, and nothing else', async () => {
    await using b = await setup();
    const [due] = await Promise.all([
      acceptBatch(b.api, [acceptRow(b.tenant), acceptRow(b.tenant), acceptRow(b.tenant, { test: true })], 0),
      b.accept(1, {}, await seedTenant(b.admin)),
    ]);
    expect(due).toHaveLength(3);
    const { tenantId } = b.tenant;
    const lanes = await b.store.dueLanes();
    expect(lanes).toHaveLength(2);
    expect(lanes).toEqual(
      expect.arrayContaining(
        [NO_ACCOUNT, b.accountId].map((accountId) => ({
          task: 'due',
          tenantId,
          accountId,
          oldestDue: expect.any(Date) as Date,
        })),
      ),
    );
  });

  test('a claim out of a lane takes the longest due, no more than it is asked for, and only of that lane', async () => {
    await using b = await setup();
    const seqs = await b.accept(5);
    await b.accept(1, { test: true });
    const claims = [await b.claimDue(2, 10_000), await b.claimDue(2, 10_000), await b.claimDue(2, 10_000)];
    expect(claims.map((claimed) => claimed.length)).toEqual([2, 2, 1]);
    expect(claims.flat().map(({ seq }) => seq)).toEqual(seqs);
  });

  test('lanes of several tenants share a claim, and each keeps its own bounds', async () => {
    await using b = await setup();
    const [plain, limited, suspended, large] = await Promise.all(
      Array.from({ length: 4 }, () => seedTenant(b.admin)),
    );
    if (!plain || !limited || !suspended || !large) throw new Error('no tenants');
    const laneOf = async (
      of: SeededTenant,
      n: number,
      ratePerSecond?: number,
      content: Record<string, unknown> = {},
    ) => {
      const accountId = await seedAccount(
        b.admin,
        of.tenantId,
        ratePerSecond === undefined ? {} : { ratePerSecond },
      );
      await b.accept(n, content, of);
      return { tenantId: of.tenantId, accountId, most: 3, aheadMs: 10_000 };
    };
    const lanes = [
      await laneOf(plain, 5),
      await laneOf(limited, 5, 1),
      await laneOf(suspended, 5),
      await laneOf(large, 3, undefined, { content: { body: 'x' }, content_bytes: 30_000 }),
    ];
    await moveSuspension(b.admin, suspended.tenantId, 'manual');
    const claimed = await b.store.claimDue(lanes, terms({ bytesMax: 64_000 }));
    const counts = Map.groupBy(claimed, ({ tenantId }) => tenantId);
    expect(lanes.map(({ tenantId }) => counts.get(tenantId)?.length ?? 0)).toEqual([3, 1, 0, 2]);
    // A new second may have begun for the account with a limit.
    const others = lanes.filter(({ tenantId }) => tenantId !== limited.tenantId);
    expect(await b.store.claimDue(others, terms({ bytesMax: 64_000 }))).toHaveLength(2 + 1);
  });

  test('what a lane holds that no claim takes is shown, and what is under way only when its lease is over', async () => {
    await using b = await setup();
    const lane = { tenantId: b.tenant.tenantId, accountId: b.accountId };
    const [expired = 0, begun = 0] = await b.accept(3);
    await b.admin`update despatch.live_messages set due_at = now()`;
    await b.admin`update despatch.live_messages set expires_at = now() where seq = ${expired}`;
    await b.store.claim([begun], terms({ leaseMs: 60_000 }));
    expect(await b.store.findWaitingDue(lane, 10)).toMatchObject([{ seq: expired, isExpired: true }]);
    await b.admin`update despatch.live_messages set due_at = now(), lease_until = now() where seq = ${begun}`;
    const looked = (await b.store.findWaitingDue(lane, 10)).toSorted((one, other) => one.seq - other.seq);
    expect(looked).toMatchObject([{ seq: expired }, { seq: begun, isLeaseOver: true }]);
    await b.admin`update despatch.provider_accounts set status = 'disabled'`;
    expect(await b.store.findWaitingDue(lane, 10)).toHaveLength(3);
  });

  test('what a worker has under way is told to that worker alone', async () => {
    await using b = await setup();
    const [mine = 0, others = 0] = await b.accept(3);
    await b.store.claim([mine], terms());
    await b.store.claim([others], terms({ worker: 'w2' }));
    const { tenantId } = b.tenant;
    expect(await b.store.claimedBy(tenantId, 'w1', 0)).toMatchObject([
      { action: 'send', seq: mine, attempt: 1 },
    ]);
    expect(await b.store.claimedBy(tenantId, 'w1', mine)).toEqual([]);
    // With less than half of its lease left a call could outlast it.
    await b.admin`update despatch.live_messages set started_at = now() - interval '40 seconds', lease_until = now() + interval '20 seconds'`;
    expect(await b.store.claimedBy(tenantId, 'w1', 0)).toEqual([]);
  });
});

describe('suspension', () => {
  test('what waits is held, what is held comes back, and its time aside does not count toward expiry', async () => {
    await using b = await setup();
    const wakes = await b.accept(3);
    await moveSuspension(b.admin, b.tenant.tenantId, 'billing');
    expect(await b.store.holdTenant(b.tenant.tenantId, 100)).toBe(3);
    expect(await states(b)).toEqual(['held', 'held', 'held']);
    expect(await b.store.claim(wakes, terms())).toEqual([]);
    await b.admin`update despatch.live_messages set held_at = held_at - interval '2 hours'`;
    const expiry = async () =>
      (await b.admin`select min(expires_at) as at from despatch.live_messages`)[0]?.['at'] as Date;
    const before = await expiry();
    await moveSuspension(b.admin, b.tenant.tenantId, null);
    expect(await b.store.dueLanes()).toMatchObject([{ tenantId: b.tenant.tenantId, task: 'release' }]);
    expect(await b.store.releaseTenant(b.tenant.tenantId, 100)).toBe(3);
    expect(await states(b)).toEqual(['queued', 'queued', 'queued']);
    expect((await expiry()).getTime() - before.getTime()).toBeGreaterThanOrEqual(2 * 3_600_000);
    expect(await b.claimDue(10, 0)).toHaveLength(3);
  });
});

describe('provider accounts', () => {
  test('three refusals in a row make an account invalid, one success in between does not', async () => {
    await using b = await setup();
    const refuse = () => b.store.noteAccountResult(b.accountId, 1, 'forbidden');
    expect([await refuse(), await refuse()]).toEqual([null, null]);
    expect(await b.store.noteAccountResult(b.accountId, 1, null)).toBe('active');
    expect([await refuse(), await refuse(), await refuse()]).toEqual([null, null, 'invalid']);
    expect(await invalidated(b)).toEqual({
      status: 'invalid',
      status_reason: 'forbidden',
      verified_at: null,
    });
    expect(await b.store.noteAccountResult(b.accountId, 1, null)).toBe('active');
    expect(await invalidated(b)).toEqual({
      status: 'active',
      status_reason: null,
      verified_at: expect.any(Date) as Date,
    });
  });

  test('what a send found out says nothing about settings or a secret that came after it', async () => {
    await using b = await setup();
    await b.admin`update despatch.provider_accounts set version = 2, auth_failures = 2`;
    expect(await b.store.noteAccountResult(b.accountId, 1, 'forbidden')).toBeNull();
    expect(await b.store.noteAccountResult(b.accountId, 1, null)).toBeNull();
    expect(await invalidated(b)).toEqual({ status: 'unverified', status_reason: null, verified_at: null });
  });

  test('a credential check that nobody answered is handed out again, an answered one is not', async () => {
    await using b = await setup();
    await b.admin`update despatch.provider_accounts set verify_requested_at = now()`;
    const asked = await b.store.takeVerifications(10);
    expect(asked).toEqual([b.accountId]);
    expect(await b.store.takeVerifications(10)).toEqual([]);
    await b.admin`update despatch.provider_accounts set verify_requested_at = now()`;
    expect(await b.store.takeVerifications(10)).toHaveLength(1);
    await b.store.noteVerification(b.accountId, 1, 'unknown', 'timeout');
    const [row] = await b.admin`select status, verify_requested_at from despatch.provider_accounts`;
    expect(row).toEqual({ status: 'unverified', verify_requested_at: null });
  });

  test('a credential check ends with a word, and an account that it finds invalid has no time of verification', async () => {
    await using b = await setup();
    const verified = async (result: 'valid' | 'invalid' | 'unknown', reason: string | null) => {
      const moved = await b.store.noteVerification(b.accountId, 1, result, reason);
      const [row] = await b.admin`
        select status, status_reason, verification_result, verification_reason, verified_at is not null as verified
        from despatch.provider_accounts`;
      return [moved, ...Object.values(row ?? {})];
    };
    expect(await verified('unknown', 'dns')).toEqual([null, 'unverified', 'dns', 'unknown', 'dns', false]);
    expect(await verified('valid', null)).toEqual(['active', 'active', null, 'valid', null, true]);
    // A provider that could not be asked takes nothing back.
    expect(await verified('unknown', 'tls')).toEqual([null, 'active', null, 'unknown', 'tls', true]);
    expect(await verified('invalid', 'forbidden')).toEqual([
      'invalid',
      'invalid',
      'forbidden',
      'invalid',
      'forbidden',
      false,
    ]);
    expect(await verified('unknown', 'timeout')).toEqual([
      null,
      'invalid',
      'forbidden',
      'unknown',
      'timeout',
      false,
    ]);
  });

  test('the answer of a check says nothing about settings or a secret that came after it', async () => {
    await using b = await setup();
    await b.admin`update despatch.provider_accounts set version = 2, verify_requested_at = now()`;
    expect(await b.store.noteVerification(b.accountId, 1, 'valid', null)).toBeNull();
    expect(await b.store.noteVerification(b.accountId, 1, 'invalid', 'unauthorized')).toBeNull();
    expect(await invalidated(b)).toEqual({ status: 'unverified', status_reason: null, verified_at: null });
    expect(await b.store.takeVerifications(10)).toEqual([b.accountId]);
  });

  test('a disabled account is not checked', async () => {
    await using b = await setup();
    await b.admin`update despatch.provider_accounts set status = 'disabled', verify_requested_at = now()`;
    expect(await b.store.takeVerifications(10)).toEqual([]);
    expect(await b.store.noteVerification(b.accountId, 1, 'valid', null)).toBeNull();
  });

  test('messages that waited for an account are due at once when it is fixed', async () => {
    await using b = await setup();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    const refused: AttemptOutcome = {
      kind: 'rejected_transient',
      failure: { class: 'auth_or_config', code: 'unauthorized' },
    };
    await b.store.complete([completion(message, refused)]);
    expect(await b.claimDue(10, 0)).toEqual([]);
    await b.store.noteVerification(b.accountId, 1, 'valid', null);
    expect(await b.claimDue(10, 0)).toMatchObject([{ retries: 0, attempt: 2 }]);
  });
});

describe('retention', () => {
  test('partitions are made ahead and dropped whole as soon as their Monday has come', async () => {
    await using b = await setup();
    await b.accept();
    const [clock] = await b.admin<{ monday: string }[]>`
      select date_trunc('week', now() at time zone 'UTC')::date as monday`;
    const name = await makeOldPartition(b, clock?.monday ?? '');
    expect(await b.store.maintain()).toEqual({ made: 0, dropped: [name], busy: [] });
    expect(await b.store.maintain()).toEqual({ made: 0, dropped: [], busy: [] });
    const [left] = await b.admin`select count(*) as n from despatch.messages`;
    expect(left?.['n']).toBe(1);
  });

  test('a partition that cannot be dropped keeps no other one', async () => {
    await using b = await setup();
    const [first, second] = [
      await makeOldPartition(b, '2020-01-06'),
      await makeOldPartition(b, '2020-01-13'),
    ];
    await b.admin.unsafe(`create view public.report as select id from despatch.${first}`);
    await expect(b.store.maintain()).rejects.toThrow(`cannot drop table ${first}`);
    const left = await b.admin`select relname from pg_class where relname in (${first}, ${second})`;
    expect(left.map(({ relname }) => relname as string)).toEqual([first]);
  });

  test('a long reader delays the end of a partition, and neither acceptance nor the partitions to come', async () => {
    await using b = await setup();
    const name = await makeOldPartition(b, '2020-01-06');
    const [last] = await b.admin<{ name: string }[]>`
      select max(relname) as name from pg_class where relname ~ '^attempt_log_[0-9]{8}$'`;
    await b.admin.unsafe(`drop table despatch.${last?.name}`);
    const [reading, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const reader = b.admin.begin(async (tx) => {
      await tx`select count(*) from despatch.messages`;
      reading.resolve();
      await finish.promise;
    });
    await reading.promise;
    const maintained = b.store.maintain();
    // Whoever accepts now waits no longer than the one second that the drop waits.
    const slowest = await slowestAccept(b, maintained);
    expect(slowest).toBeLessThan(5_000);
    expect(await maintained).toEqual({ made: 1, dropped: [], busy: ['messages'] });
    finish.resolve();
    await reader;
    expect(await b.store.maintain()).toEqual({ made: 0, dropped: [name], busy: [] });
  });
});

async function invalidated(b: Bench) {
  const [row] = await b.admin`select status, status_reason, verified_at from despatch.provider_accounts`;
  return row;
}

type Bench = Awaited<ReturnType<typeof setup>>;

async function makeOldPartition(b: Bench, monday: string): Promise<string> {
  const name = `messages_${monday.replaceAll('-', '')}`;
  await b.admin.unsafe(
    `create table despatch.${name} partition of despatch.messages for values from ('${monday}') to (date '${monday}' + 7)`,
  );
  await b.admin.unsafe(`alter table despatch.${name} owner to despatch_definer`);
  return name;
}

/** Accepts one message after the other until the work has ended. Returns the longest time in milliseconds. */
async function slowestAccept(b: Bench, work: Promise<unknown>): Promise<number> {
  const over = new AbortController();
  void work.finally(() => over.abort());
  let slowest = 0;
  while (!over.signal.aborted) {
    const started = performance.now();
    await b.accept();
    slowest = Math.max(slowest, performance.now() - started);
  }
  return slowest;
}

async function states(b: Bench): Promise<string[]> {
  const rows = await b.admin<{ status: string }[]>`select status from despatch.message_states order by seq`;
  return rows.map((row) => row.status);
}

const countOf = async (rows: Promise<readonly { n?: number }[]>): Promise<number> => (await rows)[0]?.n ?? -1;

const liveCount = (b: Bench): Promise<number> =>
  countOf(b.admin<{ n: number }[]>`select count(*) as n from despatch.live_messages`);

const awaitedCount = (b: Bench): Promise<number> =>
  countOf(b.admin<{ n: number }[]>`select count(*) as n from despatch.awaited_receipts`);
