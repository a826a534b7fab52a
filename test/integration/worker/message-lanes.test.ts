import { describe, expect, test } from 'vitest';
import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import { assignmentOf } from '#test/support/assignment.ts';
import { completionOf } from '#test/support/completion-of.ts';
import {
  acceptBatch,
  acceptRow,
  moveSuspension,
  seedAccount,
  type SeededTenant,
  seedTenant,
} from '#test/support/seed.ts';
import { dueRows, setupMessages, states, terms, transient, waitingIn } from '#test/support/setup-messages.ts';

describe('lanes', () => {
  test('dueLanes returns each lane with due messages once, and no other lanes', async () => {
    await using b = await setupMessages();
    const [due] = await Promise.all([
      acceptBatch(b.api, [acceptRow(b.tenant), acceptRow(b.tenant), acceptRow(b.tenant, { test: true })], 0),
      b.accept(1, {}, await seedTenant(b.admin)),
    ]);
    expect(due).toHaveLength(3);
    const { tenantId } = b.tenant;
    const lanes = await dueRows(b);
    expect(lanes).toHaveLength(2);
    expect(lanes).toEqual(
      expect.arrayContaining(
        [NO_ACCOUNT, b.accountId].map((accountId) => ({
          task: 'due',
          tenantId,
          accountId,
          priority: 1,
          dueAt: expect.any(Date) as Date,
          isActive: true,
          isSlowed: false,
        })),
      ),
    );
  });

  test('an incremental dueLanes returns lanes with newly due messages or known older ones', async () => {
    await using b = await setupMessages();
    const { tenantId } = b.tenant;
    await acceptBatch(b.api, [acceptRow(b.tenant)], 0);
    const [old] = await dueRows(b);
    if (old?.task !== 'due') throw new Error('nothing is due');
    const [looked] = (await b.store.dueLanes()).filter(({ task }) => task === 'looked');
    const after = looked?.task === 'looked' ? looked.dueAt : new Date(0);
    const dueFrom = [old.dueAt.getTime(), old.dueAt.getTime(), old.dueAt.getTime()];
    const older = [{ tenantId, accountId: b.accountId, dueFrom }];
    expect(await dueRows(b, { after, older: [] })).toEqual([]);
    expect(await dueRows(b, { after, older })).toEqual([old]);

    const other = await seedTenant(b.admin);
    await acceptBatch(b.api, [acceptRow(b.tenant, { priority: 0, test: true }), acceptRow(b.tenant)], 0);
    await acceptBatch(b.api, [acceptRow(other, { test: true })], 0);
    // A message that is due later.
    await acceptBatch(b.api, [acceptRow(await seedTenant(b.admin), { test: true })]);
    const found = await dueRows(b, { after, older });
    const named = found.map((row) => row.task === 'due' && [row.tenantId, row.accountId, row.priority]);
    expect(named).toHaveLength(4);
    expect(named).toEqual(
      expect.arrayContaining([
        [tenantId, b.accountId, 1],
        [tenantId, NO_ACCOUNT, 0],
        [other.tenantId, NO_ACCOUNT, 1],
      ]),
    );
    await moveSuspension(b.admin, other.tenantId, 'manual');
    expect(await dueRows(b, { after, older: [] })).toContainEqual(
      expect.objectContaining({ tenantId: other.tenantId, isActive: false }),
    );
  });

  test('searches and claims start at the last known earliest due time of each priority', async () => {
    await using b = await setupMessages();
    const lane = { tenantId: b.tenant.tenantId, accountId: b.accountId };
    const [bulk, normal] = [await b.accept(1, { priority: 2 }), await b.accept(1)];
    await b.admin`update despatch.live_messages set due_at = now() - interval '1 hour' where priority = 2`;
    await b.admin`update despatch.live_messages set due_at = now() - interval '1 minute' where priority = 1`;
    const now = Date.now();
    const from = (high: number, usual: number, low: number) => ({
      ...lane,
      dueFrom: [now - high, now - usual, now - low] as const,
    });
    expect(await b.store.dueSeqs(from(0, 30_000, 60_000), 9, 0)).toEqual(new Set());
    expect(await b.store.dueSeqs(from(0, 90_000, 60_000), 9, 0)).toEqual(new Set(normal));
    const all = from(0, 90_000, 3_660_000);
    expect(await b.store.dueSeqs(all, 9, 0)).toEqual(new Set([...normal, ...bulk]));
    await b.admin`update despatch.live_messages set expires_at = now() - interval '1 second'`;
    expect(await waitingIn(b, from(0, 30_000, 60_000))).toEqual([]);
    expect(await waitingIn(b, all)).toHaveLength(2);
    await b.admin`update despatch.live_messages set expires_at = now() + interval '1 hour'`;
    const claim = (at: typeof all) => b.store.claimDue([{ ...at, most: 9, aheadMs: 0 }], terms());
    expect(await claim(from(0, 30_000, 60_000))).toEqual([]);
    expect(new Set((await claim(all)).map(({ seq }) => seq))).toEqual(new Set([...normal, ...bulk]));
  });

  test('a message that changes state is due now at the earliest, so that no search misses it', async () => {
    await using b = await setupMessages();
    const other = await seedAccount(b.admin, b.tenant.tenantId);
    const [moved, given, late] = await b.accept(3);
    if (moved === undefined || given === undefined || late === undefined) throw new Error('no messages');
    await b.admin`update despatch.live_messages set due_at = now() - interval '1 hour'`;
    await b.admin`update despatch.live_messages set status = 'held', held_from = 'deferred', held_at = now(), due_at = 'infinity',
      next_attempt_at = now() - interval '1 hour' where seq = ${given}`;
    const [begun] = await b.store.claim([late], terms());
    if (begun === undefined) throw new Error('nothing was claimed');
    await b.admin`update despatch.live_messages set expires_at = now() - interval '1 minute' where seq = ${late}`;
    expect(await b.store.assignAccounts([assignmentOf(moved, b.accountId, other)])).toEqual(new Set([moved]));
    expect(await b.store.moveMessages([given], 'deferred', null)).toEqual(new Set([given]));
    expect(await b.store.complete([completionOf(begun, transient)])).toEqual(new Set([late]));
    const [early] = await b.admin`
      select count(*)::int as n from despatch.live_messages where due_at < now() - interval '1 minute'`;
    expect(early?.['n']).toBe(0);
  });

  test('a message goes to no other account if a call has got no answer since the decision', async () => {
    await using b = await setupMessages();
    const [seq = 0] = await b.accept();
    const other = await seedAccount(b.admin, b.tenant.tenantId);
    await b.admin`update despatch.live_messages set status = 'deferred', attempt = 1, ambiguous = 1`;
    expect(await b.store.assignAccounts([assignmentOf(seq, b.accountId, other)])).toEqual(new Set());
    const [row] = await b.admin`select account_id from despatch.live_messages`;
    expect(row).toEqual({ account_id: b.accountId });
  });

  test('a claim takes the longest due messages of its lane, up to its limit, and no others', async () => {
    await using b = await setupMessages();
    const seqs = await b.accept(5);
    await b.accept(1, { test: true });
    const claims = [await b.claimDue(2, 10_000), await b.claimDue(2, 10_000), await b.claimDue(2, 10_000)];
    expect(claims.map((claimed) => claimed.length)).toEqual([2, 2, 1]);
    expect(claims.flat().map(({ seq }) => seq)).toEqual(seqs);
  });

  test('a claim leaves out the messages that its lane sets aside', async () => {
    await using b = await setupMessages();
    const [first = 0, second = 0, third = 0] = await b.accept(3);
    const lane = { tenantId: b.tenant.tenantId, accountId: b.accountId, most: 9, aheadMs: 10_000 };
    const claimed = await b.store.claimDue([{ ...lane, aside: [second] }], terms());
    expect(new Set(claimed.map(({ seq }) => seq))).toEqual(new Set([first, third]));
    expect(await b.store.claimDue([lane], terms())).toMatchObject([{ seq: second }]);
  });

  test('one claim takes from lanes of several tenants, each within its own limits', async () => {
    await using b = await setupMessages();
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
    // The account with a limit is left out, because a new second may have begun for it.
    const others = lanes.filter(({ tenantId }) => tenantId !== limited.tenantId);
    expect(await b.store.claimDue(others, terms({ bytesMax: 64_000 }))).toHaveLength(2 + 1);
  });

  test('findWaitingDue returns messages that no claim takes, also those with expired leases', async () => {
    await using b = await setupMessages();
    const lane = { tenantId: b.tenant.tenantId, accountId: b.accountId };
    const [expired = 0, begun = 0] = await b.accept(3);
    await b.admin`update despatch.live_messages set due_at = now()`;
    await b.admin`update despatch.live_messages set expires_at = now() where seq = ${expired}`;
    await b.store.claim([begun], terms({ leaseMs: 60_000 }));
    expect(await waitingIn(b, lane)).toMatchObject([{ seq: expired, isExpired: true }]);
    await b.admin`update despatch.live_messages set due_at = now(), lease_until = now() where seq = ${begun}`;
    const looked = (await waitingIn(b, lane)).toSorted((one, other) => one.seq - other.seq);
    expect(looked).toMatchObject([{ seq: expired }, { seq: begun, isLeaseOver: true }]);
    await b.admin`update despatch.provider_accounts set status = 'disabled'`;
    expect(await waitingIn(b, lane)).toHaveLength(3);
  });

  test('claimedBy returns the named open claims of its own worker only', async () => {
    await using b = await setupMessages();
    const [mine = 0, others = 0, unnamed = 0] = await b.accept(4);
    await b.store.claim([mine, unnamed], terms());
    await b.store.claim([others], terms({ worker: 'w2' }));
    const named = [mine, others];
    expect(await b.store.claimedBy(named, terms(), { isLate: false, afterSeq: 0 })).toMatchObject([
      { action: 'send', seq: mine, attempt: 1 },
    ]);
    expect(await b.store.claimedBy(named, terms(), { isLate: false, afterSeq: mine })).toEqual([]);
    expect(await b.store.claimedBy(named, terms(), { isLate: true, afterSeq: 0 })).toEqual([]);
    // With less than half of its lease left, a call could outlast the lease.
    await b.admin`update despatch.live_messages set started_at = now() - interval '40 seconds', lease_until = now() + interval '20 seconds'`;
    expect(await b.store.claimedBy(named, terms(), { isLate: false, afterSeq: 0 })).toEqual([]);
    expect(await b.store.claimedBy(named, terms(), { isLate: true, afterSeq: 0 })).toMatchObject([
      { action: 'send', seq: mine },
    ]);
    await b.admin`update despatch.live_messages set lease_until = now()`;
    expect(await b.store.claimedBy(named, terms(), { isLate: true, afterSeq: 0 })).toEqual([]);
  });
});

