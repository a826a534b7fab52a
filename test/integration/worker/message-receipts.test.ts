import { randomUUID } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { RECEIPT_TIMEOUT_MS } from '#core/domain/sending/settle.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { WaitingRow } from '#core/store/sending/lane.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { seedAccount } from '#test/support/seed.ts';
import { accepted, type MessageBench, setupMessages, states, terms } from '#test/support/setup-messages.ts';
import { resolveWaiting } from '../../../services/worker/claim/resolve-waiting.ts';

describe('receipts', () => {
  async function sent(b: MessageBench) {
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([completionOf(message, accepted, { receiptsExpected: true })]);
    return message;
  }
  async function receive(
    b: MessageBench,
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
      await using b = await setupMessages();
      const message = await sent(b);
      for (const receipt of receipts) await receive(b, message, receipt);
      expect(await states(b)).toEqual([end]);
      const [logged] = await b.admin`select count(*) as n from despatch.events where source = 'receipt'`;
      expect(logged?.['n']).toBe(receipts.length);
      expect(await awaitedCount(b)).toBe(0);
    },
  );

  test('a temporary failure may still turn into delivered', async () => {
    await using b = await setupMessages();
    const message = await sent(b);
    await receive(b, message, 'undelivered', true);
    expect(await states(b)).toEqual(['undelivered']);
    await receive(b, message, 'delivered');
    expect(await states(b)).toEqual(['delivered']);
  });

  test('a message that expires after an unanswered call is unknown, and a late receipt counts', async () => {
    await using b = await setupMessages();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    const lost: AttemptOutcome = { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } };
    await b.store.complete([completionOf(message, lost, { receiptsExpected: true })]);
    expect(await states(b)).toEqual(['deferred']);
    await b.admin`update despatch.live_messages set expires_at = now(), due_at = now()`;
    const endedUncalled = vi.fn<(row: WaitingRow, reason: string) => void>();
    const deps = { store: b.store, endedUncalled, failedOver: () => undefined };
    await resolveWaiting(await b.store.findWaiting([message.seq]), deps);
    expect(endedUncalled).toHaveBeenCalledExactlyOnceWith(expect.anything(), 'unknown');
    const result = async () =>
      (
        await b.admin`select status, reason, failure ->> 'code' as code, final from despatch.message_results`
      )[0];
    const unknown = { status: 'unknown', reason: 'ambiguous_attempt', code: 'timeout', final: false };
    expect(await result()).toEqual(unknown);
    const [told] = await b.admin`
      select type, source, details ->> 'reason' as reason, details -> 'failure' ->> 'code' as code
      from despatch.event_log where type = 'message.unknown'`;
    expect(told).toEqual({
      type: 'message.unknown',
      source: 'worker',
      reason: 'ambiguous_attempt',
      code: 'timeout',
    });
    // After a minute, a provider that can be asked is asked about the call.
    expect(
      await b.admin`select (a.due_at - r.completed_at)::text as wait from despatch.awaited_receipts a
        join despatch.message_results r using (seq)`,
    ).toEqual([{ wait: '00:01:00' }]);
    await b.admin`update despatch.awaited_receipts set due_at = now()`;
    await b.store.expireReceipts(10, ['simulator-sms'], RECEIPT_TIMEOUT_MS);
    expect(await b.admin`select seq, account_id from despatch.lookups`).toEqual([
      { seq: message.seq, account_id: b.accountId },
    ]);
    await receive(b, message, 'delivered');
    expect(await result()).toMatchObject({ status: 'delivered', code: null });
  });

  test('a report that proves an unanswered call awaits the next one for as long as any other', async () => {
    await using b = await setupMessages();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    const lost: AttemptOutcome = { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } };
    await b.store.complete([completionOf(message, lost, { receiptsExpected: true })]);
    await b.store.moveMessages([message.seq], 'unknown', null, 'ambiguous_attempt');
    await b.admin`insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, message_id, provider_message_id,
        receipt, verified, report_key, apply_at)
      values (${message.tenantId}, ${message.accountId}, ${message.seq}, ${message.purgeOn}, ${message.id}, 'p-1', 'sent', true,
        ${randomUUID()}, now())`;
    await b.store.applyReceipts(10, decideReceipts);
    expect(await states(b)).toEqual(['sent']);
    expect(
      await b.admin`select round(extract(epoch from due_at - now()) / 3600)::int as hours from despatch.awaited_receipts`,
    ).toEqual([{ hours: 72 }]);
  });

  test('a message without a receipt becomes unknown after 72 hours, and a late receipt still counts', async () => {
    await using b = await setupMessages();
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

  test('a receipt that arrives before its attempt is completed is kept and applied later', async () => {
    await using b = await setupMessages();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    await receive(b, message, 'delivered');
    expect(await states(b)).toEqual(['sending']);
    await b.store.complete([completionOf(message, accepted, { receiptsExpected: true })]);
    await b.admin`update despatch.receipts set apply_at = now()`;
    await b.store.applyReceipts(10, decideReceipts);
    expect(await states(b)).toEqual(['delivered']);
  });
});

