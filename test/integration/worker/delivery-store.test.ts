import { describe, expect, test } from 'vitest';
import type { ClaimedMessage, Completion, ClaimTerms } from '#core/store/deliveries.ts';
import { settle } from '#core/domain/settle.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
import {
  acceptBatch,
  acceptRow,
  moveSuspension,
  seedProvider,
  seedTenant,
  type SeededTenant,
} from '#test/support/seed.ts';
import { setupStores } from '#test/support/worker.ts';
import { toCompletion } from '../../../services/worker/deliver/completion.ts';

const terms = (overrides: Partial<ClaimTerms> = {}): ClaimTerms => ({
  worker: 'w1',
  leaseMs: 60_000,
  blocked: [],
  ...overrides,
});

async function setup() {
  const stores = await setupStores();
  const tenant = await seedTenant(stores.admin);
  const providerId = await seedProvider(stores.admin, tenant.tenantId);
  async function accept(n = 1, overrides: Record<string, unknown> = {}, of: SeededTenant = tenant) {
    const rows = Array.from({ length: n }, () => acceptRow(of, overrides));
    const verdicts = await acceptBatch(stores.api, rows);
    return rows.map((row, i) => ({ id: row['id'] as string, purgeOn: verdicts[i]?.purge_on ?? '' }));
  }
  return {
    ...stores,
    tenant,
    providerId,
    accept,
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

const actionsOf = (claimed: readonly ClaimedMessage[]) => claimed.map(({ action }) => action);

describe('claims', () => {
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
      providerId: b.providerId,
      provider: 'simulator-sms',
      providerVersion: 1,
    });
  });

  test('an expired message ends as expired, and no provider is called', async () => {
    await using b = await setup();
    const wakes = await b.accept(1, { expires_at: new Date(Date.now() - 1_000).toISOString() });
    expect(actionsOf(await b.store.claim(wakes, terms()))).toEqual(['expired']);
    expect(await states(b)).toEqual(['expired']);
    expect(await dueCount(b)).toBe(0);
  });

  test('a message whose channel lost its last provider fails as no_route', async () => {
    await using b = await setup();
    const wakes = await b.accept();
    await b.admin`update despatch.providers set status = 'disabled'`;
    expect(actionsOf(await b.store.claim(wakes, terms()))).toEqual(['no_route']);
    const [row] = await b.admin`select status, failure ->> 'class' as class from despatch.message_states`;
    expect(row).toEqual({ status: 'failed', class: 'no_route' });
  });

  test('a blocked provider keeps its messages waiting without an attempt', async () => {
    await using b = await setup();
    const wakes = await b.accept(2);
    expect(await b.store.claim(wakes, terms({ blocked: [b.providerId] }))).toEqual([]);
    expect(await states(b)).toEqual(['queued', 'queued']);
    const [attempts] = await b.admin`select count(*) as n from despatch.attempts`;
    expect(attempts?.['n']).toBe(0);
  });

  test('a test-mode message needs no provider', async () => {
    await using b = await setup();
    const other = await seedTenant(b.admin);
    const [message] = await b.store.claim(await b.accept(1, { test: true }, other), terms());
    expect(message).toMatchObject({ providerId: null, provider: 'simulator-sms' });
  });

  test("a provider's rate is shared by all workers, counted in segments", async () => {
    await using b = await setup();
    await b.admin`update despatch.providers set rate_limit_per_second = 10`;
    const wakes = await b.accept(12, { segments: 2 });
    const started = Date.now();
    const first = await Promise.all([
      b.store.claim(wakes.slice(0, 6), terms()),
      b.store.claim(wakes.slice(6), terms()),
    ]);
    // Two calls may straddle a second's edge, never more than two seconds' worth.
    const seconds = Math.floor(Date.now() / 1000) - Math.floor(started / 1000) + 1;
    expect(first.flat().length).toBeLessThanOrEqual(5 * seconds);
    expect(first.flat().length).toBeGreaterThanOrEqual(5);
    const [row] = await b.admin`select count(*) as n from despatch.message_states where retries > 0`;
    expect(row?.['n']).toBe(0);
  });
});

