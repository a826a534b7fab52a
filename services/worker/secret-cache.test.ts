import { asyncProperty, assert, array, constantFrom, integer, oneof, record, constant } from 'fast-check';
import { expect, test } from 'vitest';
import { accountSecretBinding, type Binding } from '#core/domain/storage/binding.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { KeyringError, type KeyringErrorCode } from '#core/platform/vault/keyring.ts';
import { createSecretCache, readJson, type SecretRequest, type SecretResult } from './secret-cache.ts';

const TTL_MS = 600_000;
const STALE_MS = 3_600_000;

type Call = PromiseWithResolvers<Uint8Array> & { readonly binding: Binding; readonly ciphertext: string };

function setup(options: { entriesMax?: number; random?: () => number } = {}) {
  let time = 1_000_000;
  const calls: Call[] = [];
  const credentials = createSecretCache({
    bindingOf: accountSecretBinding,
    read: readJson,
    decrypter: {
      decrypt: (binding, ciphertext) => {
        const call = { ...Promise.withResolvers<Uint8Array>(), binding, ciphertext };
        calls.push(call);
        return call.promise;
      },
    },
    entriesMax: options.entriesMax ?? 100,
    ttlMs: TTL_MS,
    staleMsMax: STALE_MS,
    monotonicMs: () => time,
    random: options.random ?? (() => 0.5),
  });
  const tenantId = newId<TenantId>();
  const request = (subject = 'a1', secretVersion = 1): SecretRequest => ({
    tenantId,
    subject,
    secretVersion,
    ciphertext: `cipher ${subject} ${secretVersion}`,
  });
  const last = (): Call => {
    const call = calls.at(-1);
    if (call === undefined) throw new Error('the keyring was not asked');
    return call;
  };
  const answer = (secrets: unknown): void => last().resolve(Buffer.from(JSON.stringify(secrets)));
  const fail = (code: KeyringErrorCode): void => last().reject(new KeyringError(code, code));
  const warm = async (subject?: string): Promise<void> => {
    const got = credentials.get(request(subject));
    answer({ token: 't' });
    await got;
  };
  return {
    credentials,
    calls,
    request,
    answer,
    fail,
    warm,
    tenantId,
    pass: (ms: number) => void (time += ms),
  };
}

const OK: SecretResult<unknown> = { ok: true, secret: { token: 't' } };

test('a secret is decrypted under its tenant and account, parsed, and then served from memory', async () => {
  const b = setup();
  const got = b.credentials.get(b.request());
  b.answer({ token: 't' });
  expect(await got).toEqual(OK);
  expect(b.calls[0]).toMatchObject({
    binding: { tenantId: b.tenantId, subject: 'a1', purpose: 'provider-secret' },
    ciphertext: 'cipher a1 1',
  });
  b.pass(TTL_MS - 1);
  expect(await b.credentials.get(b.request())).toEqual(OK);
  expect(b.calls).toHaveLength(1);
});

test('the plaintext bytes are wiped after parsing', async () => {
  const b = setup();
  const bytes = Buffer.from('{"token":"t"}');
  const got = b.credentials.get(b.request());
  b.calls[0]?.resolve(bytes);
  await got;
  expect(bytes.every((byte) => byte === 0)).toBe(true);
});

test('concurrent requests for one secret share one decryption call', async () => {
  const b = setup();
  const got = Promise.all(Array.from({ length: 50 }, () => b.credentials.get(b.request())));
  b.answer({ token: 't' });
  expect(new Set(await got).size).toBe(1);
  expect(b.calls).toHaveLength(1);
});

test.each([
  [0, TTL_MS * 0.8],
  [1, TTL_MS * 1.2],
])('the cache lifetime of a secret has jitter: at random %d it is %d ms', async (random, lifeMs) => {
  const b = setup({ random: () => random });
  await b.warm();
  b.pass(lifeMs - 1);
  await b.credentials.get(b.request());
  expect(b.calls).toHaveLength(1);
  b.pass(1);
  const refreshed = b.credentials.get(b.request());
  expect(b.calls).toHaveLength(2);
  b.answer({ token: 'new' });
  expect(await refreshed).toEqual({ ok: true, secret: { token: 'new' } });
});

test('a new version of the secret is fetched', async () => {
  const b = setup();
  await b.warm();
  const got = b.credentials.get(b.request('a1', 2));
  b.answer({ token: 'v2' });
  expect(await got).toEqual({ ok: true, secret: { token: 'v2' } });
});

test.each([
  ['under another version', { secretVersion: 2 }],
  ['encrypted again', { ciphertext: 'cipher a1 1, under the key of today' }],
])('the same secret %s is not fetched again', async (_how, change) => {
  const b = setup();
  await b.warm();
  const later = { ...b.request(), ...change };
  expect(await b.credentials.get(later)).toEqual(OK);
  expect(await b.credentials.get({ ...later, secretVersion: 3 })).toEqual(OK);
  expect(b.calls).toHaveLength(1);
});

