import { describe, expect, test } from 'vitest';
import { attemptOf, partsOf, seqsOf, setupWebhooks, succeeded, upTo } from '#test/support/setup-webhooks.ts';

describe('webhook completions', () => {
  test('store a failed event in a row of its own with its retry time, and log each call', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.send(3);
    const [claimed] = (await b.match(1)).claims;
    if (claimed === undefined) throw new Error('nothing was claimed');
    const attempts = [attemptOf(claimed, 1, true), attemptOf(claimed, 2, false)];
    const later = new Date(Date.now() + 3_600_000);
    const again = [{ seq: 2, attempts: 1, dueAt: later, messageSeq: null }];
    const uncalled = [{ first: 3, last: 3 }];
    expect(await b.webhooks.completeDeliveries([{ ...partsOf(claimed), attempts, again, uncalled }])).toEqual(
      {
        stale: 0,
      },
    );
    expect(await b.due(id)).toMatchObject([
      { first: 2, last: 2 },
      { first: 3, last: 3 },
    ]);
    const now = await b.claims();
    expect(seqsOf(now)).toEqual([3]);
    expect(now[0]?.attempts).toBe(0);
    await b.admin`update despatch.due_deliveries set due_at = now() where first_seq = 2`;
    const [second] = await b.claims();
    expect(second).toMatchObject({ attempts: 1, events: [{ seq: 2 }] });
    const logged = await b.admin`
      select seq, attempt, status, error, answer, duration_ms, succeeded from despatch.delivery_attempts order by seq`;
    const one = { attempt: 1, error: null, answer: 'ok', duration_ms: 12 };
    expect(logged).toEqual([
      { ...one, seq: 1, status: 200, succeeded: true },
      { ...one, seq: 2, status: 503, succeeded: false },
    ]);
  });

  test('leave uncalled events in ranges that are still due', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.send(60);
    const [claim] = (await b.match(1)).claims;
    if (claim === undefined) throw new Error('nothing was claimed');
    const again = [{ seq: 1, attempts: 1, dueAt: new Date(Date.now() + 3_600_000), messageSeq: null }];
    const attempts = [attemptOf(claim, 1, false), attemptOf(claim, 40, true)];
    const uncalled = [
      { first: 2, last: 39 },
      { first: 41, last: 60 },
    ];
    await b.webhooks.completeDeliveries([{ ...partsOf(claim), attempts, again, uncalled }]);
    expect(await b.due(id)).toMatchObject([
      { first: 1, last: 1 },
      { first: 2, last: 39, isClaimed: false },
      { first: 41, last: 60, isClaimed: false },
    ]);
    const claimed = await b.claims();
    expect(seqsOf(claimed).toSorted((x, y) => x - y)).toEqual([...upTo(39, 2), ...upTo(60, 41)]);
    expect(claimed.map(({ attempts: made }) => made)).toEqual([0, 0]);
  });

  test('leave an uncalled retry of an ordered endpoint unchanged, with its attempts', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ ordered: true });
    const [x = 0] = await b.send(1);
    await b.admin`select despatch.move_messages(${[x]}::bigint[], 'expired', null)`;
    await b.number();
    await b.match();
    const [claim] = await b.claims();
    if (claim === undefined) throw new Error('nothing was claimed');
    const again = [
      { seq: 1, attempts: 1, dueAt: new Date(), messageSeq: x },
      { seq: 2, attempts: 0, dueAt: 'after_earlier' as const, messageSeq: x },
    ];
    await b.webhooks.completeDeliveries([
      { ...partsOf(claim), attempts: [attemptOf(claim, 1, false)], again, uncalled: [] },
    ]);
    const back = async () => {
      const [retry] = await b.claims();
      if (retry === undefined) throw new Error('nothing was claimed');
      expect(retry).toMatchObject({ attempts: 1, events: [{ seq: 1, messageSeq: x }] });
      const uncalled = [{ first: 1, last: 1 }];
      await b.webhooks.completeDeliveries([{ ...partsOf(retry), attempts: [], again: [], uncalled }]);
    };
    await back();
    // The later event still waits for the first one.
    await back();
    expect(await b.due(id)).toMatchObject([
      { first: 1, last: 1 },
      { first: 2, last: 2 },
    ]);
  });

  test('keep the order per message: later events wait for a failed one, other messages do not', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ ordered: true });
    const [x = 0, y = 0] = await b.send(2);
    await b.match();
    const [first] = await b.claims();
    if (first === undefined) throw new Error('nothing was claimed');
    expect(first.blocked.size).toBe(0);
    // Another event of x and y comes while the first claim is under way.
    await b.admin`select despatch.move_messages(${[x, y]}::bigint[], 'expired', null)`;
    await b.number();
    await b.match();
    expect(await b.claims()).toEqual([]);
    // The first event of x fails.
    const retry = { seq: 1, attempts: 1, dueAt: new Date(Date.now() + 3_600_000), messageSeq: x };
    await b.webhooks.completeDeliveries([
      {
        ...partsOf(first),
        attempts: [attemptOf(first, 1, false), attemptOf(first, 2, true)],
        again: [retry],
        uncalled: [],
      },
    ]);
    const [second] = await b.claims();
    if (second === undefined) throw new Error('nothing was claimed');
    expect(second.events.map(({ seq, messageSeq }) => [seq, messageSeq])).toEqual([
      [3, x],
      [4, y],
    ]);
    expect([...second.blocked]).toEqual([x]);
    const behind = { seq: 3, attempts: 0, dueAt: 'after_earlier' as const, messageSeq: x };
    await b.webhooks.completeDeliveries([
      { ...partsOf(second), attempts: [attemptOf(second, 4, true)], again: [behind], uncalled: [] },
    ]);
    expect(await b.claims()).toEqual([]);
    // The retry succeeds, and the later event follows.
    await b.admin`update despatch.due_deliveries set due_at = now() where first_seq = 1`;
    const [third] = await b.claims();
    expect(third && seqsOf([third])).toEqual([1]);
    expect(third && third.blocked.size).toBe(0);
    await b.webhooks.completeDeliveries(third === undefined ? [] : [succeeded(third)]);
    const [fourth] = await b.claims();
    expect(fourth && seqsOf([fourth])).toEqual([3]);
    await b.webhooks.completeDeliveries(fourth === undefined ? [] : [succeeded(fourth)]);
    expect(await b.due(id)).toEqual([]);
  });

  test('release an event that waits for an earlier one that has already ended', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ ordered: true });
    const [x = 0] = await b.send(1);
    await b.match();
    const [claimed] = await b.claims();
    if (claimed === undefined) throw new Error('nothing was claimed');
    const again = [{ seq: 1, attempts: 0, dueAt: 'after_earlier' as const, messageSeq: x }];
    await b.webhooks.completeDeliveries([{ ...partsOf(claimed), attempts: [], again, uncalled: [] }]);
    expect(seqsOf(await b.claims())).toEqual([1]);
    // Nothing waits either once the endpoint no longer asks for order.
    await b.admin`update despatch.due_deliveries set due_at = 'infinity', claim = null`;
    await b.admin`update despatch.webhook_endpoints set ordered = false where id = ${id}`;
    expect(seqsOf(await b.claims())).toEqual([1]);
  });

  test('keep the order of messages whose retries were pending when the endpoint became ordered', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    const [x = 0] = await b.send(1);
    const [claim] = (await b.match(1)).claims;
    if (claim === undefined) throw new Error('nothing was claimed');
    const again = [{ seq: 1, attempts: 1, dueAt: new Date(), messageSeq: x }];
    await b.webhooks.completeDeliveries([
      { ...partsOf(claim), attempts: [attemptOf(claim, 1, false)], again, uncalled: [] },
    ]);
    const [retry] = await b.claims();
    if (retry === undefined) throw new Error('nothing was claimed again');
    await b.admin`update despatch.webhook_endpoints set ordered = true where id = ${id}`;
    await b.admin`select despatch.move_messages(${[x]}::bigint[], 'expired', null)`;
    await b.number();
    await b.match();
    // Its lease is long, so that the later event can be claimed beside it.
    await b.admin`update despatch.due_deliveries set due_at = now() + interval '1 hour' where first_seq = 1`;
    const [later] = await b.claims();
    if (later === undefined) throw new Error('the later event was not claimed');
    expect([seqsOf([later]), ...later.blocked]).toEqual([[2], x]);
    const behind = { seq: 2, attempts: 0, dueAt: 'after_earlier' as const, messageSeq: x };
    await b.webhooks.completeDeliveries([{ ...partsOf(later), attempts: [], again: [behind], uncalled: [] }]);
    expect(await b.claims()).toEqual([]);
    // The retry was claimed before the endpoint became ordered; its end releases the later event all the same.
    await b.webhooks.completeDeliveries([succeeded(retry)]);
    expect(seqsOf(await b.claims())).toEqual([2]);
  });

  test('let no event wait for an earlier one if the endpoint is no longer ordered', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ ordered: true });
    const [messageSeq = 0] = await b.send(1);
    await b.match();
    const [claim] = await b.claims();
    if (claim === undefined) throw new Error('not claimed');
    await b.admin`update despatch.webhook_endpoints set ordered = false where id = ${id}`;
    const again = [{ seq: 1, attempts: 0, dueAt: 'after_earlier' as const, messageSeq }];
    await b.webhooks.completeDeliveries([{ ...partsOf(claim), attempts: [], again, uncalled: [] }]);
    expect(seqsOf(await b.claims())).toEqual([1]);
  });

  test('of a great many events that wait for their order, some are released at once and the others in steps', async () => {
    await using b = await setupWebhooks();
    const [id, ordered] = [await b.endpoint({ ordered: true }), await b.endpoint({ ordered: true })];
    await b.admin`
      insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, message_seq, due_at)
      select e, ${b.tenant.tenantId}, n, n, current_date + 30, n, 'infinity'
      from unnest(${[id, ordered]}::uuid[]) e, generate_series(1, 10004) n`;
    const waiting = async (of: string) =>
      (await b.admin`select from despatch.due_deliveries where endpoint_id = ${of} and due_at = 'infinity'`)
        .length;
    await b.admin`update despatch.webhook_endpoints set ordered = false where id = ${id}`;
    expect(await waiting(id)).toBe(4);
    expect(await b.store.releaseDeliveries(3)).toBe(3);
    expect(await b.store.releaseDeliveries(3)).toBe(1);
    expect(await b.store.releaseDeliveries(3)).toBe(0);
    expect([await waiting(id), await waiting(ordered)]).toEqual([0, 10_004]);
  });

  test('keep the order of an ordered endpoint after a lease has expired', async () => {
    await using b = await setupWebhooks();
    await b.endpoint({ ordered: true });
    await b.send(1);
    await b.match();
    expect(seqsOf(await b.claims())).toEqual([1]);
    await b.send(1);
    await b.match();
    await b.admin`update despatch.due_deliveries set due_at = now() where claim is not null`;
    expect(seqsOf(await b.claims())).toEqual([1, 2]);
  });
});
