import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { HttpResult } from '#core/domain/sending/http-exchange.ts';
import type { DeliveryClaim } from '#core/store/webhooks/delivery-claim.ts';
import {
  ERROR,
  OK,
  SECRET,
  claimOf,
  dataOf,
  endpointOf,
  hold,
  messageOf,
  scriptedWebhooks,
} from '#test/support/scripted-webhooks.ts';

describe('a claimed event', () => {
  test('is posted once, signed over its exact bytes, with the endpoint’s sequence number', async () => {
    const endpoint = endpointOf({ headers: { 'x-shop': '1' } });
    const s = scriptedWebhooks([claimOf(endpoint, [1, 2])], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls.map((call) => dataOf(call).seq)).toEqual([1, 2]);
    const [call] = s.calls;
    expect(call).toMatchObject({ method: 'POST', url: endpoint.url, isTenantHost: true });
    const headers = call?.headers ?? {};
    expect(headers).toMatchObject({ 'x-shop': '1', 'content-type': 'application/json' });
    const signed = Buffer.concat([
      Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.`),
      call?.body as Buffer,
    ]);
    const key = Buffer.from(SECRET.slice('whsec_'.length), 'base64');
    expect(headers['webhook-signature']).toBe(
      `v1,${createHmac('sha256', key).update(signed).digest('base64')}`,
    );
    expect(s.completions[0]).toMatchObject({
      attempts: [
        { seq: 1, attempt: 1, status: 200, error: null, succeeded: true },
        { seq: 2, attempt: 1, status: 200, error: null, succeeded: true },
      ],
      again: [],
    });
    expect([s.failed, s.health.size]).toEqual([[], 0]);
  });

  test('is posted to the normalized URL', async () => {
    const s = scriptedWebhooks(
      [claimOf(endpointOf({ url: 'https://hooks.example?to=日本' }), [1])],
      () => OK,
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls[0]?.url).toBe('https://hooks.example/?to=%E6%97%A5%E6%9C%AC');
  });

  test('is signed with the secrets of its own claim, also during another claim', async () => {
    const former = endpointOf({ previousSecret: 'former' });
    const first = Promise.withResolvers<HttpResult>();
    const claims = [claimOf(former, [1]), claimOf({ ...former, previousSecret: null }, [2])];
    const s = scriptedWebhooks(claims, (request) => (messageOf(request) === 1 ? first.promise : OK));
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(1);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.map(messageOf)).toEqual([1, 2]);
    first.resolve(OK);
    const signatures = s.calls.map(({ headers }) => String(headers?.['webhook-signature']).split(' ').length);
    expect(signatures).toEqual([2, 1]);
  });

  test('is stored with its answer redacted, even if a repeated secret crosses the cut', async () => {
    const token = randomBytes(500).toString('hex');
    const text = `${'x'.repeat(100)}${token}${'y'.repeat(300)}${token}`;
    const s = scriptedWebhooks([claimOf(endpointOf({ headers: { authorization: token } }), [1])], () => ({
      ...ERROR,
      text,
    }));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    const [attempt] = s.completions[0]?.attempts ?? [];
    expect(attempt?.answer).toContain('[redacted]');
    expect(attempt?.answer).not.toContain(token.slice(0, 20));
  });

  test('is stored with an answer that redacts secret-like values of the URL’s query', async () => {
    const token = randomBytes(12).toString('hex');
    const url = `https://hooks.example/in?token=${token}&to=shop&sig=a%20long%20one`;
    const text = `Cannot POST ${url}: no shop for "a long one"`;
    const s = scriptedWebhooks([claimOf(endpointOf({ url }), [1])], () => ({ ...ERROR, text }));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.completions[0]?.attempts[0]?.answer).toBe(
      'Cannot POST https://hooks.example/in?token=[redacted]&to=shop&sig=[redacted]: no shop for "[redacted]"',
    );
  });

  test('masks the recipient only for the endpoint that asks for it', async () => {
    const claim = claimOf(endpointOf({ maskRecipients: true }), [1]);
    const other = { ...claimOf(endpointOf(), []), events: claim.events };
    const s = scriptedWebhooks([claim, other], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(2);
    expect(s.calls.map((call) => dataOf(call).to).toSorted()).toEqual(['+***42', '+15551230042']);
  });

  test('that fails is retried alone after about five seconds, and the others are complete', async () => {
    const s = scriptedWebhooks([claimOf(endpointOf(), [1, 2, 3])], (call) =>
      messageOf(call) === 2 ? ERROR : OK,
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    const { attempts, again } = s.completions[0] ?? { attempts: [], again: [] };
    expect(attempts).toHaveLength(3);
    expect(attempts.find(({ seq }) => seq === 2)).toMatchObject({
      succeeded: false,
      status: 500,
      answer: 'no',
    });
    expect(again).toMatchObject([{ seq: 2, attempts: 1, messageSeq: 2 }]);
    const failed = attempts.find(({ seq }) => seq === 2);
    const inMs = Number(again[0]?.dueAt) - Number(failed?.at) - (failed?.durationMs ?? 0);
    expect(inMs).toBeGreaterThan(3_000);
    expect(inMs).toBeLessThan(7_000);
  });

  test.each<[name: string, more: Partial<DeliveryClaim>]>([
    ['for the tenth time', { attempts: 9 }],
    ['after a manual retry', { attempts: 3, manual: true }],
  ])('that fails %s is given up', async (_, more) => {
    const s = scriptedWebhooks([claimOf(endpointOf(), [1], more)], () => ERROR);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.completions[0]?.attempts).toMatchObject([
      { attempt: (more.attempts ?? 0) + 1, succeeded: false },
    ]);
    expect(s.completions[0]?.again).toEqual([]);
  });

  test('fails on a redirect, which is not followed', async () => {
    const moved: HttpResult = {
      kind: 'response',
      status: 302,
      headers: { location: 'https://x.example' },
      text: '',
    };
    const s = scriptedWebhooks([claimOf(endpointOf(), [1])], () => moved);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.completions[0]?.attempts).toMatchObject([{ succeeded: false, status: 302 }]);
    expect(s.calls).toHaveLength(1);
  });

  test('is stored with an answer without secrets and recipients, cut at 1,024 characters', async () => {
    const endpoint = endpointOf({ headers: { authorization: 'Bearer h3ader-value' } });
    const text = `${SECRET} Bearer h3ader-value +15551230042 ${'x'.repeat(5_000)}`;
    const s = scriptedWebhooks([claimOf(endpoint, [1])], () => ({ ...OK, text }));
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    const answer = s.completions[0]?.attempts[0]?.answer ?? '';
    expect(answer).toMatch(/^\[redacted\] \[redacted\] \[redacted\] x+$/);
    expect(answer).toHaveLength(1_024);
  });

  test('is not sent to an http URL unless the operator allows it', async () => {
    const url = 'http://hooks.example/in';
    const refused = scriptedWebhooks([claimOf(endpointOf({ url }), [1])], () => OK);
    await refused.webhooks.claim();
    await expect.poll(() => refused.completions.length).toBe(1);
    expect(refused.completions[0]?.attempts).toMatchObject([{ succeeded: false, error: 'https_required' }]);
    expect(refused.calls).toEqual([]);
    const allowed = scriptedWebhooks([claimOf(endpointOf({ url }), [1])], () => OK, { allowHttp: true });
    await allowed.webhooks.claim();
    await expect.poll(() => allowed.calls.length).toBe(1);
  });

  test('waits without an attempt while Vault is unavailable', async () => {
    const s = scriptedWebhooks([claimOf(endpointOf(), [1])], () => OK);
    s.vault.isAway = true;
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.completions[0]).toMatchObject({ attempts: [], again: [], uncalled: [{ first: 1, last: 1 }] });
    expect(s.calls).toEqual([]);
    s.vault.isAway = false;
    const { endpoint } = s.completions[0]?.claim ?? claimOf(endpointOf(), []);
    s.left.push(claimOf(endpoint, [1]));
    // Its events are not claimed again at once.
    await s.webhooks.claim();
    expect(s.completions.length).toBe(1);
    await expect
      .poll(async () => {
        await s.webhooks.claim();
        return s.completions[1]?.attempts;
      })
      .toMatchObject([{ attempt: 1, succeeded: true }]);
  });

  test('of many tenants without a secret does not delay one whose secret is known', async () => {
    const known = endpointOf({ tenantId: randomUUID() });
    const s = scriptedWebhooks([claimOf(known, [1])], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(1);
    s.vault.isAway = true;
    s.left.push(...Array.from({ length: 300 }, () => claimOf(endpointOf({ tenantId: randomUUID() }), [1])));
    await expect
      .poll(async () => {
        await s.webhooks.claim();
        return s.completions.length;
      })
      .toBe(301);
    s.left.push(claimOf(known, [2]));
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(2);
  });

  test('is returned without a call if its endpoint was paused after the claim', async () => {
    const s = scriptedWebhooks([claimOf(endpointOf({ status: 'paused' }), [1])], () => OK);
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls).toEqual([]);
    expect(s.completions[0]).toMatchObject({ attempts: [], uncalled: [{ first: 1, last: 1 }] });
  });

  test('is not sent with settings that a later claim shows as replaced', async () => {
    const slow = hold();
    const many = Array.from({ length: 60 }, (_, i) => i);
    const before = endpointOf();
    const s = scriptedWebhooks([claimOf(before, many)], slow.answer);
    await s.webhooks.claim();
    await expect.poll(() => s.calls.length).toBe(20);
    s.left.push(claimOf({ ...before, version: 2, maskRecipients: true }, [100]));
    await s.webhooks.claim();
    slow.release();
    await expect.poll(() => s.completions.length).toBe(2);
    expect(s.calls.slice(20).map((call) => dataOf(call).to)).toEqual(['+***42']);
    expect(s.completions.map(({ uncalled }) => uncalled)).toContainEqual([{ first: 21, last: 60 }]);
  });

  test('is returned without a call if the call could outlast the lease', async () => {
    const s = scriptedWebhooks(
      [claimOf(endpointOf(), [1], { leaseEndsAt: performance.now() + 2_000 })],
      () => OK,
    );
    await s.webhooks.claim();
    await expect.poll(() => s.completions.length).toBe(1);
    expect(s.calls).toEqual([]);
    expect(s.completions[0]).toMatchObject({ attempts: [], again: [], uncalled: [{ first: 1, last: 1 }] });
  });
});