test("a vendor's timestamp counts only between message acceptance and report arrival", async () => {
  await using b = await setupMessages();
  const [message] = await b.store.claim(await b.accept(), terms());
  if (message === undefined) throw new Error('not claimed');
  await b.store.complete([completionOf(message, accepted, { receiptsExpected: true })]);
  await b.admin`update despatch.messages set enqueued_at = now() - interval '1 hour'`;
  const times = { opened: '2 hours', clicked: '30 minutes', complained: '-10 minutes' } as const;
  for (const [engagement, ago] of Object.entries(times)) {
    await b.admin`insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, engagement, happened_at, apply_at)
      values (${message.tenantId}, ${message.accountId}, ${message.seq}, ${message.purgeOn}, ${engagement},
        now() - ${ago}::interval, now())`;
  }
  await b.store.applyReceipts(10, decideReceipts);
  const [row] = await b.admin<
    { engagement: Record<string, number> }[]
  >`select engagement from despatch.message_results`;
  const minutesAgo = Object.entries(row?.engagement ?? {}).map(([name, at]) => [
    name,
    Math.round((Date.now() - at) / 60_000),
  ]);
  expect(Object.fromEntries(minutesAgo)).toEqual({ opened: 0, clicked: 30, complained: 0 });
});

describe('a receipt for a message that waits for its second call', () => {
  const timeout: AttemptOutcome = { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } };

  /** Accepts a message that waits for its second call, because its first one had no answer. */
  async function deferred(b: MessageBench, overrides: Record<string, unknown> = {}) {
    const [seq] = await b.accept(1, overrides);
    const [message] = await b.store.claim([seq ?? 0], terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([completionOf(message, timeout)]);
    expect(await states(b)).toEqual(['deferred']);
    return message;
  }
  async function report(b: MessageBench, m: ClaimedMessage, receipt: string) {
    await b.admin`insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, message_id, provider_message_id,
        receipt, verified, report_key, apply_at)
      values (${m.tenantId}, ${m.accountId}, ${m.seq}, ${m.purgeOn}, ${m.id}, 'p-1', ${receipt}, true, ${randomUUID()}, now())`;
    await b.store.applyReceipts(10, decideReceipts);
  }
  const record = async (b: MessageBench) => (await b.admin`select * from despatch.message_states`)[0] ?? {};
  const events = async (b: MessageBench) =>
    (
      await b.admin<{ type: string; source: string; applied: boolean }[]>`
      select type, source, applied from despatch.events order by event_seq`
    ).map(({ type, source, applied }) => `${type} ${source} ${applied}`);
  const again = (b: MessageBench) =>
    b.admin`update despatch.live_messages set next_attempt_at = now(), due_at = now()`;

  test('ends the message if it reports the delivery, and prevents the second call', async () => {
    await using b = await setupMessages();
    const message = await deferred(b, { content_retention: 'discard' });
    await report(b, message, 'delivered');
    expect(await record(b)).toMatchObject({
      status: 'delivered',
      reason: null,
      failure: null,
      final: true,
      account_id: b.accountId,
      provider: 'simulator-sms',
      provider_message_id: 'p-1',
      attempt: 1,
      sent_at: expect.any(Date),
      delivered_at: expect.any(Date),
      completed_at: expect.any(Date),
    });
    expect(await events(b)).toEqual([
      'message.deferred worker true',
      'message.sent receipt true',
      'message.delivered receipt true',
    ]);
    // Once, as for a message that no second call waited for: the brakes count it.
    expect(await b.admin`select tells from despatch.usage_moves where tells is not null`).toEqual([
      { tells: 'final' },
    ]);
    await again(b);
    expect(await b.store.claim([message.seq], terms())).toEqual([]);
    expect((await b.gauges.messageTotals()).backlog).toBe(0);
    expect((await b.admin`select content from despatch.messages`)[0]?.['content']).toBeNull();
    expect(await b.admin`select from despatch.receipts`).toHaveLength(0);
    expect(await b.admin`select from despatch.awaited_receipts`).toHaveLength(0);
  });

  const notStarted: AttemptOutcome = { kind: 'not_started', reason: 'shutdown' };
  const refused: AttemptOutcome = {
    kind: 'rejected_transient',
    failure: { class: 'provider_throttled', code: 'rate_limited' },
  };
  test.each([
    { status: 'sent', after: 'made no call', outcome: notStarted },
    { status: 'undelivered', after: 'made no call', outcome: notStarted },
    { status: 'sent', after: 'was refused', outcome: refused },
    { status: 'undelivered', after: 'was refused', outcome: refused },
  ])(
    "'$status' about an unanswered call decides although a later attempt $after",
    async ({ status, outcome }) => {
      await using b = await setupMessages();
      const message = await deferred(b);
      await again(b);
      const [claimed] = await b.store.claim([message.seq], terms());
      if (claimed === undefined) throw new Error('not claimed');
      await b.store.complete([completionOf(claimed, outcome)]);
      await report(b, message, status);
      expect(await states(b)).toEqual([status]);
      await again(b);
      expect(await b.store.claim([message.seq], terms())).toEqual([]);
    },
  );

  test('makes the message sent if it reports acceptance, and the next receipt is awaited', async () => {
    await using b = await setupMessages();
    const message = await deferred(b);
    await report(b, message, 'sent');
    expect(await record(b)).toMatchObject({
      status: 'sent',
      reason: null,
      final: false,
      sent_at: expect.any(Date),
      completed_at: null,
    });
    expect(await events(b)).toEqual(['message.deferred worker true', 'message.sent receipt true']);
    expect(await b.admin`select from despatch.awaited_receipts`).toHaveLength(1);
    await report(b, message, 'delivered');
    expect(await states(b)).toEqual(['delivered']);
    expect(await b.admin`select from despatch.awaited_receipts`).toHaveLength(0);
  });

  test("stores the provider's id, by which later receipts without our id are matched", async () => {
    await using b = await setupMessages();
    const message = await deferred(b);
    await report(b, message, 'sent');
    await b.admin`insert into despatch.receipts (tenant_id, account_id, provider_message_id, receipt, verified, report_key,
        apply_at)
      values (${message.tenantId}, ${message.accountId}, 'p-1', 'delivered', true, 'k', now())`;
    await b.store.applyReceipts(10, decideReceipts);
    expect(await states(b)).toEqual(['delivered']);
  });

  test('is applied after the second call if it arrives during that call', async () => {
    await using b = await setupMessages();
    const message = await deferred(b);
    await again(b);
    const [second] = await b.store.claim([message.seq], terms());
    if (second === undefined) throw new Error('not claimed');
    await report(b, message, 'delivered');
    expect([await states(b), await events(b)]).toEqual([['sending'], ['message.deferred worker true']]);
    await b.store.complete([completionOf(second, timeout)]);
    expect(await states(b)).toEqual(['unknown']);
    await b.admin`update despatch.receipts set apply_at = now()`;
    await b.store.applyReceipts(10, decideReceipts);
    expect(await states(b)).toEqual(['delivered']);
  });

  test('is put off while another transaction locks the message, and is applied later', async () => {
    await using b = await setupMessages();
    const message = await deferred(b);
    await b.admin.begin(async (tx) => {
      await tx`select from despatch.live_messages for update`;
      await report(b, message, 'delivered');
    });
    expect(await states(b)).toEqual(['deferred']);
    await b.admin`update despatch.receipts set apply_at = now()`;
    await b.store.applyReceipts(10, decideReceipts);
    expect(await states(b)).toEqual(['delivered']);
  });

  test('is stored for a late acceptance by a worker with an expired lease, and makes it sent', async () => {
    await using b = await setupMessages();
    const [zombie] = await b.store.claim(await b.accept(), terms({ leaseMs: 0 }));
    const [lost] = await b.store.lost([zombie?.seq ?? 0]);
    if (zombie === undefined || lost === undefined) throw new Error('not claimed');
    await b.store.complete([completionOf(lost, timeout)]);
    await b.store.complete([completionOf(zombie, accepted)]);
    await b.store.applyReceipts(10, decideReceipts);
    // The status is final: this provider sends no reports.
    expect(await record(b)).toMatchObject({ status: 'sent', final: true, provider_message_id: null });
    expect(await b.admin`select from despatch.awaited_receipts`).toHaveLength(0);
  });
});

