import { createHmac, createPublicKey, constants, generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AUDIENCE, request, startTestApi, type Reply, type TestApi } from '#test/support/api.ts';
import { rawToken, signedBy, signWith, type Claims } from './raw-token.ts';

let api: TestApi;
/** A server of the attacker that publishes keys, with the requests that it received. */
let evil: { readonly url: string; readonly visits: string[]; readonly close: () => void };

const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ed = generateKeyPairSync('ed25519');
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' });

beforeAll(async () => {
  api = await startTestApi();
  const visits: string[] = [];
  const keys = {
    keys: [{ ...ec.publicKey.export({ format: 'jwk' }), kid: 'key-1', alg: 'ES256', use: 'sig' }],
  };
  const server = createServer(({ url }, response) => {
    visits.push(url ?? '');
    response.end(JSON.stringify(keys));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  evil = { url: `http://127.0.0.1:${port}/jwks.json`, visits, close: () => server.close() };
});
afterAll(async () => {
  evil.close();
  await api[Symbol.asyncDispose]();
});

const now = (): number => Math.floor(Date.now() / 1000);
const header = (): Claims => ({ alg: 'ES256', kid: api.issuer.current().kid, typ: 'at+jwt' });
const claims = (): Claims => ({
  iss: api.issuer.issuer,
  aud: AUDIENCE,
  sub: 'ann',
  iat: now(),
  exp: now() + 600,
});
const me = (token: string): Promise<Reply> =>
  request(api.first, 'GET', '/v1/admin/me', { headers: { authorization: `Bearer ${token}` } });
/** A token that the issuer signed. */
const genuine = (change: Claims = {}, headerChange: Claims = {}): string =>
  rawToken({ ...header(), ...headerChange }, { ...claims(), ...change }, signedBy(api.issuer.current()));
const without = (claim: string): string => {
  const { [claim]: _, ...rest } = claims();
  return rawToken(header(), rest, signedBy(api.issuer.current()));
};
/** A token with the issuer's name that the attacker signed. */
const strangers = (headerChange: Claims = {}): string =>
  rawToken({ ...header(), ...headerChange }, claims(), signedBy(ec as never));

/** Every token gets the same refusal, so that an attacker does not learn which check failed. */
const REFUSED = {
  status: 401,
  challenge: 'Bearer',
  body: {
    statusCode: 401,
    path: '/v1/admin/me',
    code: 'unauthenticated',
    message: expect.stringMatching(/^Missing or invalid authentication: /),
  },
};

async function answerTo(token: string): Promise<unknown> {
  const { status, headers, body } = await me(token);
  const { timestamp: _, requestId: __, ...rest } = body as Record<string, unknown>;
  return { status, challenge: headers['www-authenticate'], body: rest };
}

describe('a genuine token signs in', () => {
  test.each<[string, () => string]>([
    ['as it is', () => genuine()],
    ['of several audiences', () => genuine({ aud: ['another', AUDIENCE] })],
    ['without a type', () => genuine({}, { typ: undefined })],
    ['of a type in capitals', () => genuine({}, { typ: 'JWT' })],
    ['of a type in full', () => genuine({}, { typ: 'application/at+jwt' })],
    ['without a key id while the issuer has one key', () => genuine({}, { kid: undefined })],
    ['not valid before now', () => genuine({ nbf: now() })],
    ['with further claims', () => genuine({ role: 'owner', tenant: '*', scope: 'admin' })],
  ])('%s', async (_, token) => {
    expect(await me(token())).toMatchObject({ status: 200, body: { subject: 'ann', tenants: [] } });
  });
});

describe('a token without a valid signature is rejected', () => {
  test.each(['none', 'None', 'NONE', 'nOnE', '', undefined, null, ['ES256'], 0])(
    'with the algorithm %o',
    async (alg) => {
      expect(await answerTo(rawToken({ ...header(), alg }, claims(), () => ''))).toEqual(REFUSED);
      expect(
        await answerTo(rawToken({ ...header(), alg }, claims(), signedBy(api.issuer.current()))),
      ).toEqual(REFUSED);
    },
  );

  test.each(['sha256', 'sha384', 'sha512'])(
    'with a symmetric algorithm (%s) keyed with data that the issuer publishes',
    async (digest) => {
      const { jwk, kid } = api.issuer.current();
      const key = createPublicKey({ key: jwk, format: 'jwk' });
      const published = [
        key.export({ type: 'spki', format: 'pem' }),
        (key.export({ type: 'spki', format: 'pem' }) as string).trim(),
        key.export({ type: 'spki', format: 'der' }),
        JSON.stringify(jwk),
        Buffer.from(jwk.x ?? '', 'base64url'),
        jwk.x ?? '',
        kid,
        '',
      ];
      for (const secret of published) {
        const alg = `HS${digest.slice(3)}`;
        expect(
          await answerTo(
            rawToken({ ...header(), alg }, claims(), (input) =>
              createHmac(digest, secret).update(input).digest(),
            ),
          ),
        ).toEqual(REFUSED);
      }
    },
  );

  test("signed with a foreign key, in every algorithm, with and without the issuer's key id", async () => {
    const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };
    const signers: Record<string, (input: string) => Buffer> = {
      ES256: (input) => signWith(ec.privateKey, { dsaEncoding: 'ieee-p1363' }, input),
      ES384: (input) => signWith(p384.privateKey, { dsaEncoding: 'ieee-p1363' }, input, 'sha384'),
      RS256: (input) => signWith(rsa.privateKey, {}, input),
      RS512: (input) => signWith(rsa.privateKey, {}, input, 'sha512'),
      PS256: (input) => signWith(rsa.privateKey, pss, input),
      EdDSA: (input) => signWith(ed.privateKey, {}, input, null),
      Ed25519: (input) => signWith(ed.privateKey, {}, input, null),
    };
    for (const [alg, sign] of Object.entries(signers)) {
      expect(await answerTo(rawToken({ ...header(), alg }, claims(), sign))).toEqual(REFUSED);
      expect(await answerTo(rawToken({ alg, typ: 'at+jwt' }, claims(), sign))).toEqual(REFUSED);
    }
  });

  test('that contains its own keys or their URL, and the URL is never fetched', async () => {
    const jwk = { ...ec.publicKey.export({ format: 'jwk' }), alg: 'ES256', kid: 'key-1' };
    const der = ec.publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
    for (const brought of [
      { jwk },
      { jwk, kid: undefined },
      { jku: evil.url },
      { x5u: evil.url },
      { x5c: [der] },
      { jku: evil.url, x5u: evil.url, jwk, kid: 'another' },
      { iss: evil.url.replace('/jwks.json', '') },
    ]) {
      expect(await answerTo(strangers(brought))).toEqual(REFUSED);
      expect(await answerTo(strangers({ ...brought, crit: Object.keys(brought) }))).toEqual(REFUSED);
    }
    expect(
      await answerTo(
        rawToken(header(), { ...claims(), iss: evil.url.replace('/jwks.json', '') }, signedBy(ec as never)),
      ),
    ).toEqual(REFUSED);
    expect(evil.visits).toEqual([]);
  });

  test.each([
    '../../../../dev/null',
    '/dev/null',
    'file:///etc/passwd',
    "key-1' or '1'='1",
    "'; drop table despatch.users --",
    '__proto__',
    'constructor',
    'key-1\u0000',
    'KEY-1',
    ' key-1',
    'key-1,key-2',
    'x'.repeat(8_000),
    '',
    1,
    null,
    true,
    {},
    ['key-1'],
    { $ne: null },
  ])('signed with a foreign key, with the key id %j', async (kid) => {
    expect(await answerTo(strangers({ kid }))).toEqual(REFUSED);
  });

  test('that was changed after it was signed', async () => {
    const [head = '', , signature = ''] = genuine().split('.');
    const other = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    expect(await answerTo(`${head}.${other({ ...claims(), sub: 'platform' })}.${signature}`)).toEqual(
      REFUSED,
    );
    expect(
      await answerTo(`${other({ ...header(), extra: 1 })}.${genuine().split('.').slice(1).join('.')}`),
    ).toEqual(REFUSED);
    const bytes = Buffer.from(signature, 'base64url');
    bytes[5] = (bytes[5] ?? 0) ^ 1;
    expect(
      await answerTo([...genuine().split('.').slice(0, 2), bytes.toString('base64url')].join('.')),
    ).toEqual(REFUSED);
    expect(await answerTo([...genuine().split('.').slice(0, 2), ''].join('.'))).toEqual(REFUSED);
    // The signature r = s = 0, which a broken verifier accepts for any message.
    expect(await answerTo(rawToken(header(), claims(), () => Buffer.alloc(64)))).toEqual(REFUSED);
  });

  test.each<[string, () => string]>([
    ['of five parts', () => `${genuine()}.x.y`],
    ['of two parts', () => genuine().split('.').slice(0, 2).join('.')],
    ['in JSON form', () => JSON.stringify({ payload: 'x', protected: 'y', signature: 'z' })],
    ['whose claims are a string', () => rawToken(header(), '"ann"', signedBy(api.issuer.current()))],
    ['whose claims are a list', () => rawToken(header(), '[]', signedBy(api.issuer.current()))],
    ['whose claims are not JSON', () => rawToken(header(), '{', signedBy(api.issuer.current()))],
    ['whose header is not JSON', () => rawToken('{', claims(), signedBy(api.issuer.current()))],
    ['of 20,000 characters', () => genuine({ padding: 'x'.repeat(15_000) })],
    ['of a million characters', () => `${'a'.repeat(1_000_000)}.b.c`],
    ['of ten thousand dots', () => '.'.repeat(10_000)],
  ])('%s', async (_, token) => {
    expect(await answerTo(token())).toEqual(REFUSED);
  });
});

describe('a token signed by the issuer is rejected', () => {
  test.each<[string, Claims]>([
    ['of another issuer', { iss: 'https://evil.example' }],
    ['of an issuer with a trailing slash', { iss: 'ISSUER/' }],
    ['of a list of issuers', { iss: ['ISSUER'] }],
    ['for another audience', { aud: 'despatch-admin' }],
    ['for no audience', { aud: [] }],
    ['for an audience with the same prefix', { aud: 'despatchx' }],
    ['for an audience that is an object', { aud: { despatch: true } }],
    ['of an empty subject', { sub: '' }],
    ['of a subject that is a number', { sub: 7 }],
    ['of a subject of 256 characters', { sub: 'x'.repeat(256) }],
    ['of a subject with a NUL', { sub: 'ann\u0000' }],
    ['of a subject with half of a surrogate pair', { sub: 'ann\ud800' }],
    ['with exp null', { exp: null }],
    ['with exp as text', { exp: '9999999999' }],
    ['that expired an hour ago', { exp: now() - 3_600 }],
    ['with nbf in an hour', { nbf: now() + 3_600 }],
    ['with nbf as text', { nbf: 'now' }],
    ['with iat in an hour', { iat: now() + 3_600 }],
    ['with iat as text', { iat: 'now' }],
  ])('%s', async (_, change) => {
    const own = JSON.parse(JSON.stringify(change).replaceAll('ISSUER', api.issuer.issuer)) as Claims;
    expect(await answerTo(genuine(own))).toEqual(REFUSED);
  });

  test.each(['iss', 'aud', 'sub', 'exp'])('without the claim %s', async (claim) => {
    expect(await answerTo(without(claim))).toEqual(REFUSED);
  });

  test.each<[string, Claims]>([
    ['of another type', { typ: 'logout+jwt' }],
    ['of the type of a DPoP proof', { typ: 'dpop+jwt' }],
    ['of a type that is a number', { typ: 1 }],
    ['of a list of types', { typ: ['at+jwt'] }],
    ['with an unknown critical header', { crit: ['tenant'], tenant: 'x' }],
    ['with an empty list of critical headers', { crit: [] }],
    ['with unencoded claims (b64)', { crit: ['b64'], b64: false }],
    ['of another algorithm than its key', { alg: 'ES384' }],
  ])('%s', async (_, change) => {
    expect(await answerTo(genuine({}, change))).toEqual(REFUSED);
  });
});

describe('the Authorization header', () => {
  test.each([
    '',
    'Bearer',
    'Bearer ',
    'Basic YTpi',
    'Token x',
    'Bearer a b',
    'Bearer, Bearer',
    'bearer=x',
    `Bearer ${'='.repeat(100)}`,
  ])('%o is rejected', async (authorization) => {
    const reply = await request(api.first, 'GET', '/v1/admin/me', { headers: { authorization } });
    expect(reply).toMatchObject({ status: 401, body: { code: 'unauthenticated' } });
  });

  test('a token in the query or in a cookie is ignored', async () => {
    const token = genuine();
    const inQuery = await request(api.first, 'GET', `/v1/admin/me?access_token=${token}`);
    const inCookie = await request(api.first, 'GET', '/v1/admin/me', {
      headers: { cookie: `access_token=${token}; Authorization=Bearer ${token}` },
    });
    expect([inQuery.status, inCookie.status]).toEqual([401, 401]);
  });

  test('two Authorization headers are rejected, because a proxy may have checked the other one', async () => {
    await using instance = await listening();
    const good = `Bearer ${genuine()}`;
    const other = `Bearer ${genuine({ sub: randomUUID() })}`;
    expect(await statusOf(instance.port, [good])).toBe(200);
    for (const pair of [
      [good, 'Bearer x'],
      ['Bearer x', good],
      [good, other],
      [good, good],
      [good, ''],
    ]) {
      expect(await statusOf(instance.port, pair)).toBe(401);
    }
  });

  async function listening(): Promise<AsyncDisposable & { readonly port: number }> {
    const { app, stop } = await api.instance();
    await app.listen({ host: '127.0.0.1', port: 0 });
    return { port: (app.server.address() as AddressInfo).port, [Symbol.asyncDispose]: stop };
  }

  /** Uses a plain socket, because a client library would join or drop repeated headers. */
  async function statusOf(port: number, authorizations: readonly string[]): Promise<number> {
    const socket = connect(port, '127.0.0.1');
    const lines = authorizations.map((value) => `Authorization: ${value}\r\n`).join('');
    socket.write(`GET /v1/admin/me HTTP/1.1\r\nHost: x\r\n${lines}Connection: close\r\n\r\n`);
    let answer = '';
    for await (const chunk of socket) answer += String(chunk);
    return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
  }
});
