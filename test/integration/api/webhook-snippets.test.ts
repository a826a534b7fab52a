import { generateKeyPairSync, randomBytes, randomUUID, type KeyObject } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createWebhookSigner } from '#core/domain/webhooks/webhook-signature.ts';
import {
  prepareKeySnippet,
  prepareSnippet,
  SNIPPET_LANGUAGES,
  type SnippetCall,
} from '#test/support/webhook-snippets.ts';

const newSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;
const [PRESENT, FORMER, FOREIGN] = [newSecret(), newSecret(), newSecret()];
const BODY = JSON.stringify({ type: 'message.sent', data: { externalId: 'Grüße ✓' } });

/** A call as the product's own signer makes it. */
function call(
  secrets: readonly string[],
  ageSeconds = 0,
  signingKey?: KeyObject,
): Omit<SnippetCall, 'secret'> {
  const id = randomUUID();
  const timestamp = Math.floor(Date.now() / 1_000) - ageSeconds;
  const signatures = createWebhookSigner({ secrets, signingKey })(id, timestamp, Buffer.from(BODY));
  return { id, timestamp: String(timestamp), signatures, body: BODY };
}

describe.each(Object.keys(SNIPPET_LANGUAGES))(
  'the signature verification code of the guide in %s',
  (language) => {
    test('accepts calls signed with the present or the previous secret, and refuses all others', async (context) => {
      await using snippet = await prepareSnippet(language);
      if (snippet === null) return context.skip(`no program runs ${language}`);
      const fresh = call([PRESENT]);
      const rotated = call([PRESENT, FORMER]);
      // One after the other, each signed right before its check: a slow start does not make a signature older.
      const cases: readonly [name: string, expected: boolean, call: () => SnippetCall][] = [
        ['ours', true, () => ({ ...fresh, secret: PRESENT })],
        ['rotated, by the present secret', true, () => ({ ...rotated, secret: PRESENT })],
        ['rotated, by the former secret', true, () => ({ ...rotated, secret: FORMER })],
        ['four minutes old', true, () => ({ ...call([PRESENT], 240), secret: PRESENT })],
        [
          'beside an unknown signature',
          true,
          () => ({ ...fresh, secret: PRESENT, signatures: `v1a,AA== ${fresh.signatures}` }),
        ],
        ['another secret', false, () => ({ ...fresh, secret: FOREIGN })],
        ['rotated, by another secret', false, () => ({ ...rotated, secret: FOREIGN })],
        ['a longer body', false, () => ({ ...fresh, secret: PRESENT, body: `${BODY} ` })],
        ['another body', false, () => ({ ...fresh, secret: PRESENT, body: BODY.replace('sent', 'lost') })],
        ['no body', false, () => ({ ...fresh, secret: PRESENT, body: '' })],
        ['another id', false, () => ({ ...fresh, secret: PRESENT, id: randomUUID() })],
        ['no id', false, () => ({ ...fresh, secret: PRESENT, id: '' })],
        [
          'another timestamp',
          false,
          () => ({ ...fresh, secret: PRESENT, timestamp: String(Number(fresh.timestamp) - 1) }),
        ],
        ['six minutes old', false, () => ({ ...call([PRESENT], 360), secret: PRESENT })],
        ['six minutes ahead', false, () => ({ ...call([PRESENT], -360), secret: PRESENT })],
        ['a timestamp that is none', false, () => ({ ...fresh, secret: PRESENT, timestamp: 'now' })],
        ['no signature', false, () => ({ ...fresh, secret: PRESENT, signatures: '' })],
        [
          'half a signature',
          false,
          () => ({ ...fresh, secret: PRESENT, signatures: fresh.signatures.slice(0, 20) }),
        ],
        [
          'a signature of another version',
          false,
          () => ({ ...fresh, secret: PRESENT, signatures: fresh.signatures.replace('v1,', 'v1a,') }),
        ],
        ['a signature that is no text', false, () => ({ ...fresh, secret: PRESENT, signatures: 'v1,ü✓' })],
      ];
      const found: [name: string, isTaken: boolean][] = [];
      for (const [name, , one] of cases) found.push([name, await snippet.verify(one())]);
      expect(found).toEqual(cases.map(([name, expected]) => [name, expected]));
      // On a machine where a compiler was never used it first builds its own standard library.
    }, 300_000);
  },
);

test('the v1a verification code of the guide accepts calls signed with a published key, and refuses all others', async () => {
  await using snippet = await prepareKeySnippet();
  const [own, former] = [generateKeyPairSync('ed25519'), generateKeyPairSync('ed25519')];
  const jwks = (...pairs: readonly (typeof own)[]) =>
    JSON.stringify({ keys: pairs.map(({ publicKey }) => publicKey.export({ format: 'jwk' })) });
  const fresh = { ...call([PRESENT], 0, own.privateKey), secret: jwks(own, former) };
  const cases: readonly [name: string, expected: boolean, call: SnippetCall][] = [
    ['ours', true, fresh],
    ['of a former key', true, { ...call([PRESENT], 0, former.privateKey), secret: jwks(own, former) }],
    ['of a key that is not shown', false, { ...fresh, secret: jwks(former) }],
    ['no keys', false, { ...fresh, secret: jwks() }],
    ['another body', false, { ...fresh, body: BODY.replace('sent', 'lost') }],
    ['another id', false, { ...fresh, id: randomUUID() }],
    ['six minutes old', false, { ...call([PRESENT], 360, own.privateKey), secret: jwks(own) }],
    ['without it', false, { ...call([PRESENT]), secret: jwks(own) }],
    ['half of it', false, { ...fresh, signatures: fresh.signatures.slice(0, -20) }],
    ['under another version', false, { ...fresh, signatures: fresh.signatures.replace('v1a,', 'v1,') }],
  ];
  const found = await Promise.all(cases.map(async ([name, , one]) => [name, await snippet.verify(one)]));
  expect(found).toEqual(cases.map(([name, expected]) => [name, expected]));
}, 120_000);