describe('receipts of a message that was sent twice', () => {
  /** Sends a message twice: its first call had no answer, and the second one returned the provider's id. */
  async function twice(b: MessageBench, overrides: Record<string, unknown> = {}) {
    const seqs = await b.accept(1, overrides);
    const timeout: AttemptOutcome = { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } };
    for (const outcome of [timeout, accepted]) {
      await b.admin`update despatch.live_messages set next_attempt_at = now()`;
      const [message] = await b.store.claim(seqs, terms());
      if (message === undefined) throw new Error('not claimed');
      await b.store.complete([completionOf(message, outcome, { receiptsExpected: true })]);
    }
    const [row] = await b.admin`select tenant_id, seq, purge_on, id from despatch.messages`;
    const record = async () =>
      (await b.admin`select status, final, late_bounce, attempt from despatch.message_states`)[0];
    const report = async (vendorId: string | null, receipt: string, segment: string | null = null) => {
      await b.admin`insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, message_id,
          provider_message_id, receipt, segment, verified, report_key, apply_at)
        values (${row?.['tenant_id']}, ${b.accountId}, ${row?.['seq']}, ${row?.['purge_on']}, ${row?.['id']}, ${vendorId},
          ${receipt}, ${segment}, true, ${randomUUID()}, now())`;
      await b.store.applyReceipts(10, decideReceipts);
      return record();
    };
    const attemptsTold = async () =>
      (
        await b.admin<{ attempt: number | null }[]>`
          select (details ->> 'attempt')::integer as attempt from despatch.event_log order by event_seq`
      ).map(({ attempt }) => attempt);
    return { report, attemptsTold };
  }

  test("are matched to its calls by the provider's id; it is undelivered if the second is", async () => {
    await using b = await setupMessages();
    const { report, attemptsTold } = await twice(b);
    expect(await report('of-the-first', 'undelivered')).toMatchObject({ status: 'sent', final: false });
    expect(await report('p-1', 'undelivered')).toMatchObject({ status: 'undelivered', final: true });
    expect(await attemptsTold()).toEqual([1, 2]);
  });

  test('make it delivered if its first call was, even after a failure of the second one', async () => {
    await using b = await setupMessages();
    const { report } = await twice(b);
    expect(await report('p-1', 'undelivered')).toMatchObject({ status: 'undelivered' });
    expect(await report('of-the-first', 'delivered')).toMatchObject({
      status: 'delivered',
      late_bounce: false,
    });
    expect(await report('p-1', 'undelivered')).toMatchObject({ status: 'delivered', late_bounce: false });
    expect(await report('of-the-first', 'undelivered')).toMatchObject({ late_bounce: true });
  });

  test('that match neither call count by segment and make it delivered once that is certain', async () => {
    await using b = await setupMessages();
    const { report, attemptsTold } = await twice(b, { segments: 2 });
    expect(await report('part-1', 'delivered', 'part-1')).toMatchObject({ status: 'sent' });
    expect(await report('p-1', 'delivered', 'p-1')).toMatchObject({ status: 'sent' });
    expect(await report('part-2', 'delivered', 'part-2')).toMatchObject({ status: 'delivered' });
    expect(await attemptsTold()).toEqual([null, 2, null]);
  });
});