test('without the keyring, a known secret is served for one hour beyond its lifetime', async () => {
  const b = setup();
  await b.warm();
  b.pass(TTL_MS);
  const first = b.credentials.get(b.request());
  b.fail('unavailable');
  expect(await first).toEqual(OK);
  b.pass(STALE_MS - 1);
  const late = b.credentials.get(b.request());
  b.fail('unavailable');
  expect(await late).toEqual(OK);
  b.pass(10_000);
  const over = b.credentials.get(b.request());
  b.fail('unavailable');
  expect(await over).toEqual({ ok: false, reason: 'unavailable' });
});

test('an expired secret is served without waiting while the keyring hangs', async () => {
  const b = setup();
  await b.warm();
  b.pass(TTL_MS);
  expect(await b.credentials.get(b.request())).toEqual(OK);
  b.answer({ token: 'new' });
  await expect.poll(() => b.credentials.get(b.request())).toEqual({ ok: true, secret: { token: 'new' } });
  expect(b.calls).toHaveLength(2);
});

test('a failure is cached for one second at first and five at most', async () => {
  const b = setup({ random: () => 1 });
  const waits: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    const asked = b.calls.length;
    const got = b.credentials.get(b.request());
    expect(b.calls).toHaveLength(asked + 1);
    b.fail('unavailable');
    expect(await got).toEqual({ ok: false, reason: 'unavailable' });
    let waitedMs = 0;
    for (; waitedMs < 6_000; waitedMs += 500) {
      const probe = b.credentials.get(b.request());
      if (b.calls.length > asked + 1) {
        b.fail('unavailable');
        await probe;
        break;
      }
      b.pass(500);
    }
    waits.push(waitedMs);
    b.pass(6_000);
  }
  expect(waits[0]).toBe(1_000);
  expect(Math.max(...waits)).toBe(5_000);
});

test.each<[KeyringErrorCode, string]>([
  ['unavailable', 'unavailable'],
  ['refused', 'unavailable'],
  ['key_missing', 'missing'],
  ['corrupt', 'missing'],
])("the keyring's error %s is returned as %s", async (code, reason) => {
  const b = setup();
  const got = b.credentials.get(b.request());
  b.fail(code);
  expect(await got).toEqual({ ok: false, reason });
});

test('an unexpected error is returned as unavailable, and invalid JSON as missing', async () => {
  const b = setup();
  const first = b.credentials.get(b.request('a1'));
  b.calls[0]?.reject(new TypeError('bug'));
  expect(await first).toEqual({ ok: false, reason: 'unavailable' });
  const second = b.credentials.get(b.request('a2'));
  b.calls[1]?.resolve(Buffer.from('{"token'));
  expect(await second).toEqual({ ok: false, reason: 'missing' });
});

test('a destroyed key ends the use of a cached secret', async () => {
  const b = setup();
  await b.warm();
  b.pass(TTL_MS);
  const got = b.credentials.get(b.request());
  b.fail('key_missing');
  expect(await got).toEqual({ ok: false, reason: 'missing' });
  expect(b.credentials.autonomySeconds()).toBeNull();
});

test('an invalidated account is fetched again, even during a fetch', async () => {
  const b = setup();
  await b.warm();
  b.credentials.invalidate('a1');
  const old = b.credentials.get(b.request());
  b.credentials.invalidate('a1');
  const fresh = b.credentials.get(b.request());
  expect(b.calls).toHaveLength(3);
  b.calls[2]?.resolve(Buffer.from('{"token":"fresh"}'));
  expect(await fresh).toEqual({ ok: true, secret: { token: 'fresh' } });
  b.calls[1]?.resolve(Buffer.from('{"token":"old"}'));
  await old;
  expect(await b.credentials.get(b.request())).toEqual({ ok: true, secret: { token: 'fresh' } });
});

test('the number of secrets in memory is bounded', async () => {
  const b = setup({ entriesMax: 2 });
  await b.warm('a1');
  await b.warm('a2');
  await b.warm('a3');
  await b.credentials.get(b.request('a3'));
  expect(b.calls).toHaveLength(3);
  void b.credentials.get(b.request('a1'));
  expect(b.calls).toHaveLength(4);
});

test('autonomy is the shortest remaining lifetime among the secrets of accounts in use', async () => {
  const b = setup();
  expect(b.credentials.autonomySeconds()).toBeNull();
  await b.warm('a1');
  b.pass(60_000);
  await b.warm('a2');
  expect(b.credentials.autonomySeconds()).toBe((TTL_MS + STALE_MS - 60_000) / 1_000);
  b.pass(290_000);
  await b.credentials.get(b.request('a2'));
  b.pass(20_000);
  expect(b.credentials.autonomySeconds()).toBe((TTL_MS + STALE_MS - 310_000) / 1_000);
});

