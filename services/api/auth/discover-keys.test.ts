import { expect, test } from 'vitest';
import { discoveryUrl, fetchDiscovered, ISSUER_DOCUMENT_BYTES_MAX } from './discover-keys.ts';

const KEYS = { keys: [{ kid: 'one' }] };

/** Fetches the keys of an issuer. Returns its keys, or the message of the error, and the addresses that were asked. */
async function fetched(
  issuer: string,
  { jwksUri, padding = 0, keysPadding = 0 }: { jwksUri: string; padding?: number; keysPadding?: number },
) {
  const asked: string[] = [];
  const fetchKeys = fetchDiscovered(issuer, async (input) => {
    const url = input instanceof Request ? input.url : String(input);
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
