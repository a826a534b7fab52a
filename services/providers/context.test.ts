import { describe, expect, test, vi } from 'vitest';
import { createProviderContexts } from './context.ts';
import type { HttpSender } from './provider.ts';

function setup(baseUrls: Record<string, string> = {}) {
  const clock = { now: 0 };
  const http = vi.fn<HttpSender>(async () => ({ kind: 'not_sent', code: 'dns' }));
  const contexts = createProviderContexts({
    http,
    resolve: async () => ({ kind: 'refused', code: 'dns' }),
    baseUrls,
    epochMs: () => clock.now,
  });
  const signal = new AbortController().signal;
  const contextOf = (accountId = 'a', version = 1) =>
    contexts({ provider: 'twilio', accountId, version, until: signal });
  return { clock, http, signal, contextOf };
}

describe('a value cached by an adapter', () => {
  test('is loaded once for concurrent callers, and again after it expires', async () => {
    const { clock, contextOf } = setup();
    let loads = 0;
    const load = async () => ({ value: (loads += 1), expiresAt: clock.now + 100 });
    expect(await Promise.all([contextOf().memo('k', load), contextOf().memo('k', load)])).toEqual([1, 1]);
    clock.now = 99;
    expect(await contextOf().memo('k', load)).toBe(1);
    clock.now = 100;
    expect(await contextOf().memo('k', load)).toBe(2);
  });

  test('is never shared between accounts, secret versions or keys', async () => {
    const { contextOf } = setup();
    const remember = (context: ReturnType<typeof contextOf>, key: string, value: string) =>
      context.memo(key, async () => ({ value, expiresAt: 1_000 }));
    expect(await remember(contextOf('a', 1), 'k', 'one')).toBe('one');
    expect(await remember(contextOf('b', 1), 'k', 'two')).toBe('two');
    expect(await remember(contextOf('a', 2), 'k', 'three')).toBe('three');
    expect(await remember(contextOf('a', 1), 'l', 'four')).toBe('four');
    expect(await remember(contextOf('a', 1), 'k', 'five')).toBe('one');
  });

  test('is not a failure: the next caller loads again', async () => {
    const { contextOf } = setup();
    await expect(contextOf().memo('k', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await contextOf().memo('k', async () => ({ value: 1, expiresAt: 1 }))).toBe(1);
  });

  test('can be removed', async () => {
    const { contextOf } = setup();
    await contextOf().memo('k', async () => ({ value: 1, expiresAt: 1 }));
    contextOf().forget('k');
    expect(await contextOf().memo('k', async () => ({ value: 2, expiresAt: 1 }))).toBe(2);
  });
});

test("an operator's origin replaces the vendor's, for its own provider only", () => {
  expect(setup({ twilio: 'http://127.0.0.1:1/' }).contextOf().origin('https://api.twilio.com')).toBe(
    'http://127.0.0.1:1',
  );
  expect(setup({ fcm: 'http://127.0.0.1:1' }).contextOf().origin('https://api.twilio.com')).toBe(
    'https://api.twilio.com',
  );
});

test("every request carries the attempt's own signal", async () => {
  const { http, signal, contextOf } = setup();
  const request = { method: 'GET', url: 'https://api.twilio.com/' } as const;
  await contextOf().http(request);
  expect(http).toHaveBeenCalledWith(request, signal);
});

test('the signal of a context is aborted at its deadline, or at once if that has passed', async () => {
  const http = vi.fn<HttpSender>(async () => ({ kind: 'not_sent', code: 'dns' }));
  const contexts = createProviderContexts({ http, resolve: async () => ({ kind: 'refused', code: 'dns' }) });
  const contextUntil = (until: number) => contexts({ provider: 'twilio', accountId: 'a', version: 1, until });
  const until = performance.now() + 30;
  const context = contextUntil(until);
  await context.http({ method: 'GET', url: 'https://api.twilio.com/' });
  expect(http.mock.calls[0]?.[1]).toBe(until);
  expect(context.signal).toBe(context.signal);
  await expect.poll(() => context.signal.aborted).toBe(true);
  const late = contextUntil(performance.now() - 1);
  await expect.poll(() => late.signal.aborted).toBe(true);
});

test("isTenantHost is kept unless the request goes to the operator's origin", async () => {
  const request = { method: 'GET', url: 'https://gateway.example/a', isTenantHost: true } as const;
  const own = setup();
  await own.contextOf().http(request);
  expect(own.http).toHaveBeenCalledWith(request, own.signal);
  const overridden = setup({ twilio: 'https://proxy.internal' });
  const [elsewhere, proxied] = ['https://proxy.internal.evil.example/a', 'https://proxy.internal/a'];
  await overridden.contextOf().http({ ...request, url: elsewhere });
  await overridden.contextOf().http({ ...request, url: proxied });
  expect(overridden.http.mock.calls.map(([sent]) => sent)).toEqual([
    { ...request, url: elsewhere },
    { method: 'GET', url: proxied },
  ]);
});