test('autonomy is 0 if the secret of an account in use has expired or could not be loaded', async () => {
  const b = setup();
  await b.warm('a1');
  b.pass(TTL_MS + STALE_MS - 1);
  const held = b.credentials.get(b.request('a1'));
  b.fail('unavailable');
  expect(await held).toMatchObject({ ok: true });
  expect(b.credentials.autonomySeconds()).toBe(0.001);
  b.pass(1);
  expect(b.credentials.autonomySeconds()).toBe(0);
  b.credentials.forgetStale();
  expect(b.credentials.autonomySeconds()).toBe(0);
  expect(await b.credentials.get(b.request('a1'))).toEqual({ ok: false, reason: 'unavailable' });

  const cold = setup();
  const asked = cold.credentials.get(cold.request('a1'));
  expect(cold.credentials.autonomySeconds()).toBeNull();
  cold.fail('unavailable');
  await asked;
  expect(cold.credentials.autonomySeconds()).toBe(0);
  cold.pass(300_001);
  expect(cold.credentials.autonomySeconds()).toBeNull();
});

test('an unused secret is dropped when its lifetime ends, and not before', async () => {
  const { credentials, calls, warm, pass, request, fail } = setup();
  await warm();
  pass(TTL_MS + STALE_MS - 1);
  credentials.forgetStale();
  const held = credentials.get(request());
  fail('unavailable');
  expect(await held).toMatchObject({ ok: true });
  pass(1);
  credentials.forgetStale();
  const asked = calls.length;
  expect(await credentials.get(request())).toEqual({ ok: false, reason: 'unavailable' });
  expect(calls.length, 'it failed a moment ago').toBe(asked);
  pass(300_001);
  credentials.forgetStale();
  void credentials.get(request());
  expect(calls.length).toBe(asked + 1);
});

test("property: one fetch per version at a time, never another version's or an expired secret", async () => {
  const step = oneof(
    {
      weight: 4,
      arbitrary: record({
        kind: constant('get' as const),
        account: constantFrom('a', 'b'),
        version: integer({ min: 1, max: 2 }),
      }),
    },
    {
      weight: 3,
      arbitrary: record({
        kind: constantFrom('answer' as const, 'fail' as const),
        pick: integer({ min: 0, max: 5 }),
      }),
    },
    {
      weight: 2,
      arbitrary: record({ kind: constant('pass' as const), ms: constantFrom(500, 5_000, TTL_MS, STALE_MS) }),
    },
    {
      weight: 1,
      arbitrary: record({ kind: constant('invalidate' as const), account: constantFrom('a', 'b') }),
    },
  );
  await assert(
    asyncProperty(array(step, { maxLength: 40 }), async (steps) => {
      const b = setup();
      let time = 0;
      let current = new Map<string, { version: number; open: number }>();
      const open: Call[] = [];
      const answeredAt = new Map<string, number>();
      const waiting: Promise<void>[] = [];
      for (const one of steps) {
        if (one.kind === 'get') {
          const before = b.calls.length;
          const asked = time;
          const key = `${one.account} ${one.version}`;
          const got = b.credentials.get(b.request(one.account, one.version));
          const known = current.get(one.account);
          const isSame = known?.version === one.version;
          if (b.calls.length > before) {
            // A second fetch of one version starts only after the first one ended or was invalidated.
            expect(isSame ? known.open : 0).toBe(0);
            current = current.set(one.account, { version: one.version, open: 1 });
            open.push(...b.calls.slice(before));
          } else if (!isSame) throw new Error('an unknown version was served without a fetch');
          waiting.push(
            got.then((result) => {
              if (!result.ok) return;
              expect(result.secret).toEqual({ is: `cipher ${key}` });
              expect(asked - (answeredAt.get(key) ?? asked)).toBeLessThan(TTL_MS * 1.2 + STALE_MS);
            }),
          );
        } else if (one.kind === 'answer' || one.kind === 'fail') {
          const [call] = open.splice(one.pick % Math.max(1, open.length), 1);
          if (call === undefined) continue;
          const [, account = '', version = ''] = call.ciphertext.split(' ');
          const known = current.get(account);
          if (known?.version === Number(version)) known.open = 0;
          if (one.kind === 'answer') {
            answeredAt.set(`${account} ${version}`, time);
            call.resolve(Buffer.from(JSON.stringify({ is: call.ciphertext })));
          } else call.reject(new KeyringError('unavailable', 'x'));
          await call.promise.catch(() => undefined);
          await flush();
        } else if (one.kind === 'pass') {
          time += one.ms;
          b.pass(one.ms);
        } else if ('account' in one) {
          b.credentials.invalidate(one.account);
          current.delete(one.account);
        }
      }
      for (const call of open) call.reject(new KeyringError('unavailable', 'x'));
      await Promise.all(waiting);
    }),
    { numRuns: 300 },
  );
});

/** Lets settled promises run their callbacks. */
function flush(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
