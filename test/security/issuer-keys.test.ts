import { constants, KeyObject } from 'node:crypto';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { AppError } from '#core/domain/fault/app-error.ts';
import { startOidcIssuer, type IssuerOptions, type OidcIssuer } from '#test/support/oidc-issuer.ts';
import { createTokenVerifier, type VerifyToken } from '../../services/api/auth/bearer.ts';
import { rawToken, signedBy, signWith } from './raw-token.ts';

const AUDIENCE = 'despatch';
const SECOND = 1_000;

afterEach(() => {
  vi.useRealTimers();
});

type Setup = AsyncDisposable & {
  readonly issuer: OidcIssuer;
  readonly verify: VerifyToken;
  /** Makes a valid token with the key that signs now. */
  readonly mint: () => Promise<string>;
  /** Verifies a token. @returns the subject, `refused` or `unavailable`. */
  readonly answerTo: (token: string) => Promise<string>;
  /** Failed fetches of the keys that were reported. */
  readonly keyErrors: unknown[];
};

async function setup(options: IssuerOptions & { readonly finds?: 'discovery' | 'url' } = {}): Promise<Setup> {
  const issuer = await startOidcIssuer(options);
  const keyErrors: unknown[] = [];
  const verify = createTokenVerifier(
    {
      issuer: issuer.issuer,
      audience: AUDIENCE,
      ...(options.finds === 'discovery' ? {} : { jwksUrl: issuer.jwksUrl }),
      algorithms: [options.algorithm ?? 'ES256'],
      tokenTypes: ['jwt', 'at+jwt'],
    },
    (cause) => void keyErrors.push(cause),
  );
  return {
    issuer,
    verify,
    keyErrors,
    mint: () => issuer.mint({ sub: 'ann', audience: AUDIENCE }),
    answerTo: (token) =>
      verify(token).then(
        (identity) => identity?.subject ?? 'refused',
        (error: unknown) =>
          error instanceof AppError && error.code === 'dependency_unavailable'
            ? 'unavailable'
            : String(error),
      ),
    [Symbol.asyncDispose]: () => issuer[Symbol.asyncDispose](),
  };
}

/** Stops both clocks alone; sockets and timers continue. @returns a function that advances them. */
function stopClock(): (ms: number) => void {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  return (ms) => void vi.advanceTimersByTime(ms);
}

const unknownKey = async ({ issuer }: Setup, n: number): Promise<string> => {
  const claims = {
    iss: issuer.issuer,
    aud: AUDIENCE,
    sub: 'ann',
    exp: Math.floor(Date.now() / SECOND) + 600,
  };
  return rawToken({ alg: 'ES256', typ: 'jwt', kid: `unknown-${n}` }, claims, signedBy(issuer.current()));
};

/** Signs in with a new token at each call, made with the key that is current then. */
function signerOfNow({ issuer, answerTo }: Awaited<ReturnType<typeof setup>>) {
  const { privateKey, kid } = issuer.current();
  return () => {
    const claims = {
      iss: issuer.issuer,
      aud: AUDIENCE,
      sub: 'ann',
      exp: Math.floor(Date.now() / SECOND) + 600,
    };
    return answerTo(rawToken({ alg: 'ES256', typ: 'jwt', kid }, claims, signedBy({ privateKey })));
  };
}

describe('algorithms', () => {
  test('one that the key supports but the configuration does not allow is rejected', async () => {
    await using b = await setup({ algorithm: 'RS256', namesAlgorithm: false });
    const { privateKey, kid } = b.issuer.current();
    const key = KeyObject.from(privateKey);
    const claims = {
      iss: b.issuer.issuer,
      aud: AUDIENCE,
      sub: 'ann',
      exp: Math.floor(Date.now() / SECOND) + 600,
    };
    const token = (alg: string, options: Parameters<typeof signWith>[1], digest = 'sha256'): string =>
      rawToken({ alg, typ: 'jwt', kid }, claims, (input) => signWith(key, options, input, digest));
    const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };
    expect(await b.answerTo(token('RS256', {}))).toBe('ann');
    expect(await b.answerTo(token('RS384', {}, 'sha384'))).toBe('refused');
    expect(await b.answerTo(token('RS512', {}, 'sha512'))).toBe('refused');
    expect(await b.answerTo(token('PS256', pss))).toBe('refused');
    expect(await b.answerTo(token('PS512', pss, 'sha512'))).toBe('refused');
  });
});

