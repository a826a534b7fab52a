import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import fastify from 'fastify';
import { expect, test } from 'vitest';
import { staticAsset } from './static-asset.ts';

const TEXT = 'the same again and '.repeat(1_000);

function setup(load: () => Buffer = () => Buffer.from(TEXT)) {
  const app = fastify();
  app.get('/asset', staticAsset({ contentType: 'text/plain; charset=utf-8', maxAgeSeconds: 60, load }));
  const get = (headers: Record<string, string> = {}) => app.inject({ method: 'GET', url: '/asset', headers });
  return { get, [Symbol.asyncDispose]: () => app.close() };
}

test.each([
  ['br', 'gzip, deflate, br', brotliDecompressSync],
  ['gzip', 'gzip', gunzipSync],
  ['gzip', 'br;q=0, gzip;q=0.5', gunzipSync],
  [undefined, 'identity', (bytes: Buffer) => bytes],
  [undefined, 'br;q=0.0', (bytes: Buffer) => bytes],
])(
  'an asset is sent with content encoding %s for accept-encoding "%s"',
  async (encoding, accepted, decode) => {
    await using app = setup();
    const answer = await app.get({ 'accept-encoding': accepted });
    expect(answer.headers).toMatchObject({ 'cache-control': 'public, max-age=60', vary: 'accept-encoding' });
    expect(answer.headers['content-encoding']).toBe(encoding);
    expect(decode(answer.rawPayload).toString()).toBe(TEXT);
  },
);

test('a request with the current ETag is answered 304', async () => {
  await using app = setup();
  const { headers } = await app.get();
  const again = await app.get({ 'if-none-match': String(headers['etag']) });
  expect(again.statusCode).toBe(304);
  expect(again.payload).toBe('');
  expect((await app.get({ 'if-none-match': `"old", ${String(headers['etag'])}` })).statusCode).toBe(304);
  expect((await app.get({ 'if-none-match': '"another"' })).statusCode).toBe(200);
});

test('concurrent requests load the asset once', async () => {
  let made = 0;
  await using app = setup(() => {
    made += 1;
    return Buffer.from(TEXT);
  });
  await Promise.all(['br', 'gzip', 'identity', 'br'].map((name) => app.get({ 'accept-encoding': name })));
  expect(made).toBe(1);
});

test('a failed load is repeated by the next request', async () => {
  let tries = 0;
  await using app = setup(() => {
    tries += 1;
    if (tries === 1) throw new Error('not yet');
    return Buffer.from(TEXT);
  });
  expect((await app.get()).statusCode).toBe(500);
  expect((await app.get()).payload).toBe(TEXT);
});