describe('suspension', () => {
  test('holds waiting messages and releases them; the time held does not count toward expiry', async () => {
    await using b = await setupMessages();
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
    expect(await dueRows(b)).toMatchObject([{ tenantId: b.tenant.tenantId, task: 'release' }]);
    expect(await b.store.releaseTenant(b.tenant.tenantId, 100)).toBe(3);
    expect(await states(b)).toEqual(['queued', 'queued', 'queued']);
    expect((await expiry()).getTime() - before.getTime()).toBeGreaterThanOrEqual(2 * 3_600_000);
    expect(await b.claimDue(10, 0)).toHaveLength(3);
  });

  test('removes the messages of the tenant from the backlog until the tenant is resumed', async () => {
    await using b = await setupMessages();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    await b.accept(3);
    await b.accept(2, {}, other);
    expect((await b.gauges.messageTotals()).backlog).toBe(5);
    await moveSuspension(b.admin, b.tenant.tenantId, 'billing');
    expect((await b.gauges.messageTotals()).backlog).toBe(2);
    await moveSuspension(b.admin, b.tenant.tenantId, null);
    expect((await b.gauges.messageTotals()).backlog).toBe(5);
  });

  test('hides the reason and the next attempt time of a message until its release', async () => {
    await using b = await setupMessages();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([{ ...completionOf(message, transient), next_attempt_ms: 60_000 }]);
    const shown = async () =>
      (await b.admin`select status, reason, next_attempt_at from despatch.message_states`)[0];
    const waits = { status: 'deferred', reason: 'retry', next_attempt_at: expect.any(Date) };
    expect(await shown()).toEqual(waits);
    await moveSuspension(b.admin, b.tenant.tenantId, 'billing');
    await b.store.holdTenant(b.tenant.tenantId, 100);
    expect(await shown()).toEqual({ status: 'held', reason: null, next_attempt_at: null });
    await moveSuspension(b.admin, b.tenant.tenantId, null);
    await b.store.releaseTenant(b.tenant.tenantId, 100);
    expect(await shown()).toEqual(waits);
  });
});