describe('the clock', () => {
  const at = (claim: 'exp' | 'nbf' | 'iat', offset: number) => async (b: Setup) => {
    const now = Math.floor(Date.now() / SECOND);
    const claims = { iss: b.issuer.issuer, aud: AUDIENCE, sub: 'ann', exp: now + 600, [claim]: now + offset };
    const header = { alg: 'ES256', typ: 'jwt', kid: b.issuer.current().kid };
    return b.answerTo(rawToken(header, claims, signedBy(b.issuer.current())));
  };

  test.each([
    ['exp', -29, 'ann'],
    ['exp', -30, 'refused'],
    ['exp', -31, 'refused'],
    ['nbf', 30, 'ann'],
    ['nbf', 31, 'refused'],
    ['iat', 30, 'ann'],
    ['iat', 31, 'refused'],
    ['iat', -86_400, 'ann'],
  ] as const)('%s at %i seconds from now: %s', async (claim, offset, answer) => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_900_000_000_000 });
    await using b = await setup();
    expect(await at(claim, offset)(b)).toBe(answer);
  });
});

describe('rotation', () => {
  test.each(['discovery', 'url'] as const)(
    'a new key is accepted at once, and a retired one is rejected after the next fetch (%s)',
    async (finds) => {
      const pass = stopClock();
      await using b = await setup({ finds });
      const old = await b.mint();
      expect(await b.answerTo(old)).toBe('ann');
      await b.issuer.rotate();
      const fresh = await b.mint();
      pass(2 * SECOND);
      expect([await b.answerTo(fresh), await b.answerTo(old)]).toEqual(['ann', 'ann']);
      b.issuer.retire();
      pass(2 * SECOND);
      expect(await b.answerTo(await unknownKey(b, 1))).toBe('refused');
      expect([await b.answerTo(fresh), await b.answerTo(old)]).toEqual(['ann', 'refused']);
    },
  );

  test('a retired key is rejected after ten minutes even if no token uses a new one', async () => {
    const pass = stopClock();
    await using b = await setup();
    const old = signerOfNow(b);
    expect(await old()).toBe('ann');
    await b.issuer.rotate();
    b.issuer.retire();
    pass(599 * SECOND);
    expect(await old()).toBe('ann');
    pass(SECOND);
    expect(await old()).toBe('refused');
  });

  describe.each(['gone', 'left'] as const)(
    'to another URL in the discovery document (previous: %s)',
    (previous) => {
      test('a new key is accepted at once, and the retired one is rejected', async () => {
        const pass = stopClock();
        await using b = await setup({ finds: 'discovery' });
        const old = await b.mint();
        expect(await b.answerTo(old)).toBe('ann');
        b.issuer.moveKeys(previous);
        await b.issuer.rotate();
        b.issuer.retire();
        pass(2 * SECOND);
        expect(await b.answerTo(await b.mint())).toBe('ann');
        expect(await b.answerTo(old)).toBe('refused');
      });

      test('a retired key is rejected after ten minutes even if no token uses a new one', async () => {
        const pass = stopClock();
        await using b = await setup({ finds: 'discovery' });
        const old = signerOfNow(b);
        expect(await old()).toBe('ann');
        b.issuer.moveKeys(previous);
        await b.issuer.rotate();
        b.issuer.retire();
        pass(600 * SECOND);
        expect(await old()).toBe('refused');
      });
    },
  );
});

