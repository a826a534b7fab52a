import { describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import { completionOf } from '#test/support/completion-of.ts';
import {
  accepted,
  type MessageBench,
  setupMessages,
  states,
  terms,
  transient,
} from '#test/support/setup-messages.ts';

describe('completions', () => {
  test('an accepted attempt makes the message sent and takes it out of the backlog', async () => {
    await using b = await setupMessages();
    const claimed = await b.store.claim(await b.accept(3), terms());
    const applied = await b.store.complete(claimed.map((m) => completionOf(m, accepted)));
    expect(applied.size).toBe(3);
    expect(await states(b)).toEqual(['sent', 'sent', 'sent']);
    expect(await liveCount(b)).toBe(0);
    expect((await b.gauges.messageTotals()).backlog).toBe(0);
    const [attempt] =
      await b.admin`select outcome, ended_at is not null as ended from despatch.attempts limit 1`;
    expect(attempt).toEqual({ outcome: 'accepted', ended: true });
  });

  test('a second completion of the same attempt changes nothing', async () => {
    await using b = await setupMessages();
    const [message] = await b.store.claim(await b.accept(), terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([completionOf(message, accepted)]);
    expect((await b.store.complete([completionOf(message, transient)])).size).toBe(0);
    expect(await states(b)).toEqual(['sent']);
    expect((await b.gauges.messageTotals()).backlog).toBe(0);
  });

  test('a worker paused past its lease cannot complete a message that has a later attempt', async () => {
    await using b = await setupMessages();
    const [zombie] = await b.store.claim(await b.accept(), terms({ leaseMs: 0 }));
    if (zombie === undefined) throw new Error('not claimed');
    const [lost] = await b.store.lost([zombie.seq]);
    expect(lost).toMatchObject({ action: 'lost', attempt: 1 });
    const startedAt = lost?.ambiguousSince;
    expect(Date.now() - Number(startedAt)).toBeLessThan(60_000);
    if (lost === undefined) throw new Error('not found');
    const failure = { class: 'unknown', code: 'worker_lost' } as const;
    await b.store.complete([{ ...completionOf(lost, { kind: 'ambiguous', failure }), next_attempt_ms: 0 }]);
    const [second] = await b.claimDue(10, 0, { worker: 'w2' });
    expect(second).toMatchObject({ action: 'send', attempt: 2, ambiguous: 1, duplicateRisk: true });
    // Counted from the start of the first ambiguous attempt.
    expect(second?.ambiguousSince).toEqual(startedAt);
    expect((await b.store.complete([completionOf(zombie, accepted)])).size).toBe(0);
    expect(await states(b)).toEqual(['sending']);
  });

  test('a repeated attempt shows whether the account has moved since the first ambiguous one', async () => {
    await using b = await setupMessages();
    const failure = { class: 'unknown', code: 'timeout' } as const;
    const isMoved: (boolean | undefined)[] = [];
    await b.admin`update despatch.provider_accounts set moved_at = now() - interval '1 minute'`;
    let [message] = await b.store.claim(await b.accept(), terms());
    for (let i = 0; i < 2; i++) {
      isMoved.push(message?.isAccountMoved);
      if (message === undefined) throw new Error('not claimed');
      const ambiguous = completionOf(message, { kind: 'ambiguous', failure });
      await b.store.complete([{ ...ambiguous, status: 'deferred', final: false, next_attempt_ms: 0 }]);
      [message] = await b.claimDue(10, 0);
      isMoved.push(message?.isAccountMoved);
      await b.admin`update despatch.provider_accounts set moved_at = now()`;
    }
    expect(isMoved).toEqual([false, false, false, true]);
  });

  test('a late acceptance makes a message sent that was unknown after its lease expired', async () => {
    await using b = await setupMessages();
    const [zombie] = await b.store.claim(
      await b.accept(1, { delivery_guarantee: 'at_most_once' }),
      terms({ leaseMs: 0 }),
    );
    const [lost] = await b.store.lost([zombie?.seq ?? 0]);
    if (zombie === undefined || lost === undefined) throw new Error('not claimed');
    await b.store.complete([
      completionOf(lost, { kind: 'ambiguous', failure: { class: 'unknown', code: 'worker_lost' } }),
    ]);
    expect(await states(b)).toEqual(['unknown']);
    await b.store.complete([completionOf(zombie, accepted)]);
    await b.store.applyReceipts(10, decideReceipts);
    expect(await states(b)).toEqual(['sent']);
  });

  test("a vendor's id with characters that the database does not accept is recorded with all others", async () => {
    await using b = await setupMessages();
    const claimed = await b.store.claim(await b.accept(3), terms());
    const ids = ['a', 'b\0', 'c\ud800'];
    const applied = await b.store.complete(
      claimed.map((m, i) => completionOf(m, { kind: 'accepted', providerMessageId: ids[i] ?? null })),
    );
    expect(applied.size).toBe(3);
    const stored = await b.admin`select provider_message_id as id from despatch.message_results`;
    expect(stored.map(({ id }) => id as string).toSorted()).toEqual(['a', 'b', 'c\ufffd']);
  });

  test('a transiently rejected message is not claimed before its next attempt time', async () => {
    await using b = await setupMessages();
    const wakes = await b.accept();
    const [message] = await b.store.claim(wakes, terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([{ ...completionOf(message, transient), next_attempt_ms: 60_000 }]);
    expect(await b.store.claim(wakes, terms())).toEqual([]);
    await b.admin`update despatch.live_messages set next_attempt_at = now()`;
    expect(await b.store.claim(wakes, terms())).toHaveLength(1);
  });

  test('content with the retention discard is kept until the provider accepts the message', async () => {
    await using b = await setupMessages();
    const wakes = await b.accept(1, { content_retention: 'discard' });
    const [message] = await b.store.claim(wakes, terms());
    if (message === undefined) throw new Error('not claimed');
    await b.store.complete([{ ...completionOf(message, transient), next_attempt_ms: 0 }]);
    const content = async () => (await b.admin`select content from despatch.messages`)[0]?.['content'];
    expect(await content()).toEqual({ body: 'Hello' });
    const [again] = await b.store.claim(wakes, terms());
    if (again === undefined) throw new Error('not claimed');
    await b.store.complete([completionOf(again, accepted)]);
    expect(await content()).toBeNull();
  });
});

const liveCount = async (b: MessageBench): Promise<number> =>
  (await b.admin`select from despatch.live_messages`).length;
