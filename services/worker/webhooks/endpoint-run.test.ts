import { describe, expect, test } from 'vitest';
import { WEBHOOK_EVENT_SCHEMAS } from '#core/domain/webhooks/event-schemas.ts';
import {
  ERROR,
  FINE,
  OK,
  TENANT,
  claimOf,
  dataOf,
  endpointOf,
  hold,
  messageOf,
  scriptedWebhooks,
} from '#test/support/scripted-webhooks.ts';

/** Claims fifty events of an endpoint. The first twenty are being called until `slow` is released. */
async function claimFifty() {
  const endpoint = endpointOf();
  const slow = hold();
  const events = Array.from({ length: 50 }, (_, i) => i);
  const s = scriptedWebhooks([claimOf(endpoint, events)], slow.answer);
  await s.webhooks.claim();
  await expect.poll(() => s.calls.length).toBe(20);
  return { endpoint, slow, s };
}

describe('an ordered endpoint', () => {
  test('receives the events of one message in sequence, and several messages concurrently', async () => {
    const slow = hold();
    const s = scriptedWebhooks([claimOf(endpointOf({ ordered: true }), [1, 1, 2, 1, 2, 3])], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(3);
    slow.release();
    await expect.poll(() => s.completions.length).toBe(1);
    const seqsOf = (message: number) =>
      s.calls.filter((call) => messageOf(call) === message).map((call) => dataOf(call).seq);
    expect([seqsOf(1), seqsOf(2), seqsOf(3)]).toEqual([[1, 2, 4], [3, 5], [6]]);
    expect(s.gauge.most).toBe(3);
  });

  test('does not receive later events of a message while an earlier one waits for a retry', async () => {
    const s = scriptedWebhooks([claimOf(endpointOf({ ordered: true }), [1, 1, 2, 1])], (call) =>
      dataOf(call).seq === 1 ? ERROR : OK,
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(new Set(s.calls.map((call) => dataOf(call).seq))).toEqual(new Set([1, 3]));
    expect(s.calls).toHaveLength(2);
    expect(s.completions[0]?.again).toMatchObject([
      { seq: 1, attempts: 1, messageSeq: 1 },
      { seq: 2, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
      { seq: 4, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
    ]);
    expect(s.completions[0]?.again[0]?.dueAt).toBeInstanceOf(Date);
  });

  test('that is changed returns its uncalled events, except those behind a failed one', async () => {
    const endpoint = endpointOf({ ordered: true });
    const slow = hold((call) => (messageOf(call) === 1 ? ERROR : OK));
    const s = scriptedWebhooks([claimOf(endpoint, [1, 1, 2, 1, 2, 3])], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(3);
    s.webhooks.endpointChanged(endpoint.id, 'settings');
    slow.release();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls.map((call) => dataOf(call).seq)).toEqual([1, 3, 6]);
    expect(s.completions[0]?.again).toMatchObject([
      { seq: 1, attempts: 1, messageSeq: 1 },
      { seq: 2, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
      { seq: 4, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
    ]);
    expect(s.completions[0]?.uncalled).toEqual([{ first: 5, last: 5 }]);
  });

  test('receives the events of a message in order across claims, and none behind a failed one', async () => {
    const endpoint = endpointOf({ ordered: true });
    const claims = [
      [1, 2],
      [1, 3],
      [2, 1],
    ].map(([a = 0, b = 0], nth) => {
      const claim = claimOf(endpoint, [a, b]);
      return { ...claim, events: claim.events.map((told) => ({ ...told, seq: told.seq + 2 * nth })) };
    });
    const slow = hold((call) => (dataOf(call).seq === 1 ? ERROR : OK));
    const s = scriptedWebhooks(claims.toReversed(), slow.answer);
    s.webhooks.matchSoon([TENANT]);
    await expect.poll(() => s.calls.length).toBe(3);
    slow.release();
    await expect.poll(() => s.completions.length).toBe(3);
    expect(s.calls.map((call) => dataOf(call).seq)).toEqual([1, 2, 4, 5]);
    const again = s.completions.flatMap((one) => one.again).toSorted((a, b) => a.seq - b.seq);
    expect(again).toMatchObject([
      { seq: 1, attempts: 1, messageSeq: 1 },
      { seq: 3, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
      { seq: 6, attempts: 0, messageSeq: 1, dueAt: 'after_earlier' },
    ]);
  });

  test('that was none when an event failed finds the message of the event in its row', async () => {
    const s = scriptedWebhooks([claimOf(endpointOf(), [5])], () => ERROR);
    await s.webhooks.claim();
    await expect.poll(() => s.completions[0]?.again).toMatchObject([{ seq: 1, attempts: 1, messageSeq: 5 }]);
  });

  test('receives events concurrently once a later claim shows it as unordered', async () => {
    const slow = hold();
    const endpoint = endpointOf({ ordered: true });
    const s = scriptedWebhooks([claimOf(endpoint, [1, 1])], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(1);
    s.left.push(claimOf({ ...endpoint, ordered: false, version: 2 }, [2]));
    s.webhooks.matchSoon([TENANT]);
    await expect.poll(() => s.calls.length).toBe(2);
    slow.release();
    await expect.poll(() => s.completions.length).toBe(2);
  });

  test('does not receive events that wait for an earlier one in the database', async () => {
    const s = scriptedWebhooks(
      [claimOf(endpointOf({ ordered: true }), [1, 2], { blocked: new Set([1]) })],
      () => OK,
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls.map(messageOf)).toEqual([2]);
    expect(s.completions[0]?.again).toMatchObject([{ seq: 1, dueAt: 'after_earlier' }]);
  });
});

describe('an endpoint', () => {
  test('that answers 410 is disabled, and its uncalled events are returned', async () => {
    const s = scriptedWebhooks(
      [
        claimOf(
          endpointOf(),
          Array.from({ length: 60 }, (_, i) => i),
        ),
      ],
      () => ({ ...ERROR, status: 410 }),
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect([...s.health.values()]).toMatchObject([{ status: 'disabled', statusReason: 'gone' }]);
    const { attempts = [], again, uncalled } = s.completions[0] ?? {};
    expect(attempts.length).toBeLessThan(60);
    expect(again).toHaveLength(attempts.length);
    expect(uncalled).toEqual([{ first: attempts.length + 1, last: 60 }]);
  });

  test('that answers 429 is not called again before its Retry-After', async () => {
    const claim = claimOf(
      endpointOf(),
      Array.from({ length: 60 }, (_, i) => i),
    );
    const s = scriptedWebhooks([claim], () => ({ ...ERROR, status: 429, headers: { 'retry-after': '120' } }));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls.length).toBeLessThan(60);
    expect(s.completions[0]?.again).toHaveLength(s.calls.length);
    for (const { dueAt } of s.completions[0]?.again ?? [])
      expect((dueAt as Date).getTime()).toBeGreaterThan(Date.now() + 100_000);
  });

  test('that is changed returns the events whose calls have not begun', async () => {
    const { endpoint, slow, s } = await claimFifty();
    s.webhooks.endpointChanged(endpoint.id, 'settings');
    slow.release();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls).toHaveLength(20);
    expect(s.completions[0]).toMatchObject({ again: [], uncalled: [{ first: 21, last: 50 }] });
  });

  test.each([
    ['changed', 2],
    ['deleted', undefined],
  ] as const)(
    'that was %s without a notice returns its uncalled events at the next check',
    async (_how, version) => {
      const { endpoint, slow, s } = await claimFifty();
      s.versions.set(endpoint.id, 1);
      await s.webhooks.findChanged();
      expect(s.completions).toEqual([]);
      if (version === undefined) s.versions.delete(endpoint.id);
      else s.versions.set(endpoint.id, version);
      await s.webhooks.findChanged();
      slow.release();
      await expect.poll(() => s.completions.length).toBe(1);
      expect(s.calls).toHaveLength(20);
      expect(s.completions[0]).toMatchObject({ again: [], uncalled: [{ first: 21, last: 50 }] });
      expect(s.completions[0]?.attempts).toHaveLength(20);
    },
  );

  test('that gets new due events finishes its claim and takes the next one', async () => {
    const { endpoint, slow, s } = await claimFifty();
    s.left.push(claimOf(endpoint, [50]));
    s.webhooks.endpointChanged(endpoint.id, 'due');
    slow.release();
    await expect.poll(() => s.completions.length).toBe(2);
    expect([s.calls.length, s.vault.asked]).toEqual([51, 1]);
  });

  test.each([
    ['due', 1, 1],
    ['settings', 2, 1],
    ['secrets', 2, 2],
  ] as const)(
    'asks Vault for its secret after a notice about %s only if the secret may have changed',
    async (changed, version, asked) => {
      const endpoint = endpointOf();
      const s = scriptedWebhooks([claimOf(endpoint, [1])], () => OK);
      await s.webhooks.claim();
      await expect.poll(() => s.completions.length).toBe(1);
      s.left.push(claimOf({ ...endpoint, version }, [2]));
      s.webhooks.endpointChanged(endpoint.id, changed);
      await expect.poll(() => s.completions.length).toBe(2);
      expect(s.vault.asked).toBe(asked);
    },
  );

  test('has no health in memory after its last claim', async () => {
    const endpoint = endpointOf();
    const s = scriptedWebhooks([claimOf(endpoint, [1])], () => (s.calls.length === 1 ? ERROR : OK));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.health.get(endpoint.id)?.failures).toBe(1);
    // The claim was made before the failure and shows a healthy endpoint.
    s.health.clear();
    await new Promise((resolve) => setImmediate(resolve));
    s.left.push(claimOf(endpoint, [2]));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(2);
    expect([s.health.size, s.failed]).toEqual([0, []]);
  });

  test('gets the events back that were claimed before it was failing, so that a single one is its probe', async () => {
    const failing = endpointOf({ status: 'failing', failures: 4, failingSince: new Date() });
    const s = scriptedWebhooks([claimOf(failing, [1, 2, 3], { isProbe: false })], () => ERROR);
    await s.webhooks.claim();
    await expect.poll(() => s.completions).toMatchObject([{ again: [], uncalled: [{ first: 1, last: 3 }] }]);
    expect(s.calls).toEqual([]);
  });

  test('becomes active when a probe succeeds', async () => {
    const failing = endpointOf({ status: 'failing', failures: 5, failingSince: new Date() });
    const s = scriptedWebhooks([claimOf(failing, [1])], () => OK);
    s.health.set(failing.id, { ...FINE, status: 'failing', failures: 5, failingSince: new Date() });
    await s.webhooks.claim();
    await expect.poll(() => s.moved).toEqual(['active']);
  });

  test('gets one call for a requested test, whose result redacts the values of its headers', async () => {
    const s = scriptedWebhooks([], () => ({ ...OK, text: 'fine' }));
    s.tests.push({
      id: 't',
      endpoint: endpointOf({ status: 'paused', headers: { authorization: 'Basic s3cret' } }),
    });
    await s.webhooks.callTested();
    await expect.poll(() => s.tested).toHaveLength(1);
    expect(s.calls[0]?.headers).toMatchObject({ authorization: 'Basic s3cret' });
    expect(s.tested).toMatchObject([
      {
        succeeded: true,
        request: { headers: { authorization: '[redacted]' } },
        response: { status: 200, body: 'fine' },
        error: null,
      },
    ]);
    const body: unknown = JSON.parse(String(s.calls[0]?.body));
    expect(WEBHOOK_EVENT_SCHEMAS['test.ping'].parse(body)).toEqual(body);
  });
});
