import { describe, expect, test } from 'vitest';
import { workerStore } from '#core/store/worker-store.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { setupMessages, terms } from '#test/support/setup-messages.ts';
import { ADDRESS_KEYS } from '#test/support/seed.ts';
import type { setupStores } from '#test/support/setup-stores.ts';

const POLL = { interval: 20, timeout: 15_000 };

type Stores = Pick<Awaited<ReturnType<typeof setupStores>>, 'admin' | 'open'>;

/**
 * Makes commits of claims wait until the returned function is called, as they do while a synchronous standby is lost or the
 * write-ahead log cannot be written. A commit is not bounded by `statement_timeout`.
 */
async function stallClaims({ admin, open }: Stores): Promise<() => Promise<void>> {
  await admin.unsafe(`
    create function despatch.stall() returns trigger language plpgsql as
      'begin perform pg_advisory_xact_lock(hashtext(''stall'')); return null; end';
    create constraint trigger stall after update on despatch.live_messages deferrable initially deferred
      for each row when (new.status = 'sending') execute function despatch.stall()`);
  const holder = await open('admin', 1).reserve();
  await holder`select pg_advisory_lock(hashtext('stall'))`;
  return async () => {
    await holder`select pg_advisory_unlock(hashtext('stall'))`;
    holder.release();
  };
}

describe('a claim whose commit takes longer than its deadline', () => {
  test('is found after its commit, and its messages are sent once', async () => {
    await using b = await setupWorkers();
    const goOn = await stallClaims(b);
    const store = workerStore(b.open('worker', 4), 300, ADDRESS_KEYS);
    b.startWorker({}, store);
    await b.send(20, { delivery_guarantee: 'at_most_once' });
    await expect
      .poll(() => b.admin`select from pg_locks where locktype = 'advisory' and not granted`, POLL)
      .not.toHaveLength(0);
    // By then the worker has searched for the claim several times.
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(b.twilio.received).toEqual([]);
    await goOn();
    await expect.poll(b.statuses, POLL).toEqual({ sent: 20 });
    expect(b.twilio.received).toHaveLength(20);
  });

  test('makes claimedBy return claims_open for its own worker only', async () => {
    await using b = await setupMessages();
    const goOn = await stallClaims(b);
    const store = workerStore(b.open('worker', 4), 300, ADDRESS_KEYS);
    const [mine = 0] = await b.accept();
    await expect(store.claim([mine], terms())).rejects.toMatchObject({ fault: 'deadline' });
    // As after the end of its connection: its driver no longer waits for the claim.
    expect(await b.store.claimedBy([mine], terms(), { isLate: false, afterSeq: 0 })).toBe('claims_open');
    const lane = { tenantId: b.tenant.tenantId, accountId: b.accountId, aheadMs: 10_000 };
    expect(await b.store.claimedIn(lane, terms(), 100)).toBe('claims_open');
    // Another start of a worker has claims of its own.
    expect(await b.store.claimedBy([mine], terms({ worker: 'w2' }), { isLate: false, afterSeq: 0 })).toEqual(
      [],
    );
    await goOn();
    await expect
      .poll(() => store.claimedBy([mine], terms(), { isLate: false, afterSeq: 0 }), POLL)
      .toMatchObject([{ seq: mine }]);
  });

  test('makes claimedBy return claims_open while it is still queued in the driver', async () => {
    await using b = await setupMessages();
    const sql = b.open('worker', 1);
    const store = workerStore(sql, 200, ADDRESS_KEYS);
    const [mine = 0] = await b.accept();
    const busy = sql`select pg_sleep(1)`.execute();
    await expect(store.claim([mine], terms())).rejects.toMatchObject({ fault: 'deadline' });
    expect(await store.claimedBy([mine], terms(), { isLate: false, afterSeq: 0 })).toBe('claims_open');
    await busy;
    await expect
      .poll(() => store.claimedBy([mine], terms(), { isLate: false, afterSeq: 0 }), POLL)
      .toMatchObject([{ seq: mine }]);
  });

  test('has its messages claimed again if too little of the lease is left for a call', async () => {
    await using b = await setupWorkers();
    let claims = 0;
    b.startWorker(
      {},
      {
        ...b.store,
        async claim(...args) {
          const claimed = await b.store.claim(...args);
          if (++claims > 1) return claimed;
          await b.admin`update despatch.live_messages set started_at = now() - interval '40 seconds', lease_until = now() + interval '20 seconds'`;
          throw new Error('the answer was lost');
        },
      },
    );
    await b.send(3, { delivery_guarantee: 'at_most_once' });
    await expect.poll(b.statuses, POLL).toEqual({ sent: 3 });
    expect(b.twilio.received).toHaveLength(3);
  });
});