describe('requests to the issuer', () => {
  test.each([
    ['url', 1],
    ['discovery', 2],
  ] as const)(
    'tokens with unknown keys cause one fetch in two seconds, however many they are (%s)',
    async (finds, perFetch) => {
      const pass = stopClock();
      await using b = await setup({ finds });
      expect(await b.answerTo(await b.mint())).toBe('ann');
      const before = b.issuer.asked();
      for (let second = 0; second < 10; second += 1) {
        const tokens = await Promise.all(Array.from({ length: 20 }, (_, n) => unknownKey(b, n)));
        expect(new Set(await Promise.all(tokens.map(b.answerTo)))).toEqual(new Set(['refused']));
        pass(SECOND);
      }
      expect(b.issuer.asked() - before).toBeLessThanOrEqual(5 * perFetch);
      expect(b.issuer.asked() - before).toBeGreaterThan(0);
    },
  );

  test.each(['refusing', 'nonsense', 'silent'] as const)(
    'while it is %s, known keys are valid, unknown ones are unavailable, and it gets one request in two seconds',
    async (behaviour) => {
      const pass = stopClock();
      await using b = await setup();
      const good = await b.mint();
      expect(await b.answerTo(good)).toBe('ann');
      b.issuer.behave(behaviour);
      pass(2 * SECOND);
      // The first unknown key triggers the request to the issuer; if the issuer is silent, it waits for the timeout.
      expect(await b.answerTo(await unknownKey(b, 0))).toBe('unavailable');
      const before = b.issuer.asked();
      let slowestMs = 0;
      const answerTo = async (token: string): Promise<string> => {
        const started = performance.now();
        const answer = await b.answerTo(token);
        slowestMs = Math.max(slowestMs, performance.now() - started);
        return answer;
      };
      for (let second = 0; second < 6; second += 1) {
        for (let n = 0; n < 20; n += 1) expect(await answerTo(await unknownKey(b, n))).toBe('unavailable');
        expect(await answerTo(good)).toBe('ann');
        pass(SECOND);
      }
      expect(b.issuer.asked() - before).toBeLessThanOrEqual(3);
      // None of these calls waited for the issuer.
      expect(slowestMs).toBeLessThan(2.5 * SECOND);
    },
  );

  test('expired cached keys stay valid until an outage of the issuer is over', async () => {
    const pass = stopClock();
    await using b = await setup();
    const own = signerOfNow(b);
    expect(await own()).toBe('ann');
    b.issuer.behave('refusing');
    pass(3_600 * SECOND);
    expect(await own()).toBe('ann');
    await b.issuer.rotate();
    b.issuer.retire();
    const fresh = await b.mint();
    expect(await b.answerTo(fresh)).toBe('unavailable');
    b.issuer.behave('well');
    pass(2 * SECOND);
    await expect.poll(() => b.answerTo(fresh)).toBe('ann');
    expect(await own()).toBe('refused');
  });

  test.each(['discovery', 'url'] as const)(
    'tokens are unavailable while the issuer was never reachable, and are accepted when it is back (%s)',
    async (finds) => {
      const pass = stopClock();
      await using b = await setup({ finds });
      b.issuer.behave('refusing');
      const good = await b.mint();
      const answers = await Promise.all(Array.from({ length: 50 }, () => b.answerTo(good)));
      expect(new Set(answers)).toEqual(new Set(['unavailable']));
      for (let n = 0; n < 20; n += 1) expect(await b.answerTo(good)).toBe('unavailable');
      expect(b.issuer.asked()).toBe(1);
      expect(b.keyErrors).toHaveLength(1);
      b.issuer.behave('well');
      pass(2 * SECOND);
      expect(await b.answerTo(good)).toBe('ann');
      expect(b.keyErrors).toHaveLength(1);
    },
  );

  test('each failed fetch is reported once, also while the last known keys are valid', async () => {
    const pass = stopClock();
    await using b = await setup();
    const own = signerOfNow(b);
    expect(await own()).toBe('ann');
    expect(b.keyErrors).toEqual([]);
    b.issuer.behave('refusing');
    pass(600 * SECOND);
    expect(await Promise.all([own(), own(), own()])).toEqual(['ann', 'ann', 'ann']);
    expect(b.keyErrors).toHaveLength(1);
    pass(2 * SECOND);
    expect(await Promise.all([own(), own()])).toEqual(['ann', 'ann']);
    await expect.poll(() => b.keyErrors.length).toBe(2);
    expect(b.keyErrors).toEqual([expect.any(Error), expect.any(Error)]);
  });

  test('malformed and unsigned tokens cause no request', async () => {
    await using b = await setup();
    for (const token of ['x', '..', `${'a'.repeat(20_000)}.b.c`, rawToken({ alg: 'none' }, {}, () => '')]) {
      expect(await b.answerTo(token)).toBe('refused');
    }
    expect(b.issuer.asked()).toBe(0);
  });
});