describe('completions', () => {
  test('an accepted attempt makes the message sent and takes it out of the backlog', async () => {
    await using b = await setup();
    const claimed = await b.store.claim(await b.accept(3), terms());
    const applied = await b.store.complete(claimed.map((m) => completion(m, accepted)));
    expect(applied.size).toBe(3);
    expect(await states(b)).toEqual(['sent', 'sent', 'sent']);
    expect(await dueCount(b)).toBe(0);
    expect(await b.store.backlogTotals()).toMatchObject({ backlog: 0 });
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
    expect(await b.store.backlogTotals()).toMatchObject({ backlog: 0 });
  });

  test('a worker paused past its lease cannot overwrite what came after it', async () => {
    await using b = await setup();
    const [zombie] = await b.store.claim(await b.accept(), terms({ leaseMs: 0 }));
    if (zombie === undefined) throw new Error('not claimed');
    const [lost] = (await b.store.claimDue(b.tenant.tenantId, 10, 10_000, terms({ worker: 'w2' }))).messages;
    expect(lost).toMatchObject({ action: 'lost', attempt: 1 });
    if (lost === undefined) throw new Error('not found');
    const failure = { class: 'unknown', code: 'worker_lost' } as const;
    await b.store.complete([{ ...completion(lost, { kind: 'ambiguous', failure }), next_attempt_ms: 0 }]);
    const [second] = (await b.store.claimDue(b.tenant.tenantId, 10, 0, terms({ worker: 'w2' }))).messages;
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
    const [lost] = (await b.store.claimDue(b.tenant.tenantId, 10, 10_000, terms())).messages;
    if (zombie === undefined || lost === undefined) throw new Error('not claimed');
    await b.store.complete([
      completion(lost, { kind: 'ambiguous', failure: { class: 'unknown', code: 'worker_lost' } }),
    ]);
    expect(await states(b)).toEqual(['unknown']);
    await b.store.complete([completion(zombie, accepted)]);
    await b.store.applyReceipts(10);
    expect(await states(b)).toEqual(['sent']);
  });

  test('a transient rejection waits for its time in the database', async () => {
    await using b = await setup();
    const wakes = await b.accept();
    const [message] = await b.store.claim(wakes, terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([{ ...completion(message, transient), next_attempt_ms: 60_000 }]);
    expect(await b.store.claim(wakes, terms())).toEqual([]);
    await b.admin`update despatch.message_states set next_attempt_at = now()`;
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
    await b.admin`insert into despatch.receipts (tenant_id, message_id, purge_on, attempt, receipt, temporary, apply_at)
      values (${m.tenantId}, ${m.id}, ${m.purgeOn}, ${attempt}, ${receipt}, ${temporary}, now())`;
    await b.store.applyReceipts(10);
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
      expect(await dueCount(b)).toBe(0);
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
      await b.admin`select round(extract(epoch from due_at - now()) / 3600)::int as hours from despatch.due`;
    expect(due?.['hours']).toBe(72);
    await b.admin`update despatch.due set due_at = now()`;
    await b.store.claimDue(b.tenant.tenantId, 10, 0, terms());
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
    await b.store.applyReceipts(10);
    expect(await states(b)).toEqual(['delivered']);
  });
});

describe('looks into the database', () => {
  test('a look says that there is more than it was asked for, and when there is not', async () => {
    await using b = await setup();
    await b.accept(5);
    const look = () => b.store.claimDue(b.tenant.tenantId, 2, 10_000, terms());
    const looks = [await look(), await look(), await look()];
    expect(looks.map(({ messages, more }) => [messages.length, more])).toEqual([
      [2, true],
      [2, true],
      [1, false],
    ]);
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
    await b.admin`update despatch.message_states set held_at = held_at - interval '2 hours'`;
    const expiry = async () =>
      (await b.admin`select min(expires_at) as at from despatch.message_states`)[0]?.['at'] as Date;
    const before = await expiry();
    await moveSuspension(b.admin, b.tenant.tenantId, null);
    expect(await b.store.dueTenants()).toEqual([{ tenantId: b.tenant.tenantId, task: 'release' }]);
    expect(await b.store.releaseTenant(b.tenant.tenantId, 100)).toBe(3);
    expect(await states(b)).toEqual(['queued', 'queued', 'queued']);
    expect((await expiry()).getTime() - before.getTime()).toBeGreaterThanOrEqual(2 * 3_600_000);
    expect((await b.store.claimDue(b.tenant.tenantId, 10, 0, terms())).messages).toHaveLength(3);
  });

  test('a claim of a suspended tenant holds instead of sending', async () => {
    await using b = await setup();
    const wakes = await b.accept();
    await moveSuspension(b.admin, b.tenant.tenantId, 'abuse');
    expect(await b.store.claim(wakes, terms())).toEqual([]);
    expect(await states(b)).toEqual(['held']);
  });
});

describe('provider accounts', () => {
  test('three refusals in a row make an account invalid, one success in between does not', async () => {
    await using b = await setup();
    const refuse = () => b.store.noteProviderResult(b.providerId, 1, 'forbidden');
    expect([await refuse(), await refuse()]).toEqual([null, null]);
    expect(await b.store.noteProviderResult(b.providerId, 1, null)).toBe('active');
    expect([await refuse(), await refuse(), await refuse()]).toEqual([null, null, 'invalid']);
    expect(await invalidated(b)).toEqual({
      status: 'invalid',
      status_reason: 'forbidden',
      verified_at: null,
    });
    expect(await b.store.noteProviderResult(b.providerId, 1, null)).toBe('active');
    expect(await invalidated(b)).toEqual({
      status: 'active',
      status_reason: null,
      verified_at: expect.any(Date) as Date,
    });
  });

  test('what a send found out says nothing about settings or a secret that came after it', async () => {
    await using b = await setup();
    await b.admin`update despatch.providers set version = 2, auth_failures = 2`;
    expect(await b.store.noteProviderResult(b.providerId, 1, 'forbidden')).toBeNull();
    expect(await b.store.noteProviderResult(b.providerId, 1, null)).toBeNull();
    expect(await invalidated(b)).toEqual({ status: 'unverified', status_reason: null, verified_at: null });
  });

  test('a credential check that nobody answered is handed out again, an answered one is not', async () => {
    await using b = await setup();
    await b.admin`update despatch.providers set verify_requested_at = now()`;
    const asked = await b.store.takeVerifications(10);
    expect(asked).toEqual([b.providerId]);
    expect(await b.store.takeVerifications(10)).toEqual([]);
    await b.admin`update despatch.providers set verify_requested_at = now()`;
    expect(await b.store.takeVerifications(10)).toHaveLength(1);
    await b.store.noteVerification(b.providerId, 1, 'unknown', 'timeout');
    const [row] = await b.admin`select status, verify_requested_at from despatch.providers`;
    expect(row).toEqual({ status: 'unverified', verify_requested_at: null });
  });

  test('a credential check ends with a word, and an account that it finds invalid has no time of verification', async () => {
    await using b = await setup();
    const verified = async (result: 'valid' | 'invalid' | 'unknown', reason: string | null) => {
      const moved = await b.store.noteVerification(b.providerId, 1, result, reason);
      const [row] = await b.admin`
        select status, status_reason, verification_result, verification_reason, verified_at is not null as verified
        from despatch.providers`;
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
    await b.admin`update despatch.providers set version = 2, verify_requested_at = now()`;
    expect(await b.store.noteVerification(b.providerId, 1, 'valid', null)).toBeNull();
    expect(await b.store.noteVerification(b.providerId, 1, 'invalid', 'unauthorized')).toBeNull();
    expect(await invalidated(b)).toEqual({ status: 'unverified', status_reason: null, verified_at: null });
    expect(await b.store.takeVerifications(10)).toEqual([b.providerId]);
  });

  test('a disabled account is not checked', async () => {
    await using b = await setup();
    await b.admin`update despatch.providers set status = 'disabled', verify_requested_at = now()`;
    expect(await b.store.takeVerifications(10)).toEqual([]);
    expect(await b.store.noteVerification(b.providerId, 1, 'valid', null)).toBeNull();
  });

  test('messages that waited for an account are due at once when it is mended', async () => {
    await using b = await setup();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    const refused: AttemptOutcome = {
      kind: 'rejected_transient',
      failure: { class: 'auth_or_config', code: 'unauthorized' },
    };
    await b.store.complete([completion(message, refused)]);
    expect((await b.store.claimDue(b.tenant.tenantId, 10, 0, terms())).messages).toEqual([]);
    await b.store.noteVerification(b.providerId, 1, 'valid', null);
    expect((await b.store.claimDue(b.tenant.tenantId, 10, 0, terms())).messages).toMatchObject([
      { retries: 0, attempt: 2 },
    ]);
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
  const [row] = await b.admin`select status, status_reason, verified_at from despatch.providers`;
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

async function dueCount(b: Bench): Promise<number> {
  const [row] = await b.admin<{ n: number }[]>`select count(*) as n from despatch.due`;
  return row?.n ?? -1;
}