describe('receipts of a message whose repeated call was refused', () => {
  const outcomes: readonly AttemptOutcome[] = [
    { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } },
    { kind: 'rejected_permanent', failure: { class: 'content_rejected', code: 'duplicate' } },
  ];

  test.each([
    { receipts: ['delivered'], ends: ['delivered'] },
    { receipts: ['undelivered'], ends: ['undelivered'] },
    { receipts: ['sent', 'undelivered'], ends: ['sent', 'undelivered'] },
    { receipts: ['sent', 'delivered'], ends: ['sent', 'delivered'] },
  ])('$receipts for the unanswered call move it to $ends', async ({ receipts, ends }) => {
    await using b = await setupMessages();
    const seqs = await b.accept();
    for (const outcome of outcomes) {
      await b.admin`update despatch.live_messages set next_attempt_at = now(), due_at = now()`;
      const [message] = await b.store.claim(seqs, terms());
      if (message === undefined) throw new Error('not claimed');
      await b.store.complete([completionOf(message, outcome, { receiptsExpected: true })]);
    }
    const record = async () => (await b.admin`select * from despatch.message_states`)[0];
    expect(await record()).toMatchObject({
      status: 'unknown',
      reason: 'ambiguous_attempt',
      final: false,
      attempt: 2,
      failure: { code: 'duplicate' },
    });
    const [row] = await b.admin`select tenant_id, seq, purge_on, id from despatch.messages`;
    const found: unknown[] = [];
    for (const receipt of receipts) {
      await b.admin`insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, message_id,
          provider_message_id, receipt, verified, report_key, apply_at)
        values (${row?.['tenant_id']}, ${b.accountId}, ${row?.['seq']}, ${row?.['purge_on']}, ${row?.['id']}, 'p-1',
          ${receipt}, true, ${randomUUID()}, now())`;
      await b.store.applyReceipts(10, decideReceipts);
      found.push((await record())?.['status']);
    }
    expect(found).toEqual(ends);
  });
});

