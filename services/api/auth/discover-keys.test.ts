import { expect, test } from 'vitest';
import { discoveryUrl, fetchDiscovered, ISSUER_DOCUMENT_BYTES_MAX } from './discover-keys.ts';

const KEYS = { keys: [{ kid: 'one' }] };

const urlOf = (input: Parameters<typeof fetch>[0]): string =>
  input instanceof Request ? input.url : String(input);

/** Fetches the keys of an issuer. Returns its keys, or the message of the error, and the addresses that were asked. */
async function fetched(
  issuer: string,
  { jwksUri, padding = 0, keysPadding = 0 }: { jwksUri: string; padding?: number; keysPadding?: number },
) {
  const asked: string[] = [];
  const fetchKeys = fetchDiscovered(issuer, async (input) => {
    const url = urlOf(input);
    asked.push(url);
    return url === discoveryUrl(issuer)
      ? Response.json({ issuer, jwks_uri: jwksUri, padding: ' '.repeat(padding) })
      : Response.json({ ...KEYS, padding: ' '.repeat(keysPadding) });
  });
  const options = { headers: new Headers(), method: 'GET', redirect: 'manual' } as const;
  const { signal } = new AbortController();
  const result = await fetchKeys(discoveryUrl(issuer), { ...options, signal }).then(
    async (response) => ((await response.json()) as typeof KEYS).keys,
    (error: unknown) => (error as Error).message,
  );
  return { result, asked };
}

test.each([
  ['https://id.example', 'https://keys.example/jwks'],
  // For development: nothing of such an issuer is protected anyway.
  ['http://127.0.0.1:4000', 'http://127.0.0.1:4000/jwks'],
  ['http://127.0.0.1:4000', 'https://keys.example/jwks'],
])('the keys of %s are read from %s', async (issuer, jwksUri) => {
  expect(await fetched(issuer, { jwksUri })).toEqual({
    result: KEYS.keys,
    asked: [discoveryUrl(issuer), jwksUri],
  });
});

test.each(['http://keys.example/jwks', 'HTTP://keys.example/jwks', 'data:application/json,{}'])(
  'the keys of an https issuer are not read from %s',
  async (jwksUri) => {
    expect(await fetched('https://id.example', { jwksUri })).toEqual({
      result: "the issuer's discovery document names keys without https",
      asked: [discoveryUrl('https://id.example')],
    });
  },
);

test.each([
  [
    'that names another issuer',
    { issuer: 'https://other.example', jwks_uri: 'https://keys.example/jwks' },
    200,
  ],
  ['that does not say where the keys are', { issuer: 'https://id.example' }, 200],
  [
    'of an answer that is no success',
    { issuer: 'https://id.example', jwks_uri: 'https://keys.example/jwks' },
    404,
  ],
])('no keys are read by a document %s', async (_, document, status) => {
  const asked: string[] = [];
  const fetchKeys = fetchDiscovered('https://id.example', async (input) => {
    asked.push(urlOf(input));
    return asked.length === 1 ? Response.json(document, { status }) : Response.json(KEYS);
  });
  const { signal } = new AbortController();
  const options = { headers: new Headers(), method: 'GET', redirect: 'manual', signal } as const;
  await expect(fetchKeys(discoveryUrl('https://id.example'), options)).rejects.toThrow(
    status === 200 ? "the issuer's discovery document is not its own" : 'answered 404',
  );
  expect(asked).toEqual([discoveryUrl('https://id.example')]);
});

test('the status of the keys is passed on, also without a body', async () => {
  const fetchKeys = fetchDiscovered('https://id.example', async (input) =>
    urlOf(input) === discoveryUrl('https://id.example')
      ? Response.json({ issuer: 'https://id.example', jwks_uri: 'https://keys.example/jwks' })
      : new Response(null, { status: 503 }),
  );
  const { signal } = new AbortController();
  const options = { headers: new Headers(), method: 'GET', redirect: 'manual', signal } as const;
  expect((await fetchKeys(discoveryUrl('https://id.example'), options)).status).toBe(503);
});

test('documents of an issuer that are too large are refused', async () => {
  const jwksUri = 'https://keys.example/jwks';
  const tooLarge = `an issuer's document exceeds ${ISSUER_DOCUMENT_BYTES_MAX} bytes`;
  const discovery = await fetched('https://id.example', { jwksUri, padding: ISSUER_DOCUMENT_BYTES_MAX });
  expect(discovery).toEqual({ result: tooLarge, asked: [discoveryUrl('https://id.example')] });
  const keys = await fetched('https://id.example', { jwksUri, keysPadding: ISSUER_DOCUMENT_BYTES_MAX });
  expect(keys.result).toBe(tooLarge);
  const fine = await fetched('https://id.example', { jwksUri, padding: ISSUER_DOCUMENT_BYTES_MAX - 200 });
  expect(fine.result).toEqual(KEYS.keys);
});