test('a late receipt makes an unknown message sent; the next timeout makes it unknown again', async () => {
  await using b = await setupMessages();
  const [message] = await b.store.claim(await b.accept(1, { delivery_guarantee: 'at_most_once' }), terms());
  if (message === undefined) throw new Error('not claimed');
  await b.store.complete([
    completionOf(message, { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } }),
  ]);
  expect(await states(b)).toEqual(['unknown']);
  await b.admin`insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, receipt, apply_at)
    values (${message.tenantId}, ${message.accountId}, ${message.seq}, ${message.purgeOn}, 'sent', now())`;
  await b.store.applyReceipts(10, decideReceipts);
  const [row] = await b.admin`select status, completed_at, sent_at from despatch.message_results`;
  expect(row).toMatchObject({ status: 'sent', completed_at: null, sent_at: expect.any(Date) });
  await b.admin`update despatch.awaited_receipts set due_at = now()`;
  expect(await b.store.expireReceipts(10, [], RECEIPT_TIMEOUT_MS)).toMatchObject({ seen: 1 });
  expect(await states(b)).toEqual(['unknown']);
});

const awaitedCount = async (b: MessageBench): Promise<number> =>
  (await b.admin`select from despatch.awaited_receipts`).length;

test('a late report of an earlier account does not replace the account whose acceptance is stored', async () => {
  await using b = await setupMessages();
  const [message] = await b.store.claim(await b.accept(), terms());
  if (message === undefined) throw new Error('not claimed');
  const first = await seedAccount(b.admin, message.tenantId, { provider: 'webhook-sms' });
  const outcome: AttemptOutcome = { kind: 'accepted', providerMessageId: 'second' };
  await b.store.complete([completionOf(message, outcome, { receiptsExpected: true })]);
  await b.admin`update despatch.message_results set status = 'unknown', reason = 'receipt_timeout', attempt = 2`;
  await b.admin`
    insert into despatch.attempt_log (message_seq, event_seq, started_at, ended_at, purge_on, number, worker, tenant_id,
      account_id, provider, outcome, message_status, provider_message_id)
    values (${message.seq}, 1, now(), now(), ${message.purgeOn}, 1, 1, ${message.tenantId}, ${first}, 'webhook-sms', 'accepted',
      'queued', 'first')`;
  const providers: string[] = [];
  const report = async (accountId: string | null, vendorId: string, receipt: string) => {
    await b.admin`insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, message_id, provider_message_id,
        receipt, verified, report_key, apply_at)
      values (${message.tenantId}, ${accountId}, ${message.seq}, ${message.purgeOn}, ${message.id}, ${vendorId}, ${receipt}, true,
        ${randomUUID()}, now())`;
    const { results } = await b.store.applyReceipts(10, decideReceipts);
    providers.push(...results.map(({ provider, result }) => `${provider} ${result}`));
    const [row] =
      await b.admin`select status, account_id, provider, provider_message_id from despatch.message_results`;
    return row;
  };
  const accountOfSecond = {
    account_id: message.accountId,
    provider: message.provider,
    provider_message_id: 'second',
  };
  expect(await report(first, 'first', 'delivered')).toEqual({ status: 'delivered', ...accountOfSecond });
  expect(await report(message.accountId, 'second', 'delivered')).toEqual({
    status: 'delivered',
    ...accountOfSecond,
  });
  expect(providers).toEqual(['webhook-sms applied', `${message.provider} applied`]);
});
